"""Topics are looked up for patterns a stretch at a time."""

from collections.abc import Iterable

from tierlog.clients.kafka_uuid import Uuid
from tierlog.coordinator.consumer.regex_lookup import NAMES_PER_STRETCH, RegexLookup
from tierlog.replication.metadata.cluster_image import ClusterImage, TopicImage


def cluster(*names: str) -> ClusterImage:
    topics = {name: TopicImage(name, Uuid(name.encode().rjust(16)), {}) for name in names}
    return ClusterImage("cluster", offset=7, topics_by_name=topics)


def test_each_pattern_gets_its_topics_in_order() -> None:
    lookup = RegexLookup(["a.*", ".*b", "none"], cluster("b", "ab", "aa", "c"))
    assert lookup.is_done_after_next()
    found = lookup.result(now_ms=5)
    assert {regex: value.topics for regex, value in found.items()} == {
        "a.*": ("aa", "ab"),
        ".*b": ("ab", "b"),
        "none": (),
    }
    assert {(value.version, value.timestamp_ms) for value in found.values()} == {(7, 5)}


def test_a_pattern_that_cannot_be_read_stands_for_nothing_and_harms_no_other() -> None:
    lookup = RegexLookup(["[", "a"], cluster("a"))
    assert lookup.is_done_after_next()
    assert lookup.result(0)["["].topics == ()
    assert lookup.result(0)["a"].topics == ("a",)


def test_many_topics_take_several_stretches() -> None:
    names = [f"t-{number:04}" for number in range(2 * NAMES_PER_STRETCH + 1)]
    lookup = RegexLookup(["t.*"], cluster(*names))
    assert not lookup.is_done_after_next()
    assert len(lookup.result(0)["t.*"].topics) == NAMES_PER_STRETCH
    assert not lookup.is_done_after_next()
    assert lookup.is_done_after_next()
    assert list(lookup.result(0)["t.*"].topics) == names


def test_large_patterns_take_a_stretch_each() -> None:
    regexes = [f"(a{{1000}}){{25}}{number}" for number in range(3)]
    lookup = RegexLookup(regexes, cluster("a"))
    assert [lookup.is_done_after_next() for _ in range(4)] == [False, False, False, True]


def test_a_name_that_is_much_work_takes_several_stretches() -> None:
    lookup = RegexLookup(["(?:(?:b?){1000}.)*"], cluster("".join(map(chr, range(ord("c"), 122)))))
    stretches = 1
    while not lookup.is_done_after_next():
        stretches += 1
    assert stretches > 2
    assert len(lookup.result(0)["(?:(?:b?){1000}.)*"].topics) == 1


def test_a_topic_that_the_client_may_not_describe_is_no_match() -> None:
    asked: list[str] = []

    def describable(names: Iterable[str]) -> set[str]:
        asked.extend(names)
        return {"aa", "b"}

    lookup = RegexLookup(["a.*", ".*b"], cluster("b", "ab", "aa", "c"), describable)
    assert lookup.is_done_after_next()
    found = lookup.result(now_ms=5)
    assert {regex: value.topics for regex, value in found.items()} == {
        "a.*": ("aa",),
        ".*b": ("b",),
    }
    # Only what matches is decided.
    assert set(asked) == {"ab", "aa", "b"}

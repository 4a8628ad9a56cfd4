"""Which topics and partitions a scan reads, by the options of Spark's Kafka source and ours."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan import plan_scan, read_task
from tierlog.pipeline.reading.scan_options import TRIGGER_DELAY_MS, ScanError, scan_options
from tierlog.pipeline.reading.tier_topics import topic_names
from tierlog.pipeline.reading.topic_choice import TopicMatcher
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.object_keys import object_key

PLACES = {("orders", 0): 10, ("orders", 1): 20, ("orders-eu", 0): 30, ("refunds", 0): 40}
"""Some partitions, and how many records each has."""


@pytest.fixture
def place(tmp_path: Path) -> str:
    bucket = Bucket()
    for number, ((topic, partition), count) in enumerate(PLACES.items()):
        topic_id = Uuid(topic.ljust(16).encode())
        where = TopicIdPartition(topic_id, topic, partition)
        bucket.put(number + 1, (0, count - 1), partition=where)
    unfinished = TopicIdPartition(Uuid(b"a topic to come "), "orders-us", 0)
    metadata = bucket.put(9, (0, 5), partition=unfinished)
    del bucket.objects[object_key(metadata, "manifest")]
    bucket.write_to(tmp_path / "tier")
    return str(tmp_path / "tier")


def read(place: str, **stated: str) -> dict[tuple[str, int], int]:
    """How many records each partition has in a scan."""
    options = scan_options({"path": place, **stated})
    found: dict[tuple[str, int], int] = {}
    for task in plan_scan(options):
        for batch in read_task(options, task):
            for row in cast("list[dict[str, Any]]", cast("Any", batch).to_pylist()):
                key = row["topic"], row["partition"]
                found[key] = found.get(key, 0) + 1
    return found


def error_of(**stated: str) -> str:
    with pytest.raises(ScanError) as failed:
        scan_options({"path": "/tier", **stated})
    assert "\n" not in str(failed.value)
    return str(failed.value)


def of(*places: tuple[str, int]) -> dict[tuple[str, int], int]:
    return {each: PLACES[each] for each in places}


def test_subscribe_reads_topics_by_name(place: str) -> None:
    everything = of(("orders", 0), ("orders", 1), ("refunds", 0))
    assert read(place, subscribe="orders, refunds,") == everything
    assert read(place, topic="refunds,orders") == everything


def test_assign_reads_these_partitions_and_no_others(place: str) -> None:
    assigned = json.dumps({"orders": [1], "refunds": [0]})
    assert read(place, assign=assigned) == of(("orders", 1), ("refunds", 0))
    with pytest.raises(ScanError, match="Topic 'orders' has no partition 7 in the tier"):
        read(place, assign='{"orders": [0, 7], "refunds": [0]}')


def test_assign_and_offsets_name_the_same_partitions(place: str) -> None:
    assigned = '{"orders": [1]}'
    found = read(place, assign=assigned, startingOffsets='{"orders": {"1": 15}}')
    assert found == {("orders", 1): 5}
    with pytest.raises(ScanError, match="startingOffsets must name every partition: orders-1"):
        read(place, assign=assigned, startingOffsets='{"orders": {"0": 15}}')


def test_a_pattern_matches_whole_names_of_topics_that_have_a_complete_segment(place: str) -> None:
    assert read(place, subscribePattern="orders") == of(("orders", 0), ("orders", 1))
    every = of(("orders", 0), ("orders", 1), ("orders-eu", 0))
    assert read(place, subscribePattern="orders.*") == every
    assert read(place, subscribePattern=" (orders|refunds) ", partition="0") == of(
        ("orders", 0), ("refunds", 0)
    )


def test_a_pattern_may_match_nothing_but_there_has_to_be_a_tier(place: str, tmp_path: Path) -> None:
    assert read(place, subscribePattern="payments") == {}
    with pytest.raises(ScanError, match="There is no tier at"):
        read(str(tmp_path), subscribePattern="orders")


def test_a_pattern_that_would_backtrack_for_ages_does_not() -> None:
    """Java and Python would need longer than anyone can wait: the test would time out."""
    options = scan_options({"path": "/tier", "subscribePattern": "(a*)*(a*)*(a*)*b"})
    assert options.topic_pattern == "(a*)*(a*)*(a*)*b"
    assert TopicMatcher(options.topic_pattern).matching(["a" * 249, "aab"]) == ("aab",)


def test_exactly_one_way_to_name_topics_is_stated() -> None:
    names = "topic, subscribe, subscribePattern, assign"
    assert error_of() == (
        f"One of the following options must be specified for format('tierlog'): {names}"
    )
    assert error_of(subscribe="a", ASSIGN='{"a": [0]}') == (
        f"Only one of the following options can be specified for format('tierlog'): {names}"
    )


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "a(b"}, "missing closing )"),
        ({"subscribePattern": "(?=a)b"}, "is not a regular expression of RE2"),
        ({"assign": "orders"}, "is not JSON of the form"),
        ({"assign": "[" * 100_000}, "is not JSON of the form"),
        ({"assign": '{"orders": [true]}'}, "is not JSON of the form"),
        ({"assign": '{"orders": [-1]}'}, "is not JSON of the form"),
        ({"assign": '{"../../x": [0]}'}, "is not JSON of the form"),
        ({"assign": '{"orders": 3}'}, "is not JSON of the form"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"orders": [0]}', "partition": "0"}, "exclude each other"),
        ({"topic": "a", "kafka.bootstrap.servers": "x:9092"}, "leave out the options of a Kafka"),
        ({"topic": "a", "groupIdPrefix": "x"}, "has no option 'groupidprefix'"),
        ({"topic": "a", "minPartitions": "0"}, "minPartitions='0' is not a whole number of"),
        ({"topic": "a", "maxRecordsPerPartition": "x"}, "maxRecordsPerPartition='x'"),
        ({"topic": "a", "maxTriggerDelay": "soon"}, "is not a time such as 15m, 30s or 250ms"),
        ({"topic": "a", "maxTriggerDelay": "-1s"}, "is not a time such as"),
        (
            {"topic": "a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "The value of minOffsetsPerTrigger (5) is higher than maxOffsetsPerTrigger (4)",
        ),
        (
            {
                "topic": "a",
                "isolation": "read_committed",
                "kafka.isolation.level": "read_uncommitted",
            },
            "contradict each other",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options: dict[str, str], mention: str) -> None:
    assert mention in error_of(**options)


def test_the_isolation_level_of_a_consumer_counts() -> None:
    stated = {"path": "/tier", "topic": "a", "kafka.isolation.level": "READ_COMMITTED"}
    assert scan_options(stated).is_read_committed
    assert not scan_options({"path": "/tier", "topic": "a"}).is_read_committed


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("2min", 120_000), ("30S", 30_000), ("250", 250), ("1d", 86_400_000)],
)
def test_a_delay_is_a_time_string_of_spark(text: str, milliseconds: int) -> None:
    stated = {"path": "/tier", "topic": "a", "MaxTriggerDelay": text}
    assert scan_options(stated).max_trigger_delay_ms == milliseconds
    assert TRIGGER_DELAY_MS == 900_000


async def test_a_notebook_with_an_event_loop_finds_the_topics_of_a_pattern(place: str) -> None:
    options = scan_options({"path": place, "subscribePattern": "orders.*"})
    assert topic_names(options) == ("orders", "orders-eu")


def test_topics_of_a_tier_that_is_not_there_are_an_error_in_one_sentence(tmp_path: Path) -> None:
    options = scan_options({"path": str(tmp_path / "none"), "subscribePattern": ".*"})
    with pytest.raises(ScanError, match="There is no tier at"):
        topic_names(options)

"""The range assignor shares partitions as Kafka's does."""

from hypothesis import given, strategies as st

from tierlog.clients.consumer.assignor import assign_ranges
from tierlog.clients.topic_partition import TopicPartition


def test_the_first_members_get_what_does_not_divide() -> None:
    assigned = assign_ranges({"b": ["t"], "a": ["t"]}, {"t": 3})
    assert assigned == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1)],
        "b": [TopicPartition("t", 2)],
    }


def test_each_topic_is_shared_among_its_own_subscribers() -> None:
    assigned = assign_ranges({"a": ["t", "u"], "b": ["t"]}, {"t": 2, "u": 2})
    assert [str(partition) for partition in assigned["a"]] == ["t-0", "u-0", "u-1"]
    assert [str(partition) for partition in assigned["b"]] == ["t-1"]


def test_a_topic_that_is_not_known_is_left_out() -> None:
    assert assign_ranges({"a": ["absent"]}, {}) == {"a": []}


TOPICS = ("t", "u", "v")


@given(
    subscriptions=st.dictionaries(
        st.text(min_size=1, max_size=3), st.lists(st.sampled_from(TOPICS), unique=True), max_size=5
    ),
    counts=st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS}),
)
def test_every_partition_has_one_subscriber_and_shares_differ_by_one(
    subscriptions: dict[str, list[str]], counts: dict[str, int]
) -> None:
    assigned = assign_ranges(subscriptions, counts)
    everything = [partition for partitions in assigned.values() for partition in partitions]
    subscribed = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(everything) == [
        TopicPartition(topic, number)
        for topic in sorted(subscribed)
        for number in range(counts[topic])
    ]
    for topic in subscribed:
        shares = [
            sum(partition.topic == topic for partition in assigned[member])
            for member, topics in subscriptions.items()
            if topic in topics
        ]
        assert max(shares) - min(shares) <= 1

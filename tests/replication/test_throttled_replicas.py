"""Which replicas are under a quota: a topic's list names partitions and brokers, or all."""

import pytest

from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.replication_quota import ReplicationQuota
from tierlog.replication.throttled_replicas import ThrottledReplicas, partitions_of
from tierlog.storage.config import LogConfig


def throttle(broker_id: int = 2) -> ThrottledReplicas:
    return ThrottledReplicas(
        ReplicationQuota(), broker_id, lambda topic: topic.leader_replication_throttled_replicas
    )


def listing(*replicas: str) -> LogConfig:
    return LogConfig(leader_replication_throttled_replicas=replicas)


@pytest.mark.parametrize(
    ("replicas", "partitions"),
    [
        ((), set[int]()),
        (("*",), {0, 1, 2, 3}),
        (("0:2", "1:1", "3:2"), {0, 3}),
        (("0:1", "1:3"), set[int]()),
        (("2:22", "22:2", "1:2"), {1}),
    ],
)
def test_the_list_of_the_topic_names_replicas_of_this_broker(
    replicas: tuple[str, ...], partitions: set[int]
) -> None:
    here, config = throttle(), listing(*replicas)
    assert {each for each in range(4) if here.includes(TopicPartition("t", each), config)} == (
        partitions
    )


def test_a_new_list_counts_at_once_and_topics_have_their_own() -> None:
    here = throttle()
    first, second, third = (TopicPartition(name, 0) for name in "tuv")
    assert here.includes(first, listing("0:2"))
    assert not here.includes(second, listing("1:2"))
    assert not here.includes(first, listing("1:2"))
    assert here.includes(first, listing("1:2", "0:2"))
    assert not here.includes(third, listing())


def test_only_listed_replicas_are_counted_and_held_back() -> None:
    here, listed, other = throttle(), listing("0:2"), listing()
    name = TopicPartition("t", 0)
    here.quota.bytes_per_second = 10
    here.record(name, other, 1_000, 0.0)
    assert not here.holds_back(name, listed, 0.0)
    here.record(name, listed, 1_000, 0.0)
    assert here.holds_back(name, listed, 0.0)
    assert not here.holds_back(name, other, 0.0)
    assert not here.holds_back(name, listed, 11.0)


def test_a_list_is_parsed_for_one_broker() -> None:
    assert partitions_of(("0:1", "1:1", "0:2"), 1) == {0, 1}

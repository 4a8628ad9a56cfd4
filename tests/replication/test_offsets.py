"""Offsets by name, by time and by epoch, and moving the first one forward."""

from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.offset_lookup import OffsetQuery
from tierlog.replication.partition.fetch_data import EpochEndOffset
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.replication.broker_node import BrokerNode, codes, offsets, with_broker
from tierlog.tests.replication.node import create, creation
from tierlog.tests.simulation.disk import SimulatedDisk


async def test_offsets_by_name_and_by_time(node: BrokerNode) -> None:
    await create(node.controller, "t")
    empty = offsets(node, -1, -2, -3, 0)
    assert [(found.offset, found.leader_epoch) for found in empty] == [
        (0, 0), (0, 0), (-1, -1), (-1, -1),
    ]  # fmt: skip
    node.append("t", b"a", b"b", b"c")
    found = offsets(node, -1, -2, -3, -4, -5, 1_001, 1_003)
    assert [(one.timestamp, one.offset, one.leader_epoch) for one in found] == [
        (-1, 3, 0),
        (-1, 0, 0),
        (1_002, 2, 0),
        (-1, 0, 0),
        (-1, -1, -1),
        (1_001, 1, 0),
        (-1, -1, -1),
    ]
    assert offsets(node, -7)[0].error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.scenario("6")
async def test_what_is_in_the_tier_and_what_is_not_yet(node: BrokerNode) -> None:
    """As Apache Kafka 4.3.1 answers: -6 is nothing when nothing is pending."""
    await create(node.controller, "t")
    log = node.replicas.partition(TopicPartition("t", 0)).log
    log.update_config(replace(log.config, remote_storage_enable=True))
    assert [(one.offset, one.leader_epoch) for one in offsets(node, -5, -6)] == [(-1, -1)] * 2
    node.append("t", b"a", b"b", b"c")
    node.append("t", b"d")
    for copied, pending in ((-1, (0, 0)), (1, (2, 0)), (2, (3, 0)), (3, (-1, -1))):
        log.bounds.update_highest_remote(copied)
        tiered = (copied, 0 if copied >= 0 else -1)
        found = offsets(node, -5, -6)
        assert [(one.offset, one.leader_epoch) for one in found] == [tiered, pending]
    # The records go, and with them the epoch of the last tiered offset.
    log.bounds.update_highest_remote(2)
    log.maybe_increment_log_start_offset(3)
    found = offsets(node, -2, -5, -6)
    assert [(one.offset, one.leader_epoch) for one in found] == [(3, 0), (2, -1), (3, 0)]


async def test_refused_offset_queries(node: BrokerNode) -> None:
    await create(node.controller, "t")
    queries = [
        OffsetQuery(TopicPartition("t", 9), -1),
        OffsetQuery(TopicPartition("t", 0), -1, current_leader_epoch=3),
        OffsetQuery(TopicPartition("t", 0), -1, current_leader_epoch=0),
    ]
    outcome = node.replicas.list_offsets(queries, FetchIsolation.HIGH_WATERMARK)
    assert isinstance(outcome, list)
    assert [found.error for found in outcome] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
    ]


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    disk = SimulatedDisk()
    partition = TopicPartition("t", 0)

    async def first(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"a", b"b")
        assert node.replicas.offset_for_leader_epoch(partition, -1, 0) == EpochEndOffset(0, 2)
        assert node.replicas.offset_for_leader_epoch(partition, 0, 1) == EpochEndOffset(-1, -1)

    async def second(node: BrokerNode) -> None:
        # Nothing is written in epoch 2 yet: it begins and ends at the log end.
        assert node.replicas.offset_for_leader_epoch(partition, 2, 0) == EpochEndOffset(0, 2)
        assert node.replicas.offset_for_leader_epoch(partition, 2, 2) == EpochEndOffset(2, 2)
        with pytest.raises(KafkaError) as refused:
            node.replicas.offset_for_leader_epoch(partition, 0, 0)
        assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH

    async def third(node: BrokerNode) -> None:
        # Epoch 2 left no trace, so 0 is the largest known below it, and ends where 4 will begin.
        assert node.replicas.offset_for_leader_epoch(partition, 4, 2) == EpochEndOffset(0, 2)
        node.append("t", b"c")
        assert node.replicas.offset_for_leader_epoch(partition, 4, 2) == EpochEndOffset(0, 2)
        assert node.replicas.offset_for_leader_epoch(partition, 4, 4) == EpochEndOffset(4, 3)

    for life in (first, second, third):
        with_broker(life, disk)


async def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(
    node: BrokerNode,
) -> None:
    await create(node.controller, "t")
    await create(node.controller, "__consumer_offsets")
    response = await node.controller.create_topics(
        creation("compacted", configs={"cleanup.policy": "compact"})
    )
    assert response.topics[0].error_code == 0
    node.append("t", b"a", b"b", b"c")
    name = TopicPartition("t", 0)

    def delete_to(offset: int, topic: TopicPartition = name) -> tuple[ErrorCode, int]:
        outcome = node.replicas.delete_records([(topic, offset)], 1_000)
        assert isinstance(outcome, list)
        return outcome[0].error, outcome[0].low_watermark

    assert delete_to(2) == (ErrorCode.NONE, 2)
    assert delete_to(1) == (ErrorCode.NONE, 2)
    assert codes(node.fetch_now(node.asked("t", 1))) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert delete_to(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(-1) == (ErrorCode.NONE, 3)
    assert offsets(node, -2)[0].offset == 3
    for topic, code in (
        ("compacted", ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert delete_to(0, TopicPartition(topic, 0)) == (code, -1)

"""A broker is fenced that led thousands of partitions: the change of all of them comes in turns.

The event loop that applies it also answers the heartbeats and the quorum's requests.
"""

import asyncio
from itertools import pairwise
from typing import cast

import pytest

from tierlog.broker.request.large_requests import LargeRequests
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.leader.log_reader import LogReader
from tierlog.replication.leader.partition_backlog import (
    CHANGED_AT_ONCE,
    CHANGED_PER_TURN,
    CONFIGURED_AT_ONCE,
)
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition, FetchResults
from tierlog.replication.partition.partition import Partition
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.replication.three_replicas import LEADER, SECOND, Leader

MANY = CHANGED_AT_ONCE + 3 * CHANGED_PER_TURN
MANY_ID = Uuid(b"m" * 16)


def led(leader: Leader, leader_epoch: int) -> int:
    """How many of the many partitions this broker leads in that epoch."""
    return sum(
        each.is_leader and each.leader_epoch == leader_epoch
        for name, each in leader.replicas.partitions.items()
        if name.topic == "many"
    )


async def follow_many(leader: Leader) -> None:
    """Another broker leads them, and this one follows."""
    leader.publish(
        TopicRecord(name="many", topic_id=MANY_ID),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=MANY_ID,
                replicas=[LEADER, SECOND],
                isr=[LEADER, SECOND],
                leader=SECOND,
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(MANY)
        ),
    )
    for _ in range(MANY):
        await asyncio.sleep(0)
    assert len(leader.replicas.partitions) == MANY + 1


def elect(leader: Leader, *numbers: int) -> None:
    leader.publish(
        *(
            PartitionChangeRecord(
                partition_id=number, topic_id=MANY_ID, isr=[LEADER], leader=LEADER
            )
            for number in numbers
        )
    )


async def test_the_change_of_very_many_partitions_leaves_the_loop_to_others(leader: Leader) -> None:
    await follow_many(leader)
    elect(leader, *range(MANY))
    counts = [led(leader, 1)]
    assert counts == [CHANGED_AT_ONCE]
    for _ in range(20):
        await asyncio.sleep(0)
        counts.append(led(leader, 1))
        assert counts[-1] - counts[-2] <= CHANGED_PER_TURN
    assert counts[-1] == MANY


async def test_what_waits_gets_the_newest_change(leader: Leader) -> None:
    await follow_many(leader)
    elect(leader, *range(MANY))
    last = MANY - 1
    elect(leader, last)
    assert leader.replicas.partition(TopicPartition("many", last)).leader_epoch == 2
    for _ in range(20):
        await asyncio.sleep(0)
    assert (led(leader, 1), led(leader, 2)) == (MANY - 1, 1)


async def test_a_topic_that_is_deleted_meanwhile_is_gone_at_once(leader: Leader) -> None:
    await follow_many(leader)
    elect(leader, *range(MANY))
    leader.publish(RemoveTopicRecord(topic_id=MANY_ID))
    assert len(leader.replicas.partitions) == 1
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(leader.replicas.partitions) == 1


def configure(leader: Leader, max_message_bytes: int) -> None:
    leader.publish(
        ConfigRecord(
            resource_type=ConfigResourceType.TOPIC,
            resource_name="many",
            name="max.message.bytes",
            value=str(max_message_bytes),
        )
    )


def configured(leader: Leader, max_message_bytes: int) -> int:
    """How many of the many partitions have that configuration."""
    return sum(
        each.log.config.max_message_bytes == max_message_bytes
        for name, each in leader.replicas.partitions.items()
        if name.topic == "many"
    )


async def test_the_configuration_of_very_many_partitions_leaves_the_loop_to_others(
    leader: Leader,
) -> None:
    await follow_many(leader)
    configure(leader, 1234)
    assert configured(leader, 1234) == CONFIGURED_AT_ONCE
    await leader.replicas.until_settled()
    assert configured(leader, 1234) == MANY

    configure(leader, 4321)
    configure(leader, 99)
    await leader.replicas.until_settled()
    assert configured(leader, 99) == MANY, "what waits gets the newest configuration"


async def test_a_fetch_that_waits_for_all_of_them_looks_at_each_once_more(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had looked at all of them for each that changed: for seconds, with three thousand."""
    await follow_many(leader)
    elect(leader, *range(MANY))
    await asyncio.sleep(1)
    asked = [
        FetchPartition(TopicIdPartition(MANY_ID, "many", number), 0, 1 << 20)
        for number in range(MANY)
    ]
    params = FetchParams(SECOND, max_wait_ms=10_000, isolation=FetchIsolation.LOG_END)
    waiting = leader.replicas.leader_fetch.fetch(params, asked)
    assert isinstance(waiting, asyncio.Future)
    looks: list[FetchPartition] = []
    partition_for = LogReader.partition_for

    def count(self: LogReader, fetch_partition: FetchPartition) -> Partition:
        looks.append(fetch_partition)
        return partition_for(self, fetch_partition)

    compared: list[Partition] = []

    def is_same(self: Partition, other: object) -> bool:
        compared.append(self)
        return self is other

    monkeypatch.setattr(LogReader, "partition_for", count)
    # A search for each partition among all of them took half a second, of ten thousand five.
    monkeypatch.setattr(Partition, "__eq__", is_same)
    elect(leader, *range(MANY))
    await asyncio.sleep(1)
    assert led(leader, 2) == MANY
    assert not waiting.done()
    assert MANY <= len(looks) <= 2 * MANY
    assert len(compared) <= MANY
    waiting.cancel()


async def wait_for_all(leader: Leader) -> "list[asyncio.Future[FetchResults]]":
    """Ten consumers, each of which waits for all of the many partitions."""
    queue = LargeRequests()
    asked = [
        FetchPartition(TopicIdPartition(MANY_ID, "many", number), 0, 1 << 20)
        for number in range(MANY)
    ]
    params = FetchParams(max_wait_ms=10_000, rack="")
    fetch = leader.replicas.leader_fetch.fetch_in_steps
    begun = [queue.submit(fetch(params, asked, queue.submit)) for _ in range(10)]
    return [cast("asyncio.Future[FetchResults]", await each) for each in begun]


async def test_large_fetches_that_one_change_completes_leave_the_loop_to_others(
    leader: Leader,
) -> None:
    """Of three thousand partitions each, a hundred held up everyone for three seconds."""
    await follow_many(leader)
    waiting = await wait_for_all(leader)
    name = TopicPartition("many", 7)
    leader.publish(RemoveTopicRecord(topic_id=MANY_ID))
    assert name not in leader.replicas.partitions
    counts: list[int] = []
    while len(counts) < 500:
        counts.append(sum(each.done() for each in waiting))
        await asyncio.sleep(0)
    assert counts[0] == 0
    assert counts[-1] == len(waiting)
    assert max(after - before for before, after in pairwise(counts)) == 1
    assert all(each.error_code for each in waiting[0].result())


@pytest.mark.parametrize("after", [1, 5, 12, 14, 20])
async def test_a_leadership_that_ends_while_a_follower_reads_ends_its_fetch(
    leader: Leader, after: int
) -> None:
    await follow_many(leader)
    elect(leader, *range(MANY))
    await leader.replicas.until_settled()
    queue = LargeRequests()
    asked = [
        FetchPartition(TopicIdPartition(MANY_ID, "many", number), 0, 1 << 20, 1)
        for number in range(MANY)
    ]
    params = FetchParams(SECOND, max_wait_ms=10_000, isolation=FetchIsolation.LOG_END)
    steps = leader.replicas.leader_fetch.fetch_in_steps(params, asked, queue.submit)
    for _ in range(after):
        next(steps)
    leader.publish(
        *(
            PartitionChangeRecord(
                partition_id=number, topic_id=MANY_ID, isr=[SECOND], leader=SECOND
            )
            for number in range(MANY)
        )
    )
    await leader.replicas.until_settled()
    begin = asyncio.get_running_loop().time()
    outcome = await queue.submit(steps)
    if isinstance(outcome, asyncio.Future):
        outcome = await cast("asyncio.Future[FetchResults]", outcome)
    results = cast("FetchResults", outcome)
    assert asyncio.get_running_loop().time() - begin < 1
    assert len(results) == MANY
    refusals = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
    # One that waits is read again when the first of them has changed.
    assert refusals & {each.error_code for each in results}
    assert {each.error_code for each in results} <= {*refusals, ErrorCode.NONE}
    assert len(leader.replicas.leader_fetch.purgatory) == 0

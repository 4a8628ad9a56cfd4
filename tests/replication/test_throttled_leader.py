"""The leaders' replication quota (KIP-73): it holds back new replicas, never those in the ISR."""

import asyncio

import pytest

from tierlog.clients.protocol.primitives import size_of
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.simulation.loop import SimulatedLoop

from .leaders_quota import RATE, listed, rated, within
from .three_replicas import LEADER, SECOND, THIRD, TOPIC_ID, Leader, one_leader

VALUE = b"v" * 400


def nbytes(leader: Leader, follower: int, offset: int, max_bytes: int = 1) -> int:
    """The bytes that a follower gets at once; one batch by default."""
    params = FetchParams(follower, max_wait_ms=0, isolation=FetchIsolation.LOG_END)
    asked = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 0), offset, max_bytes, 0)
    results = leader.replicas.leader_fetch.fetch(params, [asked])
    assert isinstance(results, list)
    assert results[0].error_code == 0
    records = results[0].records
    return 0 if not records else size_of(records)


@pytest.mark.parametrize("replicas", [("*",), ("0:1", "0:3")])
async def test_a_new_replica_takes_its_bytes_by_the_rate(
    loop: SimulatedLoop, replicas: tuple[str, ...]
) -> None:
    async with one_leader(loop, within(rated())) as leader:
        leader.change(isr=[LEADER, SECOND])
        listed(leader, *replicas)
        batches = 50
        for _ in range(batches):
            leader.append(VALUE, acks=1)
        began, total, offset = loop.time(), 0, 0
        while offset < batches:
            got = nbytes(leader, THIRD, offset)
            total, offset = total + got, offset + bool(got)
            await asyncio.sleep(0 if got else 0.01)
        assert loop.time() - began == pytest.approx(total / RATE, abs=1.5)
        assert loop.time() - began > 20


async def test_a_replica_in_the_isr_is_counted_but_never_held_back(loop: SimulatedLoop) -> None:
    quota = rated()

    async with one_leader(loop, within(quota)) as leader:
        leader.change(isr=[LEADER, SECOND])
        listed(leader, "*")
        for _ in range(20):
            leader.append(VALUE, acks=1)
        for offset in range(20):
            assert nbytes(leader, SECOND, offset)
        assert quota.is_exceeded(asyncio.get_running_loop().time())
        assert not nbytes(leader, THIRD, 0)
        # Its fetch is noted all the same.
        follower = leader.replicas.partition(next(iter(leader.replicas.partitions))).follower(THIRD)
        assert follower is not None
        assert follower.log_end_offset == 0


async def test_a_fetch_that_is_held_back_waits_and_is_empty(loop: SimulatedLoop) -> None:
    quota = rated()

    async with one_leader(loop, within(quota)) as leader:
        leader.change(isr=[LEADER, SECOND])
        listed(leader, "0:1")
        for _ in range(20):
            leader.append(VALUE, acks=1)
        assert nbytes(leader, THIRD, 0, 1 << 20) > 5 * RATE
        params = FetchParams(THIRD, max_wait_ms=500, isolation=FetchIsolation.LOG_END)
        asked = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 0), 1, 1 << 20, 0)
        waits = leader.replicas.leader_fetch.fetch(params, [asked])
        assert isinstance(waits, asyncio.Future)
        leader.append(VALUE, acks=1)
        await asyncio.sleep(0.4)
        assert not waits.done()
        (result,) = await waits
        assert (result.error_code, not result.records) == (0, True)
        # A higher limit, or a list without the replica, counts at the next fetch.
        listed(leader, "1:1")
        assert nbytes(leader, THIRD, 1)
        listed(leader, "0:1")
        assert not nbytes(leader, THIRD, 1)
        quota.bytes_per_second = 100 * RATE
        assert nbytes(leader, THIRD, 1)

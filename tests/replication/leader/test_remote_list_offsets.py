"""ListOffsets that needs the remote tier (KIP-405, KIP-1075; scenarios, section 6)."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.offset_lookup import OffsetQuery, OffsetResult
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.async_tests import entered
from tierlog.tests.replication.broker_node import BrokerNode, count_waiting
from tierlog.tests.replication.node import delete
from tierlog.tests.replication.slow_tier import SlowTier, tiered_node
from tierlog.tests.simulation.loop import SimulatedLoop

pytestmark = pytest.mark.scenario("6")


def ask(
    node: BrokerNode, *asked: tuple[int, int], timeout_ms: int = 0
) -> "asyncio.Future[list[OffsetResult]]":
    """ListOffsets of these (partition, timestamp); the tier must be needed."""
    queries = [OffsetQuery(TopicPartition("t", number), time) for number, time in asked]
    outcome = node.replicas.list_offsets(queries, FetchIsolation.HIGH_WATERMARK, timeout_ms)
    assert isinstance(outcome, asyncio.Future)
    return outcome


def found(results: list[OffsetResult]) -> list[tuple[ErrorCode, int]]:
    return [(result.error, result.offset) for result in results]


@pytest.fixture
def node(loop: SimulatedLoop, tier: SlowTier) -> BrokerNode:
    return entered(tiered_node(loop, tier))


async def test_offsets_by_time_look_into_the_tier_first(node: BrokerNode, tier: SlowTier) -> None:
    results = await ask(node, *((0, time) for time in (1_001, -2, -4, 13, 5_000)))
    assert found(results) == [
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 3),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.NONE, -1),
    ]


async def test_what_takes_longer_than_the_client_waits_is_timed_out_by_itself(
    node: BrokerNode, tier: SlowTier
) -> None:
    loop = asyncio.get_running_loop()
    tier.seconds = {0: 0.1, 1: 60}
    begin = loop.time()
    results = await ask(node, (0, 1_001), (1, 1_001), (2, -2), timeout_ms=2_000)
    assert 2 <= loop.time() - begin < 2.1
    assert found(results) == [
        (ErrorCode.NONE, 1),
        (ErrorCode.REQUEST_TIMED_OUT, -1),
        (ErrorCode.NONE, 0),
    ]
    assert count_waiting(node.replicas)["RemoteListOffsets"] == 0
    # The search goes on: what it has brought makes the next try a quick one.
    await asyncio.sleep(60)
    assert tier.finished == 2


async def test_who_gives_no_time_waits_as_long_as_the_broker_says(
    node: BrokerNode, tier: SlowTier
) -> None:
    """`remote.list.offsets.request.timeout.ms`, changeable at run time."""
    loop = asyncio.get_running_loop()
    tier.seconds = {0: 60}
    begin = loop.time()
    assert found(await ask(node, (0, 1_001))) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert 30 <= loop.time() - begin < 30.1
    node.replicas.set_remote_timeouts(500, 5_000)
    begin = loop.time()
    assert found(await ask(node, (0, 1_001))) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert 5 <= loop.time() - begin < 5.1


async def test_a_partition_that_is_not_led_here_any_more_is_answered_at_once(
    node: BrokerNode, tier: SlowTier
) -> None:
    tier.seconds = {0: 60}
    waiting = ask(node, (0, 1_001))
    await asyncio.sleep(0.05)
    await delete(node.controller, "t")
    assert found(await waiting) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_a_client_that_goes_away_leaves_nothing_waiting(
    node: BrokerNode, tier: SlowTier
) -> None:
    tier.seconds = {0: 5}
    waiting = ask(node, (0, 1_001))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.sleep(0)
    assert count_waiting(node.replicas)["RemoteListOffsets"] == 0
    await asyncio.sleep(10)
    assert tier.finished == 1


async def test_partitions_are_searched_at_the_same_time(node: BrokerNode, tier: SlowTier) -> None:
    loop = asyncio.get_running_loop()
    tier.seconds = {0: 3, 1: 3, 2: 3}
    begin = loop.time()
    results = await ask(node, (0, 1_001), (1, 1_001), (2, 1_001))
    assert loop.time() - begin < 3.1
    assert [result.offset for result in results] == [1, 1, 1]

"""Fetches that need the remote tier (pitfalls of KIP-405's readers)."""

import asyncio
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.messages.fetch import AbortedTransaction
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.partition.fetch_data import FetchParams
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.async_tests import entered
from tierlog.tests.replication.broker_node import BrokerNode, codes, count_waiting, values_in
from tierlog.tests.replication.node import creation, delete
from tierlog.tests.replication.slow_tier import SlowTier, fetch, tiered_node
from tierlog.tests.simulation.loop import SimulatedLoop


@pytest.fixture
def node(loop: SimulatedLoop, tier: SlowTier) -> BrokerNode:
    return entered(tiered_node(loop, tier))


@pytest.mark.scenario("4.6")
@pytest.mark.scenario("8.1")
async def test_all_remote_partitions_of_a_fetch_are_read_at_the_same_time(
    node: BrokerNode, tier: SlowTier
) -> None:
    loop = asyncio.get_running_loop()
    tier.seconds = {0: 0.2, 1: 0.2, 2: 0.2}
    begin = loop.time()
    results = await fetch(node, 0, 1, 2)
    assert [values_in(result) for result in results] == [
        [b"remote 0"], [b"remote 1"], [b"remote 2"],
    ]  # fmt: skip
    assert loop.time() - begin < 0.3
    assert [(result.high_watermark, result.log_start_offset) for result in results] == [(4, 0)] * 3
    assert count_waiting(node.replicas)["RemoteFetch"] == 0


async def test_local_and_remote_partitions_are_answered_together(
    node: BrokerNode, tier: SlowTier
) -> None:
    results = await fetch(node, 3, 0)
    assert [values_in(result) for result in results] == [[b"local"], [b"remote 1"]]


@pytest.mark.scenario("4.6")
@pytest.mark.scenario("8.1")
async def test_what_is_not_there_in_time_is_answered_as_empty_and_goes_on_being_read(
    node: BrokerNode, tier: SlowTier
) -> None:
    loop = asyncio.get_running_loop()
    tier.seconds = {0: 0.1, 1: 30}
    begin = loop.time()
    results = await fetch(node, 0, 0)
    assert 0.5 <= loop.time() - begin < 0.55
    assert [values_in(result) for result in results] == [[b"remote 0"], []]
    assert codes(results) == [ErrorCode.NONE] * 2
    assert tier.finished == 1
    await asyncio.sleep(40)
    assert tier.finished == 2


@pytest.mark.scenario("8.1")
async def test_a_client_that_goes_away_does_not_interrupt_the_read(
    node: BrokerNode, tier: SlowTier
) -> None:
    tier.seconds = {0: 5}
    outcome = node.replicas.leader_fetch.fetch(FetchParams(), [node.asked("t", 0)])
    assert isinstance(outcome, asyncio.Future)
    await asyncio.sleep(0.1)
    outcome.cancel()
    await asyncio.sleep(0)
    assert count_waiting(node.replicas)["RemoteFetch"] == 0
    await asyncio.sleep(10)
    assert tier.finished == 1


async def test_a_follower_reads_the_tier_for_consumers_that_may_read_from_any_replica(
    node: BrokerNode, tier: SlowTier
) -> None:
    partition = node.replicas.partition(TopicPartition("t", 0))
    image = partition.image
    partition.update(replace(image, leader=99, leader_epoch=image.leader_epoch + 1))
    results = await fetch(node, 0, params=FetchParams(rack="near"))
    assert [values_in(result) for result in results] == [[b"remote 0"]]
    tier.errors = {0: KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "not loaded yet")}
    results = await fetch(node, 0, params=FetchParams(rack="near"))
    assert codes(results) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert codes(await fetch(node, 0)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "away"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (ZeroDivisionError("a fault of ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.scenario("4.6")
async def test_a_failed_read_is_an_error_for_its_partition_alone(
    node: BrokerNode, tier: SlowTier, error: Exception, code: ErrorCode
) -> None:
    tier.errors = {1: error}
    results = await fetch(node, 0, 0, 3)
    assert codes(results) == [ErrorCode.NONE, code, ErrorCode.NONE]
    assert values_in(results[0]) == [b"remote 0"]
    assert values_in(results[2]) == [b"local"]
    assert results[1].high_watermark == -1


async def test_the_first_partition_with_data_alone_may_exceed_the_limits(
    node: BrokerNode, tier: SlowTier
) -> None:
    params = FetchParams(max_bytes=100)
    await fetch(node, 4, 0, 0, params=params)
    assert [(read.max_bytes, read.min_one_message) for read in tier.reads] == [(100, True)]


async def test_a_remote_read_counts_as_the_bytes_that_it_may_bring(
    node: BrokerNode, tier: SlowTier
) -> None:
    asked = [node.asked("t", 0, partition=n, max_bytes=600) for n in range(3)]
    outcome = node.replicas.leader_fetch.fetch(FetchParams(max_bytes=1_000), asked)
    assert isinstance(outcome, asyncio.Future)
    await outcome
    assert [(read.max_bytes, read.min_one_message) for read in tier.reads] == [
        (600, True), (400, False),
    ]  # fmt: skip


@pytest.mark.scenario("4.6")
async def test_read_committed_gets_the_aborted_transactions_of_the_tier(
    node: BrokerNode, tier: SlowTier
) -> None:
    params = FetchParams(isolation=FetchIsolation.TXN_COMMITTED)
    results = await fetch(node, 0, 3, params=params)
    assert results[0].aborted_transactions == [AbortedTransaction(producer_id=7)]
    assert not results[1].aborted_transactions
    assert results[1].aborted_transactions is not None


@pytest.mark.scenario("8.1")
async def test_a_topic_that_goes_ends_the_wait_for_its_tier(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        tier.seconds = {0: 0.4}
        waiting = asyncio.ensure_future(fetch(node, 0))
        await asyncio.sleep(0.05)
        await delete(node.controller, "t")
        (result,) = await waiting
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert tier.finished == 0
        assert [deleted for _, deleted in tier.stopped] == [True]


@pytest.mark.scenario("8.1")
@pytest.mark.scenario("3.7")
async def test_a_follower_is_sent_to_the_tier_itself(node: BrokerNode, tier: SlowTier) -> None:
    params = FetchParams(replica_id=2, isolation=FetchIsolation.LOG_END)
    # Who is no replica is refused before anything is read.
    assert codes(await fetch(node, 0, params=params)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    partition = node.replicas.partition(TopicPartition("t", 0))
    partition.update(replace(partition.image, replicas=(*partition.image.replicas, 2)))
    assert codes(await fetch(node, 0, params=params)) == [ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE]
    assert not tier.reads


async def test_the_tier_is_notified_of_tiered_leaderships_only(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=2) as node:
        await node.controller.create_topics(creation("plain"))
        await node.controller.create_topics(creation("later"))
        names = [str(leader.topic_id_partition.topic_partition) for leader in tier.leaders]
        assert names == ["t-0", "t-1"]
        await node.controller.alter_topic_config("later", {"remote.storage.enable": "true"})
        assert tier.leaders[-1].topic_id_partition.topic == "later"
        assert tier.leaders[-1].leader_epoch == 0


@pytest.mark.scenario("8.1")
async def test_a_local_error_is_kept_beside_what_the_tier_gives(
    node: BrokerNode, tier: SlowTier
) -> None:
    asked = [node.asked("t", 0, partition=n) for n in range(2)]
    asked[0].current_leader_epoch = 7
    outcome = node.replicas.leader_fetch.fetch(FetchParams(), asked)
    assert isinstance(outcome, asyncio.Future)
    results = await outcome
    assert codes(results) == [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NONE]
    assert values_in(results[1]) == [b"remote 1"]
    assert len(tier.reads) == 1


@pytest.mark.scenario("8.1")
async def test_a_directory_that_fails_ends_the_wait(loop: SimulatedLoop, tier: SlowTier) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        tier.seconds = {0: 0.4}
        waiting = asyncio.ensure_future(fetch(node, 0))
        await asyncio.sleep(0.05)
        node.replicas.on_log_dir_failure(node.log_manager.log_dirs[0])
        (result,) = await waiting
        assert result.error_code != ErrorCode.NONE
        assert tier.finished == 0


@pytest.mark.scenario("8.1")
async def test_the_wait_can_be_changed_while_the_broker_runs(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    """`remote.fetch.max.wait.ms` (KIP-1018), and how often it ran out."""
    async with tiered_node(loop, tier, partitions=1) as node:
        tier.seconds = {0: 30}
        node.replicas.set_remote_timeouts(2_000, 30_000)
        begin = loop.time()
        (result,) = await fetch(node, 0)
        assert 2 <= loop.time() - begin < 2.1
        assert (result.error_code, result.high_watermark, result.log_start_offset) == (0, 4, 0)
        assert values_in(result) == []


async def test_an_empty_first_partition_does_not_keep_a_large_batch_from_its_reader(
    node: BrokerNode, tier: SlowTier
) -> None:
    """What may exceed the limits is the first partition that has data (KAFKA-19795)."""
    tier.empty = {0}
    params = FetchParams(max_bytes=10)
    results = await fetch(node, 0, 0, 0, params=params)
    assert [values_in(result) for result in results] == [[], [b"remote 1"], []]
    assert [read.topic_id_partition.partition for read in tier.reads] == [0, 1]
    tier.errors = {0: KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "away")}
    asked = [node.asked("t", 0, partition=n, max_bytes=10) for n in range(3)]
    outcome = node.replicas.leader_fetch.fetch(FetchParams(), asked)
    assert isinstance(outcome, asyncio.Future)
    results = await outcome
    assert results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [values_in(result) for result in results[1:]] == [[b"remote 1"], []]


async def test_everything_is_empty_once_and_not_read_for_ever(
    node: BrokerNode, tier: SlowTier
) -> None:
    tier.empty = {0, 1, 2}
    results = await fetch(node, 0, 0, 0, params=FetchParams(max_bytes=10))
    assert [values_in(result) for result in results] == [[], [], []]
    assert len(tier.reads) == 2


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        pytest.param(10_000.0, None, id="hangs"),
        pytest.param(0.001, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "away"), id="refuses"),
        pytest.param(0.001, ZeroDivisionError("a fault of ours"), id="fails"),
    ],
)
@pytest.mark.scenario("4.6")
async def test_a_store_that_is_away_is_asked_for_a_few_times_a_second(
    node: BrokerNode, tier: SlowTier, seconds: float, error: Exception | None
) -> None:
    """A client that is answered asks again at once, whatever the answer was."""
    loop = asyncio.get_running_loop()
    tier.seconds = dict.fromkeys(range(3), seconds)
    if error is not None:
        tier.errors = dict.fromkeys(range(3), error)
    requests, end = 0, loop.time() + 60
    while loop.time() < end:
        await fetch(node, 0, 0, 0)
        requests += 1
    assert requests <= 120


@pytest.mark.scenario("4.6")
async def test_a_throttled_fetch_waits_and_is_answered_empty_without_an_error(
    node: BrokerNode, tier: SlowTier
) -> None:
    """KIP-956: its client must not come back at once, and at once, and at once."""
    loop = asyncio.get_running_loop()
    tier.is_fetch_throttled = True
    begin = loop.time()
    (result,) = await fetch(node, 0, params=FetchParams(max_wait_ms=700))
    assert 0.7 <= loop.time() - begin < 0.75
    assert (result.error_code, values_in(result), tier.reads) == (ErrorCode.NONE, [], [])
    results = await fetch(node, 0, 3)
    assert [values_in(result) for result in results] == [[], [b"local"]]
    waiting = asyncio.ensure_future(fetch(node, 0, params=FetchParams(max_wait_ms=700)))
    await asyncio.sleep(0.1)
    tier.is_fetch_throttled = False
    (result,) = await waiting
    assert values_in(result) == [b"remote 0"]

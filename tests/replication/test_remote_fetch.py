"""Fetches and offset queries that need the remote tier (pitfalls of KIP-405's readers).

    REMOTE TIER   offsets 0..2      LOCAL LOG   offsets 3..

The tier here is played by `SlowTier`: what it takes and what it answers is the story's to decide.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.fetch_data import FetchParams, FetchPartitionResult
from tierlog.replication.offset_lookup import OffsetQuery, OffsetResult
from tierlog.storage.fetch_data import (
    FetchIsolation,
    RemoteRead,
    RemoteTimestampLookup,
    TimestampAndOffset,
)
from tierlog.storage.transaction_index import AbortedTxn
from tierlog.tests.replication.broker_node import (
    BrokerNode,
    batch_of,
    broker_node,
    codes,
    values_in,
)
from tierlog.tests.replication.node import creation, delete
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tiering.remote_log_manager import LeaderPartition
from tierlog.tiering.remote_log_reader import RemoteFetchResult


class SlowTier:
    """A remote tier that takes its time and answers as it is told."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.errors: dict[int, Exception] = {}
        self.reads: list[RemoteRead] = []
        self.finished = 0
        self.is_fetch_throttled = False
        self.leaders: list[LeaderPartition] = []
        self.stopped: list[tuple[TopicIdPartition, bool]] = []

    async def read(self, remote_read: RemoteRead) -> RemoteFetchResult:
        self.reads.append(remote_read)
        partition = remote_read.topic_id_partition.partition
        await asyncio.sleep(self.seconds.get(partition, 0.01))
        self.finished += 1
        error = self.errors.get(partition)
        if error is not None:
            raise error
        aborted = [AbortedTxn(7, 0, 1, 2)]
        is_committed = remote_read.isolation is FetchIsolation.TXN_COMMITTED
        return RemoteFetchResult(
            bytes(batch_of(b"remote %d" % partition)), aborted if is_committed else None
        )

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        await asyncio.sleep(0.01)
        if lookup.timestamp == 13:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The tier is away.")
        if lookup.timestamp > 1_002:
            return lookup.local_result
        return TimestampAndOffset(1_001, 1, 0)

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        self.leaders += leaders

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        self.stopped += [(partition, delete) for partition in partitions]


Story = Callable[[BrokerNode, SlowTier], Coroutine[object, object, None]]


def with_tier(story: Story, partitions: int = 3) -> None:
    """A broker with a tiered topic t, of which offsets 0 to 2 are in the tier alone."""

    async def whole(loop: SimulatedLoop) -> None:
        tier = SlowTier()
        async with broker_node(loop, SimulatedFiles(SimulatedDisk()), tier) as node:
            configs = {"remote.storage.enable": "true"}
            request = creation("t", partitions=partitions, configs=configs)
            response = await node.controller.create_topics(request)
            assert response.topics[0].error_code == 0
            for partition in range(partitions):
                node.append("t", b"a", b"b", b"c", partition=partition)
                node.append("t", b"local", partition=partition)
                log = node.replicas.partition(TopicPartition("t", partition)).log
                log.increment_local_log_start_offset(3)
            await story(node, tier)

    simulate(whole)


async def fetch(
    node: BrokerNode, *offsets: int, params: FetchParams | None = None
) -> list[FetchPartitionResult]:
    asked = [node.asked("t", offset, partition=n) for n, offset in enumerate(offsets)]
    outcome = node.replicas.fetch(params or FetchParams(), asked)
    return outcome if isinstance(outcome, list) else await outcome


def test_all_remote_partitions_of_a_fetch_are_read_at_the_same_time() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        loop = asyncio.get_running_loop()
        tier.seconds = {0: 0.2, 1: 0.2, 2: 0.2}
        begin = loop.time()
        results = await fetch(node, 0, 1, 2)
        assert [values_in(result) for result in results] == [
            [b"remote 0"], [b"remote 1"], [b"remote 2"],
        ]  # fmt: skip
        assert loop.time() - begin < 0.3
        assert [(result.high_watermark, result.log_start_offset) for result in results] == [
            (4, 0)
        ] * 3
        assert node.replicas.purgatory_sizes["RemoteFetch"] == 0

    with_tier(story)


def test_local_and_remote_partitions_are_answered_together() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        results = await fetch(node, 3, 0)
        assert [values_in(result) for result in results] == [[b"local"], [b"remote 1"]]

    with_tier(story)


def test_what_is_not_there_in_time_is_answered_as_empty_and_goes_on_being_read() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
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

    with_tier(story)


def test_a_client_that_goes_away_does_not_interrupt_the_read() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        tier.seconds = {0: 5}
        outcome = node.replicas.fetch(FetchParams(), [node.asked("t", 0)])
        assert isinstance(outcome, asyncio.Future)
        await asyncio.sleep(0.1)
        outcome.cancel()
        await asyncio.sleep(0)
        assert node.replicas.purgatory_sizes["RemoteFetch"] == 0
        await asyncio.sleep(10)
        assert tier.finished == 1

    with_tier(story)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "away"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (ZeroDivisionError("a fault of ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_read_is_an_error_for_its_partition_alone(
    error: Exception, code: ErrorCode
) -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        tier.errors = {1: error}
        results = await fetch(node, 0, 0, 3)
        assert codes(results) == [ErrorCode.NONE, code, ErrorCode.NONE]
        assert values_in(results[0]) == [b"remote 0"]
        assert values_in(results[2]) == [b"local"]
        assert results[1].high_watermark == -1

    with_tier(story)


def test_the_first_partition_with_data_alone_may_exceed_the_limits() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        params = FetchParams(max_bytes=100)
        await fetch(node, 4, 0, 0, params=params)
        assert [(read.max_bytes, read.min_one_message) for read in tier.reads] == [(100, True)]

    with_tier(story)


def test_a_remote_read_counts_as_the_bytes_that_it_may_bring() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        asked = [node.asked("t", 0, partition=n, max_bytes=600) for n in range(3)]
        outcome = node.replicas.fetch(FetchParams(max_bytes=1_000), asked)
        assert isinstance(outcome, asyncio.Future)
        await outcome
        assert [(read.max_bytes, read.min_one_message) for read in tier.reads] == [
            (600, True), (400, False),
        ]  # fmt: skip

    with_tier(story)


def test_read_committed_gets_the_aborted_transactions_of_the_tier() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        params = FetchParams(isolation=FetchIsolation.TXN_COMMITTED)
        results = await fetch(node, 0, 3, params=params)
        assert results[0].aborted_transactions == [AbortedTxn(7, 0, 1, 2)]
        assert not results[1].aborted_transactions
        assert results[1].aborted_transactions is not None

    with_tier(story)


def test_a_topic_that_goes_ends_the_wait_for_its_tier() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        tier.seconds = {0: 0.4}
        waiting = asyncio.ensure_future(fetch(node, 0))
        await asyncio.sleep(0.05)
        await delete(node.controller, "t")
        (result,) = await waiting
        assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert tier.finished == 0
        assert [deleted for _, deleted in tier.stopped] == [True]

    with_tier(story, partitions=1)


def test_a_follower_is_sent_to_the_tier_itself() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        params = FetchParams(replica_id=2, isolation=FetchIsolation.LOG_END)
        assert codes(await fetch(node, 0, params=params)) == [
            ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        ]
        assert not tier.reads

    with_tier(story)


def test_the_tier_is_told_of_tiered_leaderships_only() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        await node.controller.create_topics(creation("plain"))
        await node.controller.create_topics(creation("later"))
        names = [str(leader.topic_id_partition.topic_partition) for leader in tier.leaders]
        assert names == ["t-0", "t-1"]
        await node.controller.alter_topic_config("later", {"remote.storage.enable": "true"})
        assert tier.leaders[-1].topic_id_partition.topic == "later"
        assert tier.leaders[-1].leader_epoch == 0

    with_tier(story, partitions=2)


def test_offsets_by_time_look_into_the_tier_first() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        found = await offsets(node, 1_001, -2, -4, 13, 5_000)
        assert [(one.error, one.offset) for one in found] == [
            (ErrorCode.NONE, 1),
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 3),
            (ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (ErrorCode.NONE, -1),
        ]

    with_tier(story)


async def offsets(node: BrokerNode, *timestamps: int) -> list[OffsetResult]:
    queries = [OffsetQuery(TopicPartition("t", 0), timestamp) for timestamp in timestamps]
    outcome = node.replicas.list_offsets(queries, FetchIsolation.HIGH_WATERMARK)
    assert isinstance(outcome, asyncio.Future)
    return await outcome

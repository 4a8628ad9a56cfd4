"""A broker with a tiered topic, of which offsets 0 to 2 are in the tier alone.

    REMOTE TIER   offsets 0..2      LOCAL LOG   offsets 3..

The tier is played by `SlowTier`: what it takes and what it answers is the story's to decide.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.partition.fetch_data import FetchParams
from tierlog.storage.log.fetch_data import FetchIsolation, RemoteRead, RemoteTimestampLookup
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.replication.broker_node import BrokerNode, batch_of, broker_node
from tierlog.tests.replication.node import creation
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tiering.reading.remote_log_reader import RemoteFetchResult
from tierlog.tiering.remote_log_manager import LeaderPartition


class SlowTier:
    """A remote tier that takes its time and answers as it is told."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.errors: dict[int, Exception] = {}
        self.empty: set[int] = set()
        self.reads: list[RemoteRead] = []
        self.finished = 0
        self.is_fetch_throttled = False
        self.leaders: list[LeaderPartition] = []
        self.disabled: list[TopicIdPartition] = []
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
        records = bytes(batch_of(b"remote %d" % partition))
        if partition in self.empty:
            return RemoteFetchResult(b"", [])
        if len(records) > remote_read.max_bytes and not remote_read.min_one_message:
            return RemoteFetchResult(b"", [], first_entry_incomplete=True)
        return RemoteFetchResult(records, aborted if is_committed else None)

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        await asyncio.sleep(self.seconds.get(lookup.topic_id_partition.partition, 0.01))
        self.finished += 1
        if lookup.timestamp == 13:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The tier is away.")
        if lookup.timestamp > 1_002:
            return lookup.local_result
        return TimestampAndOffset(1_001, 1, 0)

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        self.leaders += leaders

    def on_tiering_disabled(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        self.disabled += [*(leader.topic_id_partition for leader in leaders), *followers]

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        self.stopped += [(partition, delete) for partition in partitions]


@asynccontextmanager
async def tiered_node(
    loop: SimulatedLoop, tier: SlowTier, partitions: int = 3
) -> AsyncGenerator[BrokerNode]:
    """A broker with a tiered topic t, of which offsets 0 to 2 are in the tier alone."""
    async with broker_node(loop, SimulatedFiles(SimulatedDisk()), tier) as node:
        configs = {"remote.storage.enable": "true"}
        request = creation("t", partitions=partitions, configs=configs)
        response = await node.controller.create_topics(request)
        assert response.topics[0].error_code == 0
        for partition in range(partitions):
            node.append("t", b"a", b"b", b"c", partition=partition)
            node.append("t", b"local", partition=partition)
            log = node.replicas.partition(TopicPartition("t", partition)).log
            log.bounds.advance_local_log_start(3)
        yield node


async def fetch(
    node: BrokerNode, *offsets: int, params: FetchParams | None = None
) -> list[PartitionData]:
    asked = [node.asked("t", offset, partition=n) for n, offset in enumerate(offsets)]
    outcome = node.replicas.leader_fetch.fetch(params or FetchParams(), asked)
    return outcome if isinstance(outcome, list) else await outcome

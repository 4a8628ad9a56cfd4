"""Shared by tests: a leader with two followers."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.protocol.schema import Message
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.leader.replica_manager import (
    ReplicaManager,
    ReplicaManagerConfig,
    ReplicaParts,
)
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.broker_node import batch_of
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

TOPIC_ID = Uuid(b"t" * 16)
T0 = TopicPartition("t", 0)
LEADER, SECOND, THIRD = 1, 2, 3


class Leader:
    """Broker 1 of three, and what its metadata says."""

    def __init__(self, loop: SimulatedLoop, parts_of: "PartsOf") -> None:
        self.environment = SimulatedEnvironment(loop)
        files = SimulatedFiles(SimulatedDisk())
        files.mkdirs("/data")
        self.image = ClusterImage("cluster")
        self.logs = log_manager = LogManager(files, ["/data"], LogConfig())
        self.replicas = ReplicaManager(
            ReplicaManagerConfig(LEADER),
            self.environment,
            log_manager,
            lambda: self.image,
            parts_of(self),
        )
        self.publish(
            *(
                RegisterBrokerRecord(broker_id=each, broker_epoch=10 * each, fenced=False)
                for each in (LEADER, SECOND, THIRD)
            ),
            TopicRecord(name="t", topic_id=TOPIC_ID),
            ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[1, 2, 3],
                isr=[1, 2, 3],
                leader=LEADER,
                leader_epoch=0,
                partition_epoch=0,
            ),
        )

    def publish(self, *records: Message) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(records)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.replicas.publish(self.image, delta)

    def change(self, isr: list[int] | None = None, leader: int = -2) -> None:
        record = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=isr, leader=leader)
        self.publish(record)

    @property
    def high_watermark(self) -> int:
        return self.replicas.partition(T0).log.high_watermark

    def append(
        self, *values: bytes, acks: int = -1, timeout_ms: int = 30_000
    ) -> "list[AppendEntry] | asyncio.Future[list[AppendEntry]]":
        entries = [AppendEntry(T0, batch_of(*values))]
        return self.replicas.append_records(AppendRequest(entries, acks, timeout_ms))

    def follow(
        self,
        broker_id: int,
        offset: int,
        epoch: int = 0,
        log_start: int = 0,
        broker_epoch: int = -1,
    ) -> PartitionData:
        """The follower says that it holds everything below `offset`, and takes what is there."""
        partition = TopicIdPartition(TOPIC_ID, "t", 0)
        asked = FetchPartition(partition, offset, 1 << 20, epoch, log_start_offset=log_start)
        params = FetchParams(
            broker_id, max_wait_ms=0, isolation=FetchIsolation.LOG_END, replica_epoch=broker_epoch
        )
        results = self.replicas.leader_fetch.fetch(params, [asked])
        assert isinstance(results, list)
        return results[0]


PartsOf = Callable[[Leader], ReplicaParts]
"""What the leader's replicas have to do with."""


def alone(_: Leader) -> ReplicaParts:
    return ReplicaParts()


@asynccontextmanager
async def one_leader(loop: SimulatedLoop, parts_of: PartsOf = alone) -> AsyncGenerator[Leader]:
    leader = Leader(loop, parts_of)
    yield leader
    await leader.replicas.stop()

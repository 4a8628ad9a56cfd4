"""A broker without its sockets: controller, logs and replica manager on a simulated disk."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.leader.offset_lookup import OffsetQuery, OffsetResult
from tierlog.replication.leader.replica_directories import (
    ControllerReports,
    MoveTools,
    ReplicaDirectories,
)
from tierlog.replication.leader.replica_manager import (
    ReplicaManager,
    ReplicaManagerConfig,
    ReplicaParts,
)
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition
from tierlog.replication.remote_tier import RemoteTier
from tierlog.storage.config import LogConfig
from tierlog.storage.files import FileRegion
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.node import (
    CLUSTER_ID,
    DATA,
    DIRECTORY_ID,
    NODE_ID,
    LoopExecutor,
    open_controller,
    registration,
)
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate


class BrokerNode:
    """The parts of a running broker."""

    def __init__(
        self,
        loop: SimulatedLoop,
        files: SimulatedFiles,
        remote_tier: RemoteTier | None = None,
        log_dirs: Sequence[str] = (DATA,),
        is_metadata_writer: "MetadataWriter | None" = None,
    ) -> None:
        self.environment = SimulatedEnvironment(loop)
        self.log_manager = LogManager(files, log_dirs, LogConfig())
        config = ControllerConfig(NODE_ID, remote_storage_system_enabled=remote_tier is not None)
        self.controller: Controller = open_controller(loop, files, config)
        ids = iter([DIRECTORY_ID, *(Uuid(bytes([each]) * 16) for each in range(99))])
        meta = self.log_manager.directories.open(CLUSTER_ID, NODE_ID, lambda: next(ids))
        self.controller.start(registration(directories=[each.directory_id for each in meta]))
        image = self.controller.image
        configs = {
            topic: LogConfig.from_properties(image.topic_config(topic), LogConfig())
            for topic in image.topics_by_name
        }
        self.log_manager.start(self.environment.wall_clock_ms(), configs)
        self.supervisor = Supervisor(self.environment.random)
        self.replicas = ReplicaManager(
            ReplicaManagerConfig(NODE_ID),
            self.environment,
            self.log_manager,
            lambda: self.controller.image,
            ReplicaParts(
                remote_tier=remote_tier,
                is_metadata_writer=is_metadata_writer,
                move_tools=MoveTools(
                    ReplicaDirectories(
                        ControllerReports(NODE_ID, self.controller.decide), self.supervisor
                    ),
                    LoopExecutor(),
                    self.supervisor,
                ),
            ),
            self.supervisor,
        )
        self.log_manager.directories.on_failure(self.replicas.on_log_dir_failure)
        self.controller.subscribe(self.replicas.publish)

    async def stop(self) -> None:
        await self.replicas.stop()
        await self.controller.stop()
        self.log_manager.shutdown(self.environment.wall_clock_ms())

    def append(self, topic: str, *values: bytes, partition: int = 0) -> AppendEntry:
        """Append one batch with acks=all; nothing may have to wait."""
        outcome = self.replicas.append_records(
            AppendRequest([AppendEntry(TopicPartition(topic, partition), batch_of(*values))])
        )
        assert isinstance(outcome, list)
        return outcome[0]

    def asked(
        self, topic: str, offset: int, *, partition: int = 0, max_bytes: int = 1 << 20
    ) -> FetchPartition:
        """One partition of a fetch, named with the topic's id."""
        topic_id = self.controller.image.topics_by_name[topic].topic_id
        return FetchPartition(TopicIdPartition(topic_id, topic, partition), offset, max_bytes)

    def fetch_now(self, *asked: FetchPartition, max_bytes: int = 1 << 20) -> list[PartitionData]:
        """A fetch that takes what is there; nothing may have to wait."""
        params = FetchParams(max_wait_ms=0, max_bytes=max_bytes)
        outcome = self.replicas.leader_fetch.fetch(params, asked)
        assert isinstance(outcome, list)
        return outcome


@asynccontextmanager
async def broker_node(
    loop: SimulatedLoop,
    files: SimulatedFiles,
    remote_tier: RemoteTier | None = None,
    is_metadata_writer: "MetadataWriter | None" = None,
) -> AsyncGenerator[BrokerNode, None]:
    """A broker that is stopped cleanly at the end of the story."""
    node = BrokerNode(loop, files, remote_tier, is_metadata_writer=is_metadata_writer)
    await node.replicas.until_settled()
    yield node
    await node.stop()


def batch_of(*values: bytes) -> memoryview:
    """One batch with these record values."""
    records = [Record(0, 1_000 + index, None, value, ()) for index, value in enumerate(values)]
    return memoryview(build_batch(records))


def values_in(result: PartitionData) -> list[bytes]:
    """The record values that a fetch brought."""
    return [value for _, value in records_in(result)]


def records_in(result: PartitionData) -> list[tuple[int, bytes]]:
    """Offsets and values of the records that a fetch brought."""
    assert result.error_code == ErrorCode.NONE
    records = result.records
    if isinstance(records, FileRegion):
        records = records.read()
    assert isinstance(records, bytes | bytearray | memoryview)
    return [
        (record.offset, record.value or b"")
        for batch in batches(records)
        for record in batch.records()
    ]


def codes(results: Sequence[PartitionData]) -> list[int]:
    return [result.error_code for result in results]


def count_waiting(replicas: ReplicaManager) -> dict[str, int]:
    """How many operations wait, by the purgatory's name."""
    return {purgatory.name: len(purgatory) for purgatory in replicas.purgatories}


READ_COMMITTED = FetchIsolation.TXN_COMMITTED


Story = Callable[[BrokerNode], Coroutine[object, object, None]]
MetadataWriter = Callable[[str | None], bool]


def with_broker(
    story: Story,
    disk: SimulatedDisk | None = None,
    is_metadata_writer: MetadataWriter | None = None,
) -> None:
    """Tell a story of one broker, from its start to its clean end."""

    async def whole(loop: SimulatedLoop) -> None:
        files = SimulatedFiles(disk or SimulatedDisk())
        node = BrokerNode(loop, files, is_metadata_writer=is_metadata_writer)
        await story(node)
        await node.stop()

    simulate(whole)


def offsets(node: BrokerNode, *timestamps: int) -> list[OffsetResult]:
    """What ListOffsets says of t-0; nothing may have to wait."""
    queries = [OffsetQuery(TopicPartition("t", 0), timestamp) for timestamp in timestamps]
    outcome = node.replicas.list_offsets(queries, FetchIsolation.HIGH_WATERMARK)
    assert isinstance(outcome, list)
    return outcome

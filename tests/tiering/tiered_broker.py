"""The tiering half of a broker in a simulation: real logs on a simulated disk, a tier in memory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation, RemoteRead
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_loader import LoadRequest, load_log
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.config import MetadataManagerConfig, RemoteLogManagerConfig
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.quota import UNLIMITED
from tierlog.tiering.remote_log_manager import LeaderPartition, RemoteLogManager
from tierlog.tiering.tier_access import TierAccess

PARTITION = TopicIdPartition(Uuid(b"topic id, 16 by."), "orders", 0)
LOG_CONFIG = LogConfig(
    remote_storage_enable=True, local_retention_bytes=1, retention_ms=-1, index_interval_bytes=1
)
CONFIG = RemoteLogManagerConfig(
    broker_id=0,
    log_directory="/data",
    task_interval_ms=500,
    metadata=MetadataManagerConfig(topic_partitions=5),
)


class TieredBroker:
    """One broker, one partition. Records are one to a batch, their value names their offset."""

    def __init__(
        self,
        loop: SimulatedLoop,
        tier: MemoryTier,
        topic: SharedTopic,
        files: SimulatedFiles | None = None,
        config: RemoteLogManagerConfig = CONFIG,
    ) -> None:
        self.loop = loop
        self.tier = tier
        self.topic = topic
        self.files = files or SimulatedFiles(SimulatedDisk())
        # Told apart by when it started: a restarted process draws other ids.
        name = f"broker-{config.broker_id} of {loop.time()}"
        self.environment = SimulatedEnvironment(loop, name)
        self.log = self.open_log()
        self.config = config
        self.epoch = 0
        self.metadata = TopicBasedRemoteLogMetadataManager(
            config.metadata, MemoryMetadataTopic(topic), self.environment
        )
        pool = ThreadedPool(2, "test")
        self.deleted: set[Uuid] = set()
        """Topics whose deletion is on record."""
        access = TierAccess(tier, self.metadata, self.files, pool, self)
        self.manager = RemoteLogManager(config, access, self.environment, self.log_of)

    def open_log(self, log_start_offset: int = 0) -> UnifiedLog:
        self.files.mkdirs("/data/orders-0")
        request = LoadRequest(
            PARTITION.topic_partition,
            PARTITION.topic_id,
            "/data/orders-0",
            LOG_CONFIG,
            log_start_offset,
        )
        return load_log(LogDir(self.files, "/data"), request, self.environment.wall_clock_ms())

    def log_of(self, name: TopicPartition) -> UnifiedLog | None:
        return self.log if name == PARTITION.topic_partition else None

    def has_metadata_topic(self) -> bool:
        return False

    def watched_partitions(self) -> Collection[int] | None:
        return None

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        """All is on record."""

    def was_deleted(self, topic_id: Uuid) -> bool:
        return topic_id in self.deleted

    def lead(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.log.update_high_watermark(self.log.log_end_offset)
        self.manager.on_leadership_change([LeaderPartition(PARTITION, epoch)], [])

    async def restarted(self, epoch: int) -> "TieredBroker":
        """Stop it in the midst of whatever it does; the next process on its disk, leading."""
        await self.manager.stop()
        self.log.close(self.environment.wall_clock_ms())
        again = TieredBroker(self.loop, self.tier, self.topic, self.files, self.config)
        await again.manager.start()
        again.lead(epoch)
        return again

    def append(self, count: int, *, per_segment: int = 1, timestamp: int | None = None) -> None:
        """Append records; a segment is closed when it holds this many and another one comes."""
        for _ in range(count):
            log = self.log
            now = self.environment.wall_clock_ms()
            in_active = log.log_end_offset - log.local.active_segment.base_offset
            if in_active >= per_segment:
                log.roll(now)
            offset = log.log_end_offset
            record = Record(0, timestamp or now, b"k%d" % offset, b"v%d" % offset, ())
            log.append_as_leader(memoryview(build_batch([record])), self.epoch, now)
        self.log.update_high_watermark(self.log.log_end_offset)

    async def read(
        self,
        offset: int,
        max_bytes: int = 1 << 20,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
    ) -> tuple[list[int], bool]:
        """The offsets read from `offset` on, and whether they came from the tier."""
        found = self.log.read(offset, max_bytes, isolation, min_one_message=True)
        if isinstance(found, FetchDataInfo):
            raw = found.records if isinstance(found.records, bytes) else found.records.read()
            return _offsets(raw, offset), False
        result = await self.manager.read(found)
        return _offsets(result.records, offset), True

    async def consume(self, offset: int = 0) -> tuple[list[int], list[int]]:
        """All offsets from `offset` on, and those of them that came from the tier."""
        everything: list[int] = []
        remote: list[int] = []
        while offset < self.log.high_watermark:
            offsets, is_remote = await self.read(offset)
            assert offsets, f"nothing at {offset}"
            everything += offsets
            remote += offsets if is_remote else []
            offset = offsets[-1] + 1
        return everything, remote

    def remote_read(self, offset: int) -> RemoteRead:
        """The remote read that the log answers for an offset."""
        found = self.log.read(offset, 1 << 20, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
        assert isinstance(found, RemoteRead)
        return found


@asynccontextmanager
async def leading_broker(
    loop: SimulatedLoop, config: RemoteLogManagerConfig = CONFIG
) -> AsyncGenerator[TieredBroker]:
    """A broker that leads the partition."""
    broker = TieredBroker(loop, MemoryTier(), SharedTopic(), config=config)
    await broker.manager.start()
    broker.lead()
    yield broker
    await broker.manager.stop()


def _offsets(raw: bytes | memoryview, offset: int) -> list[int]:
    records = [record for batch in batches(raw) for record in batch.records()]
    for record in records:
        assert record.value == b"v%d" % record.offset
    return [record.offset for record in records if record.offset >= offset]


async def until(condition: Callable[[], bool], seconds: float = 600) -> None:
    """Wait, in virtual time, for a condition to hold."""
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


def on_broker(broker_id: int, copy_max_bytes_per_second: int = UNLIMITED) -> RemoteLogManagerConfig:
    """A broker's settings."""
    return replace(CONFIG, broker_id=broker_id, copy_max_bytes_per_second=copy_max_bytes_per_second)

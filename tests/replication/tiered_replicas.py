"""Replicas of one tiered partition, each with a disk of its own, over one tier in memory.

The leader is the real thing: a log, a `Partition`, the reader that answers fetches, the look-up of
offsets. Followers are driven ask by ask, so that a test can stop anywhere. One record is one batch,
and its value names its offset and leader epoch; segments are closed when a test says so.
"""

import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.fetch import PartitionData
from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.follower.fetch_state import FetchState, FollowedPartition
from tierlog.replication.follower.follower_asks import (
    Ask,
    AuxAsk,
    EpochEndAsk,
    FetchAsk,
    Fetched,
    FollowerOptions,
    OffsetAsk,
)
from tierlog.replication.leader.log_reader import LogReader
from tierlog.replication.leader.offset_lookup import LongSearches, OffsetQuery, look_up_offset
from tierlog.replication.leader.search_slots import SearchSlots
from tierlog.replication.metadata.cluster_image import PartitionImage
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.replication.partition.fetch_data import (
    CurrentLeader,
    EpochEndOffset,
    FetchParams,
    FetchPartition,
)
from tierlog.replication.partition.partition import Partition
from tierlog.storage.config import LogConfig
from tierlog.storage.files import FileRegion
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.storage.remote.remote_lineage import LogExtent, OffsetAndEpoch, copied_up_to
from tierlog.storage.remote.remote_log import Applied, RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.simulation.disk import SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.tiering.memory_tier import MemoryTier, StoredSegment
from tierlog.tiering.reading.remote_log_aux import RemoteLogAux
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.task.segment_parts import (
    Attempt,
    segment_data,
    segment_facts,
    segment_metadata,
)
from tierlog.tiering.tier_statistics import TierStatistics

PARTITION = TopicIdPartition(Uuid(b"topic id, 16 by."), "orders", 0)
NAME: TopicPartition = PARTITION.topic_partition
NOW_MS = 1_750_000_000_000
TIERED = LogConfig(
    remote_storage_enable=True,
    index_interval_bytes=1,
    segment_index_bytes=1200,
    file_delete_delay_ms=1,
)
BACKOFF_MS = 1000
_ORIGIN = AppendOrigin.CLIENT
T = TypeVar("T")


def completed(work: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("It waits")


def record_batch(value: bytes, producer_id: int = -1, sequence: int = -1) -> memoryview:
    """One record, as a client sends it."""
    made = build_batch(
        [Record(0, NOW_MS, None, value, ())],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
    )
    return memoryview(made)


BATCH_BYTES = len(record_batch(b"%04d/%04d" % (0, 0)))


class SharedMetadata:
    """The remote log metadata as every broker has it at once, unless it is held back."""

    def __init__(self) -> None:
        self.log = RemoteLog(PARTITION)
        self.readable: set[TopicIdPartition] = {PARTITION}

    def is_ready(self, partition: TopicIdPartition) -> bool:
        return partition in self.readable

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog:
        assert partition == PARTITION
        return self.log


class Answered(NamedTuple):
    """One exchange of a follower."""

    ask: Ask
    error: ErrorCode = ErrorCode.NONE


class ReplicaNode:
    """A broker with one replica."""

    def __init__(self, node_id: int, group: "ReplicaGroup", config: LogConfig) -> None:
        self.node_id = node_id
        self.group = group
        self.config = config
        self.disk = SimulatedDisk()
        self.is_up = False
        self.history: list[Answered] = []
        self.start()

    def start(self) -> None:
        """Start, after a stop or a power loss; it follows and leads nothing yet."""
        self.files = SimulatedFiles(self.disk)
        self.files.mkdirs("/data")
        self.files.sync_dir("/")
        self.logs = LogManager(self.files, ["/data"], self.config)
        self.logs.start(NOW_MS)
        self.log = self.logs.get_or_create_log(NAME, PARTITION.topic_id, self.config, NOW_MS)
        self.log.remote = self.group.metadata.log
        self.partition = Partition(PARTITION, self.log, self.group.image, self.node_id)
        self.followed = FollowedPartition(PARTITION, self.log, self.group.options)
        self.reader = LogReader(lambda _: self.partition, self._leader_of, self._on_fetch)
        self.is_up = True

    def _leader_of(self, topic_partition: TopicPartition) -> CurrentLeader:
        assert topic_partition == NAME
        return self.partition.current_leader

    def _on_fetch(
        self, partition: Partition, follower: ReplicaEpoch, asked: FetchPartition
    ) -> None:
        partition.update_follower(
            follower, asked.fetch_offset, asked.log_start_offset, self.group.now_ms
        )

    def checkpoint(self) -> None:
        """What the housekeeping of a broker writes every minute or less."""
        self.logs.checkpoint_recovery_points()
        self.logs.checkpoint_log_start_offsets()
        self.logs.checkpoint_high_watermarks()

    def stop(self) -> None:
        self.logs.shutdown(NOW_MS)
        self.is_up = False

    def crash(self, survival: Survival = Survival.NOTHING, seed: int = 0) -> None:
        """Lose the power, and what was not synced."""
        self.disk.lose_power(survival, random.Random(seed))
        self.is_up = False

    def reimage(self) -> None:
        """Come back with an empty disk."""
        self.disk = SimulatedDisk()
        self.history.clear()
        self.start()
        self.group.notify(self)

    def produce(self, count: int = 1, producer_id: int = -1, sequence: int = 0) -> None:
        """Append records with acks=1."""
        for number in range(count):
            value = b"%04d/%04d" % (self.log.log_end_offset, self.partition.leader_epoch)
            batch = record_batch(value, producer_id, sequence + number if producer_id >= 0 else -1)
            self.group.append(self.partition, batch)

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def copy(self) -> list[RemoteLogSegmentMetadata]:
        """Copy what a leader's task would copy; the metadata of the new segments."""
        log, remote = self.log, self.group.metadata.log
        bounds = LogExtent(log.log_start_offset, log.local_log_start_offset, log.log_end_offset)
        copied = copied_up_to(remote, log.leader_epochs.entries, bounds)
        made: list[RemoteLogSegmentMetadata] = []
        for segment in log.copy_candidates(max(copied + 1, log.log_start_offset)):
            facts = segment_facts(log, segment)
            segment_id = RemoteLogSegmentId(PARTITION, self.group.next_uuid())
            metadata = segment_metadata(facts, Attempt(segment_id, self.node_id, NOW_MS))
            data = segment_data(self.files, facts)
            stored = StoredSegment(metadata, data.log_segment.read(), data.indexes())
            self.group.tier.segments[metadata.id] = stored
            assert remote.apply_copy_started(metadata) is Applied.YES
            self.group.move(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
            made.append(metadata)
        self.learn_copied_offset()
        return made

    def learn_copied_offset(self) -> None:
        log = self.log
        bounds = LogExtent(log.log_start_offset, log.local_log_start_offset, log.log_end_offset)
        history = log.leader_epochs.entries
        log.bounds.update_highest_remote(copied_up_to(self.group.metadata.log, history, bounds))

    def expire_local(self, up_to: int) -> None:
        """Let local retention delete the segments below an offset that are in the tier."""
        self.learn_copied_offset()
        kept = (self.log.log_end_offset - up_to) * BATCH_BYTES
        self.log.update_config(replace(self.config, local_retention_bytes=kept))
        self.log.delete_old_segments(NOW_MS)
        self.logs.delete_pending(NOW_MS + 10)
        self.log.update_config(self.config)

    def answer_fetch(self, ask: FetchAsk, replica_id: int) -> Fetched:
        """What the leader answers a follower."""
        asked = FetchPartition(
            PARTITION,
            ask.offset,
            self.group.fetch_bytes,
            ask.current_leader_epoch,
            ask.last_fetched_epoch,
            ask.log_start_offset,
        )
        params = FetchParams(replica_id, isolation=FetchIsolation.LOG_END)
        [result] = self.reader.read(params, [asked]).results
        return Fetched(
            ErrorCode(result.error_code),
            result.high_watermark,
            result.log_start_offset,
            bytes_of(result),
            diverging_in(result),
        )

    def answer_offset(self, ask: OffsetAsk) -> OffsetAndEpoch:
        """What the leader answers a follower's ListOffsets. Raises KafkaError."""
        query = OffsetQuery(NAME, ask.timestamp, ask.current_leader_epoch)
        searches = LongSearches(SearchSlots(), lambda: True)
        found = look_up_offset(self.partition, query, FetchIsolation.LOG_END, None, searches)
        assert isinstance(found, TimestampAndOffset)
        return OffsetAndEpoch(found.offset, found.leader_epoch)

    def answer_epoch_end(self, ask: EpochEndAsk) -> EpochEndOffset:
        """What the leader answers an OffsetForLeaderEpoch request. Raises KafkaError."""
        self.partition.leader_log(ask.current_leader_epoch)
        return self.partition.epoch_end_offset(ask.epoch)

    def step(self) -> Answered | None:
        """One ask and its answer; None if there is nothing to ask now."""
        ask = self.followed.ask(self.group.now_ms)
        if ask is None:
            return None
        answered = Answered(ask, self._exchange(ask))
        self.history.append(answered)
        return answered

    def _exchange(self, ask: Ask) -> ErrorCode:
        followed, now_ms, leader = self.followed, self.group.now_ms, self.group.leader
        if isinstance(ask, AuxAsk):
            aux = RemoteLogAux(self.group.tier, self.group.metadata, self.group.statistics)
            try:
                followed.aux_fetched(ask, completed(aux.fetch(ask.request)), now_ms)
            except RemoteStorageError as error:
                followed.failed(ask, str(error), now_ms)
            return ErrorCode.NONE
        if leader is None or not leader.is_up:
            followed.failed(ask, "The leader cannot be reached", now_ms)
            return ErrorCode.NETWORK_EXCEPTION
        if isinstance(ask, FetchAsk):
            answer = leader.answer_fetch(ask, self.node_id)
            followed.fetched(ask, answer, now_ms)
            return answer.error
        if isinstance(ask, OffsetAsk):
            return self._ask_offset(leader, ask)
        return self._ask_epoch_end(leader, ask)

    def _ask_offset(self, leader: "ReplicaNode", ask: OffsetAsk) -> ErrorCode:
        error, found = ErrorCode.NONE, OffsetAndEpoch(-1, -1)
        try:
            found = leader.answer_offset(ask)
        except KafkaError as refused:
            error = refused.code
        self.followed.offset_found(ask, error, found, self.group.now_ms)
        return error

    def _ask_epoch_end(self, leader: "ReplicaNode", ask: EpochEndAsk) -> ErrorCode:
        error, found = ErrorCode.NONE, EpochEndOffset(-1, -1)
        try:
            found = leader.answer_epoch_end(ask)
        except KafkaError as refused:
            error = refused.code
        self.followed.epoch_end_found(ask, error, found, self.group.now_ms)
        return error

    def fetch_until(self, holds: Callable[[], bool], steps: int = 60) -> None:
        """Go on, through pauses, until something holds."""
        for _ in range(steps):
            if holds():
                return
            if self.step() is None:
                self.group.now_ms += BACKOFF_MS
        state = f"{self.followed.state}, {self.log}, {self.followed.trouble}"
        raise AssertionError(f"It never came about: {state}")

    def catch_up(self) -> None:
        """Fetch until everything that the leader has is here, its high watermark too."""
        leader = self.group.leader
        assert leader is not None

        def has_all() -> bool:
            mine, its = self.log, leader.log
            return (
                self.followed.state is FetchState.FETCHING
                and mine.log_end_offset == its.log_end_offset
                and mine.high_watermark >= its.high_watermark
                and (
                    mine.leader_epochs.latest_epoch == its.leader_epochs.latest_epoch
                    or mine.log_start_offset == mine.log_end_offset
                )
                and self.followed.lag is not None
            )

        self.fetch_until(has_all)

    @property
    def epochs(self) -> dict[int, int]:
        """The leader epoch history."""
        return {entry.epoch: entry.start_offset for entry in self.log.leader_epochs.entries}

    @property
    def epochs_on_disk(self) -> dict[int, int]:
        """The history as the checkpoint has it."""
        content = self.files.read(f"{self.log.directory}/leader-epoch-checkpoint").decode()
        pairs = [line.split() for line in content.splitlines()[2:]]
        return {int(epoch): int(start) for epoch, start in pairs}

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Log start, local log start, log end."""
        log = self.log
        return log.log_start_offset, log.local_log_start_offset, log.log_end_offset

    @property
    def local(self) -> dict[int, int]:
        """The leader epoch of each local record, by its offset."""
        return {
            batch.base_offset: batch.partition_leader_epoch for batch in local_batches(self.log)
        }

    @property
    def log_files(self) -> list[int]:
        """Where the segment files on the disk begin."""
        names = self.files.listdir(self.log.directory)
        return [int(name[:20]) for name in names if name.endswith(".log")]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """What was asked so far: the kind, and its offset, timestamp or epoch."""
        return [(type(ask).__name__, subject_of(ask)) for ask, _ in self.history]


def subject_of(ask: Ask) -> int:
    if isinstance(ask, FetchAsk):
        return ask.offset
    if isinstance(ask, OffsetAsk):
        return ask.timestamp
    return ask.epoch if isinstance(ask, EpochEndAsk) else ask.request.offset


def diverging_in(result: PartitionData) -> EpochEndOffset | None:
    diverging = result.diverging_epoch
    return EpochEndOffset(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None


def bytes_of(result: PartitionData) -> bytes:
    records = result.records
    if isinstance(records, FileRegion):
        return records.read()
    assert records is None or isinstance(records, bytes | bytearray | memoryview)
    return bytes(records or b"")


def local_batches(log: UnifiedLog) -> list[RecordBatch]:
    """Every batch on the disk of a log."""
    return [
        batch
        for segment in log.local.segments
        for batch in batches(segment.region(0, segment.size).read())
    ]


class ReplicaGroup:
    """The replicas of the partition, the tier, and who leads."""

    def __init__(
        self,
        node_ids: Iterable[int] = (1, 2),
        config: LogConfig = TIERED,
        options: FollowerOptions | None = None,
    ) -> None:
        self.options = options or FollowerOptions(BACKOFF_MS)
        self.tier = MemoryTier()
        self.metadata = SharedMetadata()
        self.statistics = TierStatistics()
        self.now_ms = NOW_MS
        self.fetch_bytes = 1 << 20
        self._uuids = 0
        ids = tuple(node_ids)
        self.image = PartitionImage(ids, ids, -1, -1, 0)
        self.nodes = {node_id: ReplicaNode(node_id, self, config) for node_id in ids}

    def next_uuid(self) -> Uuid:
        self._uuids += 1
        return Uuid(self._uuids.to_bytes(16, "big"))

    @property
    def leader(self) -> ReplicaNode | None:
        return self.nodes.get(self.image.leader)

    def elect(self, node_id: int, isr: tuple[int, ...] | None = None) -> ReplicaNode:
        """Make a replica leader in the next epoch; `isr` is whom it must wait for besides."""
        self.image = replace(
            self.image,
            leader=node_id,
            leader_epoch=self.image.leader_epoch + 1,
            isr=isr or (node_id,),
        )
        for node in self.nodes.values():
            if node.is_up:
                self.notify(node)
        return self.nodes[node_id]

    def notify(self, node: ReplicaNode) -> None:
        """Let a broker know who leads."""
        if self.image.leader < 0:
            return
        node.partition.update(self.image)
        if self.image.leader != node.node_id:
            node.followed.follow(self.image.leader_epoch)

    def append(self, partition: Partition, batch: memoryview) -> None:
        """Append, and let the high watermark pass what nobody else in sync has to have."""
        partition.append_as_leader(batch, 1, _ORIGIN, self.now_ms)
        if self.image.isr == (partition.node_id,):
            partition.log.update_high_watermark(partition.log.log_end_offset)

    def move(self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        """Change the state of a segment in the tier."""
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=metadata.segment_id, event_timestamp_ms=NOW_MS, state=state, broker_id=0
        )
        assert self.metadata.log.apply_update(update) is Applied.YES

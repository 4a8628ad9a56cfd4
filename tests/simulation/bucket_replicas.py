"""A replica of a tiered partition in a story of a bucket: a real log, and what is true of it.

The log has its leader epochs, its segments and its producers on a simulated disk of its own. Beside
it stands every batch that it has, in its tier or not, as the story gave it to the log.
"""

from typing import NamedTuple

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import BatchFields, build_batch
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.log.aux_state import AuxState
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_loader import LoadRequest, load_log
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tiering.task.segment_parts import (
    Attempt,
    segment_data,
    segment_facts,
    segment_metadata,
)

LOG_CONFIG = LogConfig(
    remote_storage_enable=True,
    local_retention_bytes=1,
    retention_ms=-1,
    index_interval_bytes=1,
    segment_index_bytes=4096,
    file_delete_delay_ms=0,
)


class Written(NamedTuple):
    """A batch, as a leader wrote it."""

    first: int
    last: int
    epoch: int
    producer_id: int
    content: bytes


def batch_of(count: int, first: int, epoch: int, producer_id: int) -> Written:
    """Another batch; no two leaders write the same records, for the values name the epoch."""
    records = [
        Record(0, 1000 + first + each, None, b"%d of %d" % (first + each, epoch))
        for each in range(count)
    ]
    fields: BatchFields = {"base_offset": first, "leader_epoch": epoch}
    if producer_id >= 0:
        fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": first}
    return Written(
        first, first + count - 1, epoch, producer_id, bytes(build_batch(records, **fields))
    )


class Stored(NamedTuple):
    """A segment as it is put into the bucket, and the log that it was copied from."""

    metadata: RemoteLogSegmentMetadata
    parts: dict[str, bytes]
    log: tuple[Written, ...]
    """All batches of the leader up to the end of the segment, from its log start on."""
    log_start_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    producers_from: int
    """Its leader had lost what was known of producers below."""


class Replica:
    """See the module."""

    def __init__(self, number: int, partition: TopicIdPartition) -> None:
        self.number = number
        self.partition = partition
        self.files = SimulatedFiles(SimulatedDisk())
        directory = f"/data/{partition.topic_partition}"
        self.files.mkdirs(directory)
        request = LoadRequest(
            partition.topic_partition, partition.topic_id, directory, LOG_CONFIG, 0
        )
        self.log: UnifiedLog = load_log(LogDir(self.files, "/data"), request, 0)
        self.written: list[Written] = []
        """What is in the log, from the batch on in which it begins."""
        self.ever: list[Written] = []
        """What was ever in it and was not cut off, deleted records too."""
        self.producers_from = 0
        """Nothing is known of producers that have written below alone."""

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def append(self, batch: Written, now_ms: int) -> None:
        """Take a batch from a producer or from the leader."""
        self.log.append_as_follower(memoryview(bytearray(batch.content)), now_ms)
        self.written.append(batch)
        self.ever.append(batch)

    def forget_deleted(self) -> None:
        """Forget what lies below the log start offset."""
        start = self.log.log_start_offset
        self.written = [each for each in self.written if each.last >= start]

    def agrees_up_to(self, leader: "Replica") -> int | None:
        """The end of what both logs have; None if they have nothing in common."""
        own = {each.first: each for each in self.written}
        start = max(self.log.log_start_offset, leader.log.log_start_offset)
        both = [each for each in leader.written if each.last >= start and each.first < self.end]
        is_of_its_branch = not self.ever or self.ever[-1] in leader.ever
        agreed: int | None = self.end if is_of_its_branch and not both else None
        for each in both:
            mine = own.get(each.first)
            if mine is None or mine.content != each.content:
                break
            agreed = each.last + 1
        return agreed

    def truncate_to(self, offset: int) -> None:
        """Drop what the leader does not have."""
        if offset < self.log.local.segments.first.base_offset:
            # Their state at the new end stands in no file here (`AuxState`).
            self.producers_from = offset
        self.log.truncate_to(offset)
        self.written = [each for each in self.written if each.last < offset]
        self.ever = [each for each in self.ever if each.last < offset]

    def begin_at(self, offset: int, leader: "Replica") -> None:
        """Drop everything and begin where the leader's log does."""
        self.log.truncate_fully_and_start_at(offset)
        self.producers_from = offset
        self.written = []
        self.ever = [each for each in leader.ever if each.last < offset]

    def follow(self, leader: "Replica", now_ms: int, most: int) -> None:
        """Take what the leader has more, up to some batches."""
        ahead = [each for each in leader.written if each.first >= self.end]
        for each in ahead[:most]:
            self.append(each, now_ms)

    def start_over(self, leader: "Replica", state: AuxState, copied: Stored) -> None:
        """Continue where a segment in the tier ends, as a follower does (KIP-405)."""
        self.log.start_at(state)
        self.producers_from = copied.producers_from
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.written = [each for each in leader.written if start <= each.last < end]
        self.ever = [each for each in leader.ever if each.last < end]

    def copy(self, attempt: Attempt, from_offset: int) -> Stored | None:
        """The next closed segment as a copy of it is; None if there is none."""
        candidates = self.log.copy_candidates(from_offset)
        if not candidates:
            return None
        facts = segment_facts(self.log, candidates[0])
        data = segment_data(self.files, facts)
        parts = {each.value: content for each, content in data.indexes().items()}
        return Stored(
            segment_metadata(facts, attempt),
            {"log": data.log_segment.read(), **parts},
            tuple(each for each in self.written if each.last <= facts.end_offset),
            self.log.log_start_offset,
            tuple((entry.epoch, entry.start_offset) for entry in self.log.leader_epochs.entries),
            self.producers_from,
        )

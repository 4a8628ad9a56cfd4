"""Copies the current log to a future log (KIP-113; Kafka's `ReplicaAlterLogDirsThread`).

The future log behaves like a follower of the current one: it truncates to where the two leader
epoch histories diverge (KIP-101), starts at the current log's local log start, appends whole
batches unchanged, and follows the log start offset, the high watermark and the leader epochs.
Records in the remote tier stay there; the epoch history and the producer state at the first local
record are copied.

Nothing here blocks: `next_read` returns what to read; the caller reads it and passes it to
`append`.
"""

from typing import NamedTuple

from ...clients.record.batch import RecordBatch
from ..directory.log_dir import LogDir
from ..files import FileRegion, ReadableBuffer
from ..log.aux_state import AuxState
from ..log.fetch_data import FetchDataInfo, FetchIsolation
from ..log.leader_epoch import UNDEFINED_EPOCH
from ..log.unified_log import UnifiedLog
from ..producer.producer_snapshot import CorruptSnapshotError, decode_snapshot


class CopyRead(NamedTuple):
    """Records to read, and the conditions that must still hold when they are appended."""

    offset: int
    records: FileRegion | bytes
    truncations: int
    log_dir: LogDir

    def read(self) -> bytes:
        """Read the bytes, in any thread. Raises OSError if the disk of `log_dir` has failed."""
        return self.records if isinstance(self.records, bytes) else self.records.read()


class FutureCopy:
    """The current and the future log of a partition that is being moved."""

    def __init__(self, current: UnifiedLog, future: UnifiedLog) -> None:
        self.current = current
        self.future = future
        self._aligned_at = -1

    @property
    def lag(self) -> int:
        """Records still to be copied; negative if the future log must be truncated."""
        return self.current.log_end_offset - self.future.log_end_offset

    @property
    def bytes_left(self) -> int:
        """Approximately how many bytes are still to be copied."""
        local, start = self.current.local, self.current.local_log_start_offset
        return local.bytes_between(max(self.future.log_end_offset, start), local.log_end_offset)

    @property
    def is_caught_up(self) -> bool:
        """Whether the future log could replace the current one now."""
        return self.lag == 0 and self._aligned_at == self.current.local.truncations

    def next_read(self, max_bytes: int) -> CopyRead | None:
        """The records to copy next; None if everything is copied. Raises KafkaError."""
        current, future = self.current, self.future
        if self._aligned_at != current.local.truncations:
            self._align()
        start = current.local_log_start_offset
        if future.log_end_offset < start:
            base_offset = self._base_offset_at(start)
            if future.log_end_offset != base_offset:
                self._start_again_at(base_offset)
        self._follow_bounds()
        offset = future.log_end_offset
        if offset >= current.log_end_offset:
            return None
        records = self._read(max(offset, start), max_bytes)
        return CopyRead(offset, records, current.local.truncations, current.log_dir)

    def append(self, read: CopyRead, content: ReadableBuffer, now_ms: int) -> int:
        """Append the records read; returns how many bytes: 0 if the logs have changed since.

        Raises KafkaError.
        """
        is_stale = read.truncations != self.current.local.truncations
        if is_stale or read.offset != self.future.log_end_offset:
            return 0
        self.future.append_as_follower(memoryview(content), now_ms)
        self._follow_bounds()
        return len(content)

    def finish(self, max_bytes: int, now_ms: int) -> int:
        """Copy the rest, in this thread; returns how many bytes. Raises KafkaError."""
        copied = 0
        while (read := self.next_read(max_bytes)) is not None:
            copied += self.append(read, self._content(read), now_ms)
        return copied

    def _read(self, offset: int, max_bytes: int) -> FileRegion | bytes:
        fetched = self.current.read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
        assert isinstance(fetched, FetchDataInfo), "Only local records are copied."
        return fetched.records

    def _content(self, read: CopyRead) -> bytes:
        try:
            return read.read()
        except OSError as error:
            raise read.log_dir.fail(error) from error

    def _align(self) -> None:
        """Truncate the future log to where its epoch history diverges from the current one's."""
        current, future = self.current, self.future
        while (latest := future.leader_epochs.latest_epoch) != UNDEFINED_EPOCH:
            epoch, end = current.end_offset_for_epoch(latest)
            if epoch == UNDEFINED_EPOCH:
                self._start_again_at(self._base_offset_at(current.local_log_start_offset))
                break
            known_epoch, known_end = future.end_offset_for_epoch(epoch)
            target = min(end, known_end)
            future.truncate_to(target)
            if known_epoch == latest:
                break
        self._aligned_at = current.local.truncations

    def _base_offset_at(self, offset: int) -> int:
        """The base offset of the first batch to be copied.

        DeleteRecords may have moved the log start into a batch, which is kept whole.
        """
        if offset >= self.current.log_end_offset:
            return offset
        records = self._read(offset, 1)
        read = CopyRead(offset, records, 0, self.current.log_dir)
        return min(offset, RecordBatch(memoryview(self._content(read))).base_offset)

    def _start_again_at(self, offset: int) -> None:
        """Restart the future log at `offset`, with the current log's epochs and producers.

        The current log has all that a follower would fetch from the tier: the epochs below `offset`
        and, if a segment begins at `offset`, a producer snapshot (KAFKA-16711, KAFKA-20961).
        """
        current = self.current
        history = current.leader_epochs.entries_up_to(offset) if current.is_tiered else []
        log_start_offset = min(current.log_start_offset, offset)
        self.future.start_at(AuxState(offset, log_start_offset, history, self._snapshot_at(offset)))

    def _snapshot_at(self, offset: int) -> bytes | None:
        log_dir, path = self.current.log_dir, self.current.producers.snapshot_file(offset)
        if path is None:
            return None
        try:
            content = log_dir.files.read(path)
            decode_snapshot(content)
        except OSError as error:
            raise log_dir.fail(error) from error
        except CorruptSnapshotError:
            # The producer state is then built from the batches alone.
            return None
        return content

    def _follow_bounds(self) -> None:
        current, future = self.current, self.future
        future.update_high_watermark(current.high_watermark)
        start = min(current.log_start_offset, future.high_watermark)
        if start > future.log_start_offset:
            future.maybe_increment_log_start_offset(start)

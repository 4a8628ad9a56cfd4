"""The local part of a log: rolls, reads, flushes and deletes its segments.

It deals with offsets and bytes only: `UnifiedLog` handles the high watermark, producers and remote
tier. The end offset moves after the write, and the recovery point only after an fsync: everything
below the recovery point survives a crash (Kafka's `LocalLog`).
"""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.record.checksum import crc32c
from ..config import INT32_MAX, LogConfig
from ..files import DirectoryHandle, FileRegion, Files, ReadableBuffer
from ..log_file import CLEANED_SUFFIX, SWAP_SUFFIX
from ..segment.log_segment import LogSegment
from ..segment.log_segments import LogSegments
from ..segment.transaction_index import AbortedTxn
from .bounds import LogBounds
from .fetch_data import EMPTY_RECORDS


class LocalRead(NamedTuple):
    """Whole batches from one segment. `segment` is None when there is nothing to read."""

    records: FileRegion | bytes
    segment: LogSegment | None
    end_position: int
    first_entry_incomplete: bool


_NOTHING = LocalRead(EMPTY_RECORDS, None, 0, False)
_TOO_SMALL = LocalRead(EMPTY_RECORDS, None, 0, True)


class _Swap(NamedTuple):
    """A cleaned segment that has replaced old segments whose files are still to be renamed."""

    cleaned: LogSegment
    old: list[LogSegment]
    due_ms: int
    directory: DirectoryHandle


class FlushTask:
    """The fsyncs that make everything below `offset` durable.

    `run` only touches open files and may be called in another thread.
    """

    def __init__(
        self,
        segments: list[LogSegment],
        closed: list[LogSegment],
        others: list[Callable[[], None]],
        is_released: Callable[[], bool],
    ) -> None:
        self._segments = segments
        self._is_released = is_released
        self.others = others
        """Syncs of the log's other files, its directory last."""
        self.closed = closed
        """Segments closed since the last flush, whose indexes are now final."""
        self.offset = 0
        self.truncations = 0
        """How often the log had been truncated when this task was created."""
        self.has_run = False
        """Whether `run` has returned; until then nothing counts as durable."""

    def run(self) -> None:
        """fsync the files. Raises OSError, after which nothing may be assumed durable.

        Failures are ignored if the segment or the log was deleted meanwhile.
        """
        for segment in self._segments:
            self._unless_deleted(segment, segment.flush_log)
        for segment in self.closed:
            self._unless_deleted(segment, segment.flush_indexes)
        for sync in self.others:
            self._unless_deleted(None, sync)
        self.has_run = True

    def _unless_deleted(self, segment: LogSegment | None, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError:
            is_deleted = segment is not None and segment.is_deleted
            if not (is_deleted or self._is_released()):
                raise


class LocalLog:
    """The segments in one partition's directory. There is always at least one."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, segments: LogSegments
    ) -> None:
        assert len(segments) > 0
        self._files = files
        self.directory = directory
        self.config = config
        self.segments = segments
        self.bounds = LogBounds()
        """The bounds of the whole log. Here appends move the log end, truncations all bounds."""
        self.recovery_point = 0
        """The offset below which everything was fsynced; never above the log end offset."""
        self._pending_deletes: list[tuple[int, LogSegment]] = []
        self._swap: _Swap | None = None
        self._closed_since_flush: list[LogSegment] = []
        self._unsynced: list[Callable[[], None]] = []
        self._is_released = False
        self._truncations = 0

    @property
    def log_end_offset(self) -> int:
        """One past the last appended offset."""
        return self.bounds.log_end

    @property
    def truncations(self) -> int:
        """How often the log was truncated since it was opened."""
        return self._truncations

    @property
    def is_released(self) -> bool:
        """Whether the files were closed: the log is deleted or closed."""
        return self._is_released

    @property
    def active_segment(self) -> LogSegment:
        return self.segments.last

    def append(self, buffer: ReadableBuffer, batches: list[RecordBatch]) -> None:
        """Append batches with assigned offsets; the end offset moves after the write."""
        self.segments.last.append(buffer, batches)
        self.bounds.advance_log_end(batches[-1].last_offset + 1)

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether an append of `size` bytes up to `last_offset` needs a new segment."""
        segment, config = self.segments.last, self.config
        if segment.size == 0:
            return segment.offset_index.is_full or not segment.offset_index.can_hold(last_offset)
        first = segment.first_batch_timestamp()
        # The age is measured by timestamps if the records have any, else from the file's creation.
        age_ms = now_ms - segment.created_ms if first is None else max_timestamp - first
        if config.segment_jitter_ms:
            age_ms += self._jitter_ms(segment)
        return (
            segment.size > config.segment_bytes - size
            or age_ms > config.segment_ms
            or (age_ms > config.max_compaction_lag_ms and config.is_compacted)
            or (segment.index_room <= 0 and segment.has_full_index())
            or last_offset - segment.base_offset > INT32_MAX
        )

    def _jitter_ms(self, segment: LogSegment) -> int:
        """At most segment.jitter.ms, derived from the segment's path and so always the same."""
        bound = min(self.config.segment_jitter_ms, self.config.max_segment_ms)
        return crc32c(segment.path.encode()) % bound

    def roll(self, now_ms: int, at_least: int = 0) -> LogSegment:
        """Close the active segment and create one at the end offset, or at `at_least` if higher.

        If the active segment is empty and has that base offset, it is kept.
        """
        base_offset = max(self.log_end_offset, at_least)
        active = self.active_segment
        if active.size == 0 and active.base_offset == base_offset:
            return active
        assert base_offset > active.base_offset
        active.become_inactive()
        self._closed_since_flush.append(active)
        segment = LogSegment(self._files, self.directory, base_offset, self.config, now_ms)
        self.segments.add(segment)
        self.bounds.advance_log_end(base_offset)
        return segment

    def read(
        self, offset: int, max_bytes: int, max_offset: int, *, min_one_message: bool
    ) -> LocalRead:
        """Read whole batches of one segment, from the batch with `offset` up to `max_offset`.

        `min_one_message` allows the first batch to exceed `max_bytes`. Raises OFFSET_OUT_OF_RANGE
        for offsets below the first segment or above the log end.
        """
        segment = self.segments.floor(offset)
        if segment is None or offset > self.bounds.log_end:
            raise self.out_of_range(offset)
        if offset >= max_offset:
            return _NOTHING
        position = segment.known_start(offset)
        if position is not None:
            # The typical case: the reader continues at the last append or after its last read.
            local_read = self._read_on(segment, position, max_bytes, max_offset)
            if local_read is not None:
                return local_read
        return self._locate_and_read(segment, offset, (max_bytes, max_offset), min_one_message)

    def _read_on(
        self, segment: LogSegment, position: int, max_bytes: int, max_offset: int
    ) -> LocalRead | None:
        """Read from a known batch start; None if the batch header must be read first."""
        bound, limit = self._end_position(segment, max_offset), position + max_bytes
        if position >= bound:
            return None
        end = bound if limit >= bound else segment.end_past(position, limit)
        if end is None:
            return None
        return LocalRead(segment.region(position, end - position), segment, end, False)

    def _end_position(self, segment: LogSegment, max_offset: int) -> int:
        """The position in `segment` at which a read below `max_offset` must end."""
        if max_offset >= self.bounds.log_end or max_offset >= self.end_offset_of(segment):
            return segment.size
        return segment.position_of(max_offset)

    def _locate_and_read(
        self, segment: LogSegment, offset: int, limits: tuple[int, int], min_one_message: bool
    ) -> LocalRead:
        max_bytes, max_offset = limits
        start = segment.locate(offset)
        while start is None:
            # Compaction may have removed every record of the segment from the offset on.
            following = self.segments.higher(segment.base_offset)
            if following is None or following.base_offset >= max_offset:
                return _NOTHING
            segment = following
            start = segment.locate(offset)
        bound = self._end_position(segment, max_offset)
        position = start.position
        if position >= bound:
            return _NOTHING
        limit = position + max_bytes
        if limit >= bound:
            end = bound
        elif start.size > max_bytes:
            if not min_one_message:
                return _TOO_SMALL
            end = start.end_position
        else:
            end = segment.end_within(start, limit)
        return LocalRead(segment.region(position, end - position), segment, end, False)

    def aborted_in(self, offset: int, local_read: LocalRead) -> list[AbortedTxn]:
        """The aborted transactions that overlap the batches returned by a read at `offset`."""
        segment = local_read.segment
        if segment is None or segment.base_offset > self.segments.last_aborted:
            return []
        upper_bound = segment.upper_bound_offset(local_read.end_position)
        if upper_bound is None:
            upper_bound = self.end_offset_of(segment)
        return self.aborted_transactions(offset, upper_bound)

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """The aborted transactions that overlap [`start_offset`, `upper_bound`)."""
        aborted: list[AbortedTxn] = []
        for segment in self.segments.from_offset(start_offset):
            if segment.txn_index.collect(start_offset, upper_bound, aborted):
                break
        return aborted

    def end_offset_of(self, segment: LogSegment) -> int:
        """One past the last offset that can be in `segment`."""
        following = self.segments.higher(segment.base_offset)
        return self.log_end_offset if following is None else following.base_offset

    def bytes_between(self, offset: int, max_offset: int) -> int:
        """The approximate size of the batches in [`offset`, `max_offset`), for fetch.min.bytes."""
        if offset >= max_offset:
            return 0
        total = 0
        for segment in self.segments.from_offset(offset):
            if segment.base_offset >= max_offset:
                break
            begin = segment.position_of(offset) if segment.base_offset < offset else 0
            covers = max_offset >= self.end_offset_of(segment)
            total += (segment.size if covers else segment.position_of(max_offset)) - begin
        return total

    def out_of_range(self, offset: int) -> KafkaError:
        first = self.segments.first.base_offset
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} lies outside the log, which has [{first}, {self.log_end_offset}).",
        )

    def prepare_flush(self, up_to: int) -> FlushTask | None:
        """The task that makes everything below `up_to` durable; None if everything already is."""
        up_to = min(up_to, self.log_end_offset)
        closed, others = list(self._closed_since_flush), list(self._unsynced)
        if up_to <= self.recovery_point and not closed and not others:
            return None
        segments = [
            segment
            for segment in self.segments.from_offset(self.recovery_point)
            if segment.base_offset < up_to
        ]
        others.append(partial(self._files.sync_dir, self.directory))
        task = FlushTask(segments, closed, others, lambda: self._is_released)
        task.offset, task.truncations = up_to, self._truncations
        return task

    def sync_with_next_flush(self, sync: Callable[[], None]) -> None:
        """Have the next flush call `sync`, in any thread, before the recovery point moves."""
        if sync not in self._unsynced:
            self._unsynced.append(sync)

    def note_rebuilt(self, segments: list[LogSegment]) -> None:
        """Have the next flush sync the indexes of these segments, which were rebuilt."""
        self._closed_since_flush += segments

    def complete_flush(self, task: FlushTask) -> None:
        """Advance the recovery point after `task` has run.

        If the log was truncated since the task was created, the same offsets may now have other
        records, which the task did not sync: then only the next flush moves the recovery point.
        """
        assert task.has_run, "The recovery point moves only after the fsync."
        if task.truncations == self._truncations:
            assert task.offset <= self.log_end_offset
            self.recovery_point = max(self.recovery_point, task.offset)
        self._closed_since_flush = [
            segment for segment in self._closed_since_flush if segment not in task.closed
        ]
        self._unsynced = [sync for sync in self._unsynced if sync not in task.others]

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything at and above `offset`, which is within the log.

        The caller makes this durable with `sync_truncation` before the next append. Segments are
        deleted from last to first, so that a power loss leaves no hole.
        """
        assert self.segments.first.base_offset <= offset <= self.log_end_offset
        self.finish_swap()
        self._truncations += 1
        for segment in reversed(self.segments.starting_at_or_above(offset)):
            if segment is not self.segments.first:
                self._delete_now(segment)
        active = self.active_segment
        active.truncate_to(offset)
        active.make_appendable(self.config)
        if active.size == 0:
            active.created_ms = now_ms
        # As in Kafka, the log continues at the requested offset, even if the batch that held it
        # began earlier and was dropped as a whole.
        self.bounds.truncate_to(offset)
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start: int, now_ms: int) -> None:
        """Drop everything; the log is empty and continues at `offset`. See `truncate_to`."""
        self.finish_swap()
        self._truncations += 1
        for segment in self.segments.starting_at_or_above(0)[::-1]:
            self._delete_now(segment)
        self.begin_at(offset, log_start, now_ms)

    def drop_everything(self) -> None:
        """Delete every segment, durably, before the state of another log is written."""
        self.finish_swap()
        self._truncations += 1
        for segment in self.segments.starting_at_or_above(0)[::-1]:
            self._delete_now(segment)
        self._files.sync_dir(self.directory)

    def begin_at(self, offset: int, log_start: int, now_ms: int) -> None:
        """Create the first segment of an empty log, at `offset`. See `sync_truncation`.

        Records in [`log_start`, `offset`) may still be in the tier.
        """
        assert len(self.segments) == 0
        self.segments.add(LogSegment(self._files, self.directory, offset, self.config, now_ms))
        self.bounds.begin_at(offset, log_start)
        self.recovery_point = offset

    def sync_truncation(self) -> None:
        """fsync the log after a truncation, or a crash could mix new records with dropped ones.

        A log that starts at a new offset counts as flushed up to that offset, so this also syncs
        all that its first flush would have synced.
        """
        for sync in self._unsynced:
            sync()
        self._unsynced.clear()
        self.active_segment.flush_log()
        self._files.sync_dir(self.directory)

    def _delete_now(self, segment: LogSegment) -> None:
        self.segments.remove(segment)
        segment.is_deleted = True
        segment.delete()

    def delete_segments(self, segments: list[LogSegment], now_ms: int) -> None:
        """Remove segments from the log; their files are deleted after `file.delete.delay.ms`."""
        self.finish_swap()
        for segment in segments:
            assert segment is not self.active_segment, "The active segment is rolled first."
            self.segments.remove(segment)
            segment.rename_to_deleted()
            self._pending_deletes.append((now_ms + self.config.file_delete_delay_ms, segment))

    def replace_segments(self, cleaned: LogSegment, old: list[LogSegment], now_ms: int) -> None:
        """Replace `old` with `cleaned`, which is durable under its suffix `.cleaned`.

        After a power loss one of the two is complete: the rename to `.swap` is durable before an
        old segment is renamed, and those renames are durable before `cleaned` gets its final names.
        After OSError the log has either the old segments or `cleaned`: see `finish_swap`.
        """
        assert self.active_segment not in old
        self.finish_swap()
        # Opened first: if descriptors ran out half-way, the swap could not be finished.
        directory = self._files.open_dir(self.directory)
        try:
            cleaned.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            directory.sync()
        except OSError:
            directory.close()
            _take_back(cleaned)
            raise
        for segment in old:
            self.segments.remove(segment)
            segment.is_deleted = True
        self.segments.add(cleaned)
        due_ms = now_ms + self.config.file_delete_delay_ms
        self._swap = _Swap(cleaned, list(old), due_ms, directory)
        self.finish_swap()

    def finish_swap(self) -> None:
        """Rename the files of the last swap that still have their old names.

        The final names of the cleaned segment are not synced. Raises OSError. The log and a restart
        can both work with half-renamed files, but the renames must be finished before other files
        are created or removed in the directory.
        """
        swap = self._swap
        if swap is None:
            return
        while swap.old:
            swap.old[0].rename_to_deleted()
            self._pending_deletes.append((swap.due_ms, swap.old.pop(0)))
        swap.directory.sync()
        swap.cleaned.change_suffix(SWAP_SUFFIX, "")
        swap.directory.close()
        self._swap = None

    def delete_pending(self, now_ms: int) -> int:
        """Remove the files whose delay is over; returns how many segments are still pending."""
        for segment in self.take_due_deletes(now_ms):
            segment.delete()
        return len(self._pending_deletes)

    def take_due_deletes(self, now_ms: int) -> list[LogSegment]:
        """Return each segment whose delay is over, once; the caller must remove its files."""
        due = [segment for due_ms, segment in self._pending_deletes if due_ms <= now_ms]
        self._pending_deletes = [entry for entry in self._pending_deletes if entry[0] > now_ms]
        return due

    def finish(self) -> None:
        """Complete the indexes and remove deleted segments; the caller then flushes a last time.

        The indexes of a log without writes since it was opened are not changed.
        """
        active = self.active_segment
        if self.recovery_point < self.log_end_offset or active.needs_closing:
            active.complete_indexes()
            self._closed_since_flush.append(active)
        for _, segment in self._pending_deletes:
            segment.delete()
        self._pending_deletes.clear()

    def release(self) -> None:
        """Close all files as they are (the log is being deleted, or its disk failed)."""
        self._is_released = True
        for segment in self.segments:
            segment.release()
        for _, segment in self._pending_deletes:
            segment.release()
        self._pending_deletes.clear()
        if self._swap is not None:
            # The next start finishes the swap.
            for segment in self._swap.old:
                segment.release()
            self._swap.directory.close()
            self._swap = None


def _take_back(cleaned: LogSegment) -> None:
    """Rename the files of a failed swap back to `.cleaned`, so that no restart completes it."""
    try:
        cleaned.change_suffix(SWAP_SUFFIX, CLEANED_SUFFIX)
    except OSError as error:
        # Always EIO, so that the disk counts as failed: a restart would complete the swap, so the
        # log must not continue with the old segments.
        raise OSError(errno.EIO, os.strerror(errno.EIO), cleaned.path) from error

"""Compacts one log: keeps each key's last record, and tombstones for a while (section CL).

    1. put the keys of the dirty part into an offset map, until the map is full or the part ends
    2. group neighbouring segments so that each group fits into one segment
    3. write a group's batches to a `.cleaned` segment, without records superseded by the map
    4. replace the group with the cleaned segment, and continue with the next group

Steps 1 and 3 read immutable files and write a file that nothing else uses. They are generators
that yield every few hundred kilobytes, so that the caller can run them in a thread, throttle or
cancel them. A segment that is being read stays readable even if it is deleted meanwhile. Steps 2
and 4 run in the thread of the log's owner. They first check whether retention or a truncation has
changed the log; if so, the work is discarded. A reader that holds a region of a replaced file can
still read it.

After a crash the log is as it was either before or after step 4 of a group, never in between: see
`LocalLog.replace_segments` (Kafka's `Cleaner`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch
from ..directory.log_dir import LogDir, on_disk
from ..log_file import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_path,
)
from ..segment.log_segment import LogSegment, PinnedSegment
from .batch_cleaning import CleaningRules, clean_batch, last_of_producers
from .cleanable_log import CleanableLog, group_segments
from .cleaned_transactions import CleanedTransactions
from .cleaner_config import CleanerConfig
from .offset_map import OffsetMap, capacity_of


@dataclass(slots=True)
class CleaningStats:
    """The statistics of one cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    map_utilization: float = 0.0


class LogCleaning:
    """One cleaning of one log. The log's owner creates it and calls `groups` and `swap`.

    If a batch has a wrong CRC or cannot be decoded, the generators raise KafkaError. The groups
    not yet swapped then stay as they are, and the log must not be cleaned again until an operator
    has inspected it.
    """

    def __init__(self, cleanable: CleanableLog, config: CleanerConfig, now_ms: int) -> None:
        log = self.log = cleanable.log
        # At startup a `.swap` file beside `.cleaned` files would count as unfinished.
        log.local.finish_swap()
        self._config = config
        self._log_config = log.config
        self._now_ms = now_ms
        self._first_dirty_offset = cleanable.first_dirty_offset
        self._end_offset = cleanable.first_uncleanable_offset
        self._truncations = log.local.truncations
        self._segments = [
            segment for segment in log.local.segments if segment.base_offset < self._end_offset
        ]
        self._aborted = log.aborted_transactions(self._segments[0].base_offset, self._end_offset)
        keys = OffsetMap(capacity_of(config.dedupe_buffer_size, config.io_buffer_load_factor))
        self._rules = CleaningRules(
            keys,
            CleanedTransactions(self._aborted),
            last_of_producers(log.producers.entries),
            self._end_offset,
            now_ms,
            log.config.delete_retention_ms,
        )
        self._dirty = [
            (segment, segment.position_of(max(self._first_dirty_offset, segment.base_offset)))
            for segment in self._segments
            if log.end_offset_of(segment) > self._first_dirty_offset
        ]
        self._cleaned: LogSegment | None = None
        self.stats = CleaningStats()

    @property
    def log_dir(self) -> LogDir:
        return self.log.log_dir

    def read_keys(self) -> Iterator[int]:
        """Fill the offset map; yields the bytes read since the last yield."""
        keys = self._rules.keys
        keys.saw_up_to(self._first_dirty_offset - 1)
        transactions = CleanedTransactions(
            txn for txn in self._aborted if txn.last_offset >= self._first_dirty_offset
        )
        for number, (segment, position) in enumerate(self._dirty):
            pending = 0
            pinned = self._pin(segment)
            if pinned is None:
                # It was deleted. Its keys could supersede only records in it and in earlier
                # segments, which are deleted too.
                continue
            for batch in _checked_batches(pinned, position):
                if not self._put_keys(batch, transactions):
                    self.stats.map_utilization = keys.utilization
                    return
                keys.saw_up_to(batch.last_offset)
                pending += batch.size_in_bytes
                if pending >= self._config.io_buffer_size:
                    yield pending
                    pending = 0
            following = self._dirty[number + 1 : number + 2]
            end_offset = following[0][0].base_offset if following else self._end_offset
            # Everything below the next segment was read, even if earlier cleanings removed the end.
            keys.saw_up_to(end_offset - 1)
            self.stats.map_utilization = keys.utilization
            yield pending

    def _put_keys(self, batch: RecordBatch, transactions: CleanedTransactions) -> bool:
        """Put the keys of a batch into the map; False if the map is full."""
        is_aborted = transactions.may_discard(batch)
        if batch.is_control or is_aborted:
            return True
        put, first = self._rules.keys.put, self._first_dirty_offset
        return all(
            put(record.key, record.offset)
            for record in batch.records()
            if record.key is not None and record.offset >= first
        )

    def groups(self) -> list[list[LogSegment]]:
        """The groups of still existing segments to clean, in order. Call after `read_keys`."""
        end_offset = self._rules.keys.latest_offset + 1
        return group_segments(
            [
                segment
                for segment in self._segments
                if segment.base_offset < end_offset and self.is_current([segment])
            ],
            self._log_config.segment_bytes,
            self._log_config.segment_index_bytes,
            self._end_offset,
        )

    @property
    def cleaned_up_to(self) -> int:
        """The first dirty offset of the log once all groups are swapped."""
        return self._rules.keys.latest_offset + 1

    def clean(self, group: list[LogSegment]) -> Iterator[int]:
        """Write the cleaned segment durably; yields bytes read and written since the last yield."""
        cleaned = self._begin(group[0].base_offset)
        transactions = self._rules.transactions
        buffer, kept, pending = bytearray(), list[RecordBatch](), 0
        for segment in group:
            pinned = self._pin(segment)
            if pinned is None:
                # `swap` will find that the group no longer exists.
                transactions.kept.clear()
                return
            for batch in _checked_batches(pinned):
                result = clean_batch(batch, self._rules)
                pending += batch.size_in_bytes
                if result is not None:
                    kept.append(RecordBatch(memoryview(result)))
                    buffer += result
                if pending >= self._config.io_buffer_size:
                    self._write(cleaned, buffer, kept)
                    self.stats.bytes_read += pending
                    yield pending + len(buffer)
                    buffer, kept, pending = bytearray(), [], 0
        self._write(cleaned, buffer, kept)
        self.stats.bytes_read += pending
        for txn in transactions.kept:
            cleaned.txn_index.append(txn)
        transactions.kept.clear()
        cleaned.become_inactive()
        cleaned.flush_log()
        cleaned.flush_indexes()
        yield pending + len(buffer)

    def _pin(self, segment: LogSegment) -> PinnedSegment | None:
        """Keep the segment's file open for reading; None if the segment was deleted.

        Pin one segment at a time: a long log has more segments than there are descriptors.
        """
        try:
            return segment.pin()
        except OSError:
            # Another thread may have deleted the segment or truncated the log meanwhile.
            if segment.is_deleted or not self.is_log_current:
                return None
            raise

    def _begin(self, base_offset: int) -> LogSegment:
        files, directory = self.log_dir.files, self.log.directory
        # The renames of the last swap must be durable before a `.cleaned` file exists: at startup
        # a `.swap` file with the same or a higher base offset would count as unfinished.
        files.sync_dir(directory)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            files.remove(file_path(directory, base_offset, suffix + CLEANED_SUFFIX))
        self._cleaned = LogSegment(
            files, directory, base_offset, self._log_config, self._now_ms, CLEANED_SUFFIX
        )
        return self._cleaned

    def _write(self, cleaned: LogSegment, buffer: bytearray, kept: list[RecordBatch]) -> None:
        if kept:
            cleaned.append(buffer, kept)
            self.stats.bytes_written += len(buffer)

    def is_current(self, group: list[LogSegment]) -> bool:
        """Whether the group is unchanged and still part of the log."""
        segments = self.log.local.segments
        return self.is_log_current and all(
            segments.floor(segment.base_offset) is segment for segment in group
        )

    @property
    def is_log_current(self) -> bool:
        """Whether the log is still open and compacted, and has not been truncated."""
        local = self.log.local
        return (
            not local.is_released
            and local.truncations == self._truncations
            and self.log.config.is_compacted
        )

    @on_disk
    def swap(self, group: list[LogSegment], now_ms: int) -> bool:
        """Replace the group with the cleaned segment; False if the group has changed."""
        if not self.is_current(group):
            self.abandon()
            return False
        cleaned = self._cleaned
        assert cleaned is not None
        local = self.log.local
        try:
            local.replace_segments(cleaned, group, now_ms)
        finally:
            if local.segments.floor(cleaned.base_offset) is cleaned:
                # The segment now belongs to the log, even if renaming its files has failed.
                self._cleaned = None
        for segment in group[1:]:
            self.log.producers.delete_snapshot_at(segment.base_offset)
        return True

    @on_disk
    def abandon(self) -> None:
        """Remove the unfinished cleaned segment, after a failure other than a disk failure."""
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is not None and not self.log.local.is_released:
            cleaned.delete()


def _checked_batches(segment: PinnedSegment, position: int = 0) -> Iterator[RecordBatch]:
    """The segment's batches. Raises KafkaError if a batch is damaged or out of order."""
    expected = segment.base_offset
    for batch in segment.batches(position):
        batch.ensure_valid()
        if batch.base_offset < expected or batch.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{segment.path} has a batch out of order: offset {batch.base_offset} after "
                f"{expected - 1}.",
            )
        expected = batch.next_offset
        yield batch

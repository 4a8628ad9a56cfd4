"""One partition's log (Kafka's `UnifiedLog`): local and remote segments behind one interface.

    log start          local log start            last stable    high watermark    log end
        |  remote tier only  |  local segments (some also remote)     |                |
        +--------------------+------------------------+---------------+----------------+
        read: RemoteRead          read: a region of a local file

`bounds.py` holds these offsets, moves them and asserts their order. Only a move of the log start
offset truncates the beginning of the leader epoch history (KIP-405).

Apart from disk I/O nothing here blocks, and nothing starts a thread or reads a clock. A disk
failure takes the log directory offline: every method marked `@on_disk` then raises
KAFKA_STORAGE_ERROR.
"""

import logging
from collections.abc import Generator
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.record.batch import NO_TIMESTAMP, RecordBatch, batches
from ...clients.runtime.steps import finished
from ...clients.topic_partition import TopicIdPartition
from ..config import LogConfig
from ..directory.log_dir import on_disk
from ..files import ReadableBuffer
from ..producer.producer_entry import AppendOrigin, CompletedTxn
from ..segment.log_segment import LogSegment
from ..segment.transaction_index import AbortedTxn
from .append_result import LogAppendInfo, appended_info, duplicate_info
from .aux_state import AuxState, start_log_at
from .fetch_data import (
    FetchDataInfo,
    FetchIsolation,
    RemoteRead,
)
from .local_log import FlushTask
from .log_offsets import Found, find_offset
from .log_parts import LogParts
from .log_retention import RetentionBounds, breached_segments
from .log_validator import (
    AppendContext,
    assign_offsets,
    client_batch_steps,
    too_large_for_segment,
    validate,
)
from .producer_recovery import reload_producers, take_snapshot_at_close

if TYPE_CHECKING:
    from ..remote.remote_log import RemoteLog

_log = logging.getLogger(__name__)

# Looking up an enum member takes 0.1 µs in Python 3.11, and every read needs one.
_LOG_END = FetchIsolation.LOG_END
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_TXN_COMMITTED = FetchIsolation.TXN_COMMITTED


class _Pause:
    """What a step of a search returns while the search is unfinished."""


_PAUSE = _Pause()


class UnifiedLog:
    """One partition's log: see the module docstring. Created by `log_loader.load_log`."""

    def __init__(self, parts: LogParts, log_start_offset: int, now_ms: int) -> None:
        self._parts = parts
        self.topic_partition = parts.topic_partition
        self.log_dir = parts.log_dir
        self.local = parts.local
        self.leader_epochs = parts.leader_epochs
        self.producers = parts.producers
        self.damaged_from = parts.damaged_from
        """The first offset that cannot be read although later ones can; see `replica_repair.py`."""
        self.remote: RemoteLog | None = None
        """The log's remote segments, if the topic is tiered and their metadata is known."""
        self.bounds = parts.bounds
        """The offsets that bound the log. Other classes may read them but must not move them."""
        self.bounds.open_at(log_start_offset, parts.local.segments.first.base_offset)
        self.read_only_reason = ""
        """The error message for appends and deletions; empty if they are allowed."""
        self._now_ms = now_ms  # the latest time passed by a caller

    def __repr__(self) -> str:
        return f"UnifiedLog({self.topic_partition}, end={self.log_end_offset})"

    @property
    def topic_id(self) -> Uuid:
        """The id of the log's topic; zero if it is unknown."""
        return self._parts.topic_id

    @topic_id.setter
    def topic_id(self, topic_id: Uuid) -> None:
        self._parts.topic_id = topic_id

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self._parts.topic_id_partition

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def config(self) -> LogConfig:
        return self.local.config

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from the next operation on."""
        self.local.config = config

    @property
    def is_tiered(self) -> bool:
        return self.local.config.remote_storage_enable

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.bounds.log_end

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read at all."""
        return self.bounds.log_start

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that is on this machine's disk."""
        return self.bounds.local_log_start

    @property
    def high_watermark(self) -> int:
        """One past the last replicated offset."""
        return self.bounds.high_watermark

    @property
    def highest_remote_offset(self) -> int:
        """The last offset of a finished copy in this leader's epoch history; -1 while unknown."""
        return self.bounds.highest_remote

    @property
    def recovery_point(self) -> int:
        """The offset below which every record survives a crash."""
        return self.local.recovery_point

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the local segments."""
        return self.local.segments.size_in_bytes

    @property
    def last_stable_offset(self) -> int:
        """The offset below which read_committed may read; no open transaction begins below it."""
        return self.bounds.last_stable_offset(self.producers.first_unstable_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch` and its end offset; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def end_offset_of(self, segment: LogSegment) -> int:
        """One past the last offset of a local segment."""
        return self.local.end_offset_of(segment)

    @on_disk
    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        checked_for: LogConfig | None = None,
    ) -> LogAppendInfo:
        """Validate the records, assign their offsets and epoch in place, and append them.

        `checked_for` is the configuration against which `long_check` validated the records; if it
        has changed since, they are validated again. For a duplicate batch, returns the offsets of
        the original. Raises KafkaError, with nothing appended: RECORD_LIST_TOO_LARGE, or an error
        of `log_validator` or `ProducerEntry`.
        """
        self._now_ms = now_ms
        if self.read_only_reason:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, self.read_only_reason)
        config = self.local.config
        is_checked = checked_for is not None and checked_for == config
        context = AppendContext(config, origin, leader_epoch, now_ms, is_checked)
        record_batches = validate(records, context)
        for batch in record_batches:
            if batch.producer_id >= 0:
                duplicate = self.producers.check(batch, origin)
                if duplicate is not None:
                    return duplicate_info(duplicate, self.log_start_offset)
        if record_batches[0].size_in_bytes > config.segment_bytes:
            raise too_large_for_segment(record_batches[0].size_in_bytes, config)
        appendable = assign_offsets(records, record_batches, self.bounds.log_end, context)
        record_batches = appendable.batches
        self._append(appendable.buffer, record_batches, now_ms)
        return appended_info(record_batches, appendable.log_append_time_ms, self.bounds.log_start)

    def long_check(
        self, records: memoryview, now_ms: int
    ) -> Generator[None, None, RecordBatch] | None:
        """Validate a client's batch before its append, if that may take long.

        See `client_batch_steps`. None if the append can validate the batch quickly enough.
        """
        return client_batch_steps(
            records, AppendContext(self.config, AppendOrigin.CLIENT, -1, now_ms)
        )

    @on_disk
    def append_as_follower(self, records: memoryview, now_ms: int) -> LogAppendInfo:
        """Append the leader's batches unchanged, after checking only their CRCs and offsets.

        Raises KafkaError: CORRUPT_MESSAGE, or OFFSET_OUT_OF_RANGE for batches below the log end.
        """
        self._now_ms = now_ms
        record_batches = list(batches(records))
        expected = self.local.log_end_offset
        for batch in record_batches:
            batch.ensure_valid()
            if batch.base_offset < expected or batch.last_offset_delta < 0:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"The leader sent offset {batch.base_offset} of {self.topic_partition}, "
                    f"but the log end offset is {expected}.",
                )
            expected = batch.next_offset
        size = sum(batch.size_in_bytes for batch in record_batches)
        if size <= self.local.config.segment_bytes:
            if record_batches:
                self._append(records[:size], record_batches, now_ms)
        else:
            # A fetch response may be larger than a segment.
            for batch in record_batches:
                self._append(batch.view, [batch], now_ms)
        return appended_info(record_batches, NO_TIMESTAMP, self.log_start_offset)

    def _append(
        self, buffer: ReadableBuffer, record_batches: list[RecordBatch], now_ms: int
    ) -> None:
        local, producers = self.local, self.producers
        last = record_batches[-1]
        is_one = len(record_batches) == 1
        youngest = (
            last.max_timestamp if is_one else max(each.max_timestamp for each in record_batches)
        )
        if local.should_roll(len(buffer), last.last_offset, youngest, now_ms):
            self._roll(now_ms, record_batches[0].base_offset)
        latest_epoch = self.leader_epochs.latest_epoch
        for batch in record_batches:
            epoch = batch.partition_leader_epoch
            if epoch != latest_epoch and epoch >= 0:
                self.leader_epochs.assign(epoch, batch.base_offset)
        local.append(buffer, record_batches)
        for batch in record_batches:
            completed = producers.apply(batch)
            if completed is not None and completed.is_aborted:
                local.segments.add_aborted(self._to_aborted_txn(completed))
        if self.bounds.log_end - local.recovery_point >= local.config.flush_messages:
            self.flush()

    def _to_aborted_txn(self, completed: CompletedTxn) -> AbortedTxn:
        return AbortedTxn(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self.producers.last_stable_offset_after(completed),
        )

    @on_disk
    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, min_one_message: bool
    ) -> FetchDataInfo | RemoteRead:
        """Read whole batches, from the batch with `offset` up to the end visible to `isolation`.

        Reads at most `max_bytes`, from one segment; with `min_one_message`, the first batch is
        returned whatever its size. An empty result is not an error: `offset` may be at or above
        the visible end. Raises KafkaError(OFFSET_OUT_OF_RANGE) below the log start or above the
        log end.
        """
        local, bounds = self.local, self.bounds
        if not bounds.log_start <= offset <= bounds.log_end:
            raise self._out_of_range(offset)
        if offset < bounds.local_log_start:
            return self._remote_read(offset, max_bytes, isolation, min_one_message)
        bound = self.visible_end(isolation)
        local_read = local.read(offset, max_bytes, bound, min_one_message=min_one_message)
        is_committed = isolation is _TXN_COMMITTED
        return FetchDataInfo(
            local_read.records,
            bounds.high_watermark,
            bound if is_committed else self.last_stable_offset,
            bounds.log_start,
            local.aborted_in(offset, local_read) if is_committed else None,
            local_read.first_entry_incomplete,
        )

    def read_position(self, offset: int, isolation: FetchIsolation) -> int:
        """The approximate local bytes from `offset` to the visible end, for fetch.min.bytes."""
        return self.local.bytes_between(offset, self.visible_end(isolation))

    def visible_end(self, isolation: FetchIsolation) -> int:
        """The offset below which a reader with this isolation may see records."""
        if isolation is _HIGH_WATERMARK:
            return self.bounds.high_watermark
        if isolation is _LOG_END:
            return self.bounds.log_end
        return self.last_stable_offset

    def _remote_read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, min_one_message: bool
    ) -> RemoteRead:
        if not self.is_tiered:
            raise self._out_of_range(offset)
        epoch = self.leader_epochs.epoch_for_offset(offset)
        return RemoteRead(
            self.topic_id_partition,
            offset,
            -1 if epoch is None else epoch,
            max_bytes,
            isolation,
            min_one_message,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            self.local_log_start_offset,
        )

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """The aborted transactions in local segments that overlap [start_offset, upper_bound)."""
        return self.local.aborted_transactions(start_offset, upper_bound)

    def offset_for_timestamp(self, timestamp: int) -> Found:
        """Find the offset for a ListOffsets query: see `log_offsets`."""
        return finished(self.search_timestamp(timestamp))

    def search_timestamp(self, timestamp: int) -> Generator[None, None, Found]:
        """`offset_for_timestamp`, with pauses."""
        search = find_offset(self._parts, timestamp)
        while True:
            outcome = self._step(search)
            if not isinstance(outcome, _Pause):
                return outcome
            yield

    @on_disk
    def _step(self, search: Generator[None, None, Found]) -> "Found | _Pause":
        try:
            next(search)
        except StopIteration as end:
            return cast("Found", end.value)
        return _PAUSE

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, clamped to the local log; returns the new value."""
        offset = self.bounds.move_high_watermark(offset)
        self.producers.on_high_watermark(offset)
        return offset

    @on_disk
    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset up to `offset`; False if it is already there or higher.

        The next `delete_old_segments` deletes the files. Raises KafkaError(OFFSET_OUT_OF_RANGE)
        above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} as it is larger than the "
                f"high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.bounds.advance_log_start(offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset(offset)
        return True

    @on_disk
    def roll(self, now_ms: int) -> None:
        """Close the active segment, unless it is empty."""
        self._now_ms = now_ms
        self._roll(now_ms, 0)

    def _roll(self, now_ms: int, min_base_offset: int) -> None:
        before = self.local.active_segment
        if self.local.roll(now_ms, min_base_offset) is not before:
            base_offset = self.local.active_segment.base_offset
            _log.info(
                "Rolled new log segment of %s at offset %d", self.topic_partition, base_offset
            )
        # A restart, or a follower built from the tier, needs the producers' state there.
        self.producers.advance_to(self.local.log_end_offset)
        self.producers.take_snapshot()

    @on_disk
    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention; returns how many local segments it deleted. See `log_retention`."""
        self._now_ms = now_ms
        bounds = RetentionBounds(
            self.log_start_offset,
            self.local_log_start_offset,
            self.high_watermark,
            self.highest_remote_offset,
            self.config.copies_to_tier,
        )
        segments, must_roll_active, reason = breached_segments(self.local, bounds, now_ms)
        if must_roll_active or (segments and segments[-1] is self.local.active_segment):
            self._roll(now_ms, 0)
        for segment in segments:
            _log.info(
                "Deleting local segment %020d.log of %s (offsets %d to %d, %d bytes) due to %s",
                segment.base_offset,
                self.topic_partition,
                segment.base_offset,
                self.local.end_offset_of(segment) - 1,
                segment.size,
                reason,
            )
        if segments:
            self._delete_segments(segments, now_ms)
        return len(segments)

    def _delete_segments(self, segments: list[LogSegment], now_ms: int) -> None:
        assert not self.config.copies_to_tier or all(map(self._may_be_deleted, segments)), (
            f"{self} would delete records neither in the tier nor below the log start offset."
        )
        self.local.delete_segments(segments, now_ms)
        for segment in segments:
            self.producers.delete_snapshot_at(segment.base_offset)
        first = self.local.segments.first.base_offset
        if self.config.copies_to_tier:
            self.bounds.advance_local_log_start(first)
        else:
            self.maybe_increment_log_start_offset(first)

    def _may_be_deleted(self, segment: LogSegment) -> bool:
        """Whether a local segment can be deleted without losing a record that may still be read."""
        last = self.local.end_offset_of(segment) - 1
        return last <= self.bounds.highest_remote or last < self.bounds.log_start

    @on_disk
    def delete_pending(self, now_ms: int) -> int:
        """Remove the files of segments whose deletion delay has passed; returns how many remain."""
        return self.local.delete_pending(now_ms)

    def copy_candidates(self, from_offset: int) -> list[LogSegment]:
        """Closed segments, from the one with `from_offset` on, that end below the LSO."""
        last_stable_offset = self.last_stable_offset
        segments = self.local.segments.from_offset(from_offset)
        return [
            segment
            for segment, following in pairwise(segments)
            if following.base_offset <= last_stable_offset
        ]

    @on_disk
    def truncate_to(self, offset: int) -> None:
        """Drop everything at and above `offset`, where the leader's log diverges."""
        assert offset >= 0
        if self.damaged_from is not None and offset <= self.damaged_from:
            self.damaged_from = None
        if offset < self.local.segments.first.base_offset:
            if self.is_tiered and self.log_start_offset < offset:
                # Earlier records are in the tier; the epoch history is needed to find them.
                history = self.leader_epochs.entries_up_to(offset)
                self.start_at(AuxState(offset, self.log_start_offset, history, None))
            else:
                self.truncate_fully_and_start_at(offset)
            return
        if offset >= self.local.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return
        self.log_dir.lower_recovery_point(self.topic_partition, offset)
        self.leader_epochs.truncate_from_end(offset)
        self.local.truncate_to(offset, self._now_ms)
        reload_producers(self.producers, self.local.segments, self.log_start_offset, offset)
        self.local.sync_truncation()
        self.update_high_watermark(self.high_watermark)

    @on_disk
    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop every local record; the log continues at `offset`.

        A follower of a tiered log passes the leader's lower `log_start_offset` (KIP-405).
        """
        self.damaged_from = None
        self.log_dir.lower_recovery_point(self.topic_partition, 0)
        log_start = offset if log_start_offset is None else log_start_offset
        self.local.truncate_fully_and_start_at(offset, log_start, self._now_ms)
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        self.local.sync_truncation()
        self.update_high_watermark(offset)

    def start_at(self, state: AuxState) -> None:
        """Drop every local record and continue from `state`. See `aux_state`."""
        start_log_at(self._parts, state, self._now_ms)

    def prepare_flush(self, up_to: int | None = None) -> FlushTask | None:
        """The fsyncs that make everything below `up_to` durable; may run in any thread."""
        if not self.leader_epochs.is_synced:
            self.local.sync_with_next_flush(self.leader_epochs.sync)
        return self.local.prepare_flush(self.log_end_offset if up_to is None else up_to)

    def complete_flush(self, task: FlushTask) -> None:
        """Advance the recovery point after `task.run()` has returned."""
        self.local.complete_flush(task)

    @on_disk
    def flush(self, up_to: int | None = None) -> None:
        """fsync everything below `up_to` now, in this thread."""
        task = self.prepare_flush(up_to)
        if task is not None:
            task.run()
            self.complete_flush(task)

    @on_disk
    def prepare_close(self, now_ms: int) -> FlushTask | None:
        """Prepare to close the log; returns its last flush, after which it needs no recovery."""
        self._now_ms = now_ms
        take_snapshot_at_close(self.producers, self.local.segments)
        self.local.finish()
        return self.prepare_flush()

    @on_disk
    def close(self, now_ms: int) -> None:
        """Make everything durable and close the files."""
        self.prepare_close(now_ms)
        self.flush()
        self.local.release()

    def release(self) -> None:
        """Close the files as they are: the log is to be deleted, or its disk has failed."""
        self.local.release()

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {self.topic_partition}, but "
            f"we only have log segments in the range {self.log_start_offset} to "
            f"{self.log_end_offset}.",
        )

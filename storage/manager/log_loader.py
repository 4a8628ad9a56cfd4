"""Loads a log from the files that a clean shutdown or a crash has left (Kafka's `LogLoader`).

1. Files of unfinished work are removed: `.deleted`, `.cleaned`, and indexes without a log file. A
   finished `.swap` segment replaces the segments that it covers.
2. After a clean shutdown, indexes are used if they pass a sanity check. After a crash, every
   segment from the recovery point on is read batch by batch. At the first batch that is torn,
   damaged or out of order and cannot be repaired (`recoverable_batches.py`), the log is truncated,
   later segments are deleted, and the indexes are rebuilt. If everything is read again because the
   epoch history or a batch is damaged, damage below the synced end truncates only the damaged
   segment. The broker reports what was lost (`log_loss.py`).
3. The leader epoch history is compared with the batches, rebuilt from them if it does not match,
   and truncated to the log's bounds. The producer state is rebuilt from the newest valid snapshot
   and the batches after it. Both then match the surviving records.

After a crash only the unsynced end of the log is lost, never anything that was fsynced.
"""

import logging
from dataclasses import dataclass, replace
from itertools import pairwise

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.record.batch import RecordBatch
from ...clients.topic_partition import TopicPartition
from ..checkpoint import LEADER_EPOCH_FILE, MalformedCheckpointError
from ..config import LogConfig
from ..directory.log_dir import LogDir, set_folders_aside
from ..directory.log_loss import LogLoss, log_gaps
from ..log.leader_epoch import UNDEFINED_EPOCH, EpochEntry, LeaderEpochCache
from ..log.local_log import LocalLog
from ..log.log_parts import LogParts
from ..log.producer_recovery import fold_batches, reload_producers
from ..log.recoverable_batches import RecoverableBatches
from ..log.unified_log import UnifiedLog
from ..log_file import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    has_offset_name,
    offset_of,
)
from ..producer.producer_state import ProducerStateManager
from ..segment.index import CorruptIndexError, MissingIndexError
from ..segment.log_segment import LogSegment
from ..segment.log_segments import LogSegments
from ..segment.transaction_index import AbortedTxn

_log = logging.getLogger(__name__)

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_NO_OFFSET_ABOVE = 2**63


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Which log to open, with its offsets from the directory's checkpoints."""

    topic_partition: TopicPartition
    topic_id: Uuid
    directory: str
    config: LogConfig
    log_start_offset: int = 0
    recovery_point: int = 0
    had_clean_shutdown: bool = True
    producer_expiration_ms: int = 86_400_000
    durable_end: int | None = None
    """The synced end if all is read again, so that `recovery_point` is 0 instead; else None."""
    was_compacted: bool = False
    """Whether the log was ever compacted, whatever its cleanup.policy is now."""

    @property
    def may_have_holes(self) -> bool:
        """Whether compaction may have removed the records just before a segment."""
        return self.config.is_compacted or self.was_compacted

    @property
    def synced_end(self) -> int:
        """The offset below which everything has been synced."""
        return self.recovery_point if self.durable_end is None else self.durable_end

    def carefully(self) -> "LoadRequest":
        """The same request, but every batch is read even after a clean shutdown."""
        end = self.durable_end
        if end is None:
            end = _NO_OFFSET_ABOVE if self.had_clean_shutdown else self.recovery_point
        return replace(self, had_clean_shutdown=False, recovery_point=0, durable_end=end)


def load_log(log_dir: LogDir, request: LoadRequest, now_ms: int) -> UnifiedLog:
    """Open or create the log in `request.directory`. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    log_dir.check()
    try:
        try:
            return _Loading(log_dir, request, now_ms).load()
        except KafkaError as error:
            # A batch in the middle of the log cannot be read, so all batches are checked.
            _log.error(
                "The log in %s is damaged: %s Recovering it from its start.",
                request.directory,
                error,
            )
            return _Loading(log_dir, request.carefully(), now_ms).load()
    except OSError as error:
        raise log_dir.fail(error) from error


def _warn_of_index(segment: LogSegment, reason: object) -> None:
    _log.warning(
        "Found a corrupted index file corresponding to log file %s due to %s, recovering segment "
        "and rebuilding index files.",
        segment.path,
        reason,
    )


class _Loading:
    """Loads one log."""

    def __init__(self, log_dir: LogDir, request: LoadRequest, now_ms: int) -> None:
        self._log_dir = log_dir
        self._files = log_dir.files
        self._request = request
        self._now_ms = now_ms
        self._segments = LogSegments()
        directory = request.directory
        set_folders_aside(self._files, directory, self._files.listdir(directory))
        self._has_lost_epochs = False
        self._epochs = self._read_epochs(f"{directory}/{LEADER_EPOCH_FILE}")
        self._log_start_offset = request.log_start_offset
        if request.config.remote_storage_enable and self._epochs.entries:
            # Nothing below the epoch history of a tiered log can be read. A crash after
            # DeleteRecords must not bring those offsets back.
            history_start = self._epochs.entries[0].start_offset
            self._log_start_offset = max(request.log_start_offset, history_start)
        self._producers = ProducerStateManager(
            self._files, directory, request.producer_expiration_ms
        )
        self._recovering: ProducerStateManager | None = None
        self._rebuilt: list[LogSegment] = []
        self._loss: LogLoss | None = None
        self._damaged_from: list[int] = []

    def _read_epochs(self, path: str) -> LeaderEpochCache:
        try:
            return LeaderEpochCache(self._files, path)
        except MalformedCheckpointError as error:
            return self._forget_epochs(str(error))

    def _forget_epochs(self, reason: str) -> LeaderEpochCache:
        """Drop the epoch history; reading every local batch will rebuild it."""
        path = f"{self._request.directory}/{LEADER_EPOCH_FILE}"
        _log.warning(
            "%s of %s is unusable (%s): rebuilding it from the record batches, and from the "
            "remote tier for records that are only there",
            LEADER_EPOCH_FILE,
            self._request.topic_partition,
            reason,
        )
        self._files.remove(path)
        self._has_lost_epochs = True
        self._request = self._request.carefully()
        return LeaderEpochCache(self._files, path)

    def _contradiction(self) -> str:
        """How the epoch history contradicts the batches; empty if it does not.

        Only after a clean shutdown is the history on disk certain to be complete.
        """
        if not self._request.had_clean_shutdown:
            return ""
        entries = self._epochs.entries
        if any(
            older.epoch >= newer.epoch or older.start_offset >= newer.start_offset
            for older, newer in pairwise(entries)
        ):
            return "its epochs are out of order"
        start = self._request.log_start_offset
        is_tiered = self._request.config.remote_storage_enable
        if is_tiered and not entries and start < self._segments.last.base_offset:
            # The history must show whether the records that are not local are in the tier.
            return "it is empty"
        for segment in (self._segments.first, self._segments.last):
            batch = next((batch for _, batch in segment.positioned_batches()), None)
            if batch is None or batch.base_offset < start:
                continue
            epoch = self._epochs.epoch_for_offset(batch.base_offset)
            if batch.partition_leader_epoch not in (UNDEFINED_EPOCH, epoch):
                return (
                    f"the batch at offset {batch.base_offset} has leader epoch "
                    f"{batch.partition_leader_epoch}, not {epoch}"
                )
        return ""

    def _settle_history(self) -> None:
        """Drop an epoch history that cannot be right, and begin the one that is rebuilt."""
        reason = self._contradiction() if len(self._segments) else ""
        if not reason and self._is_history_gone():
            reason = "it is missing or empty"
        if reason:
            self._epochs = self._forget_epochs(reason)
        if self._has_lost_epochs:
            self._reach_back()

    def _is_history_gone(self) -> bool:
        """Whether there is no history of records that are not read again, or only in the tier.

        The first epoch of a new log may be written after its first records, which are read again.
        """
        request = self._request
        if self._has_lost_epochs or self._epochs.entries or not len(self._segments):
            return False
        first = self._segments.first.base_offset
        is_in_tier = request.config.remote_storage_enable and request.log_start_offset < first
        if not is_in_tier and request.recovery_point <= first:
            return False
        path = f"{request.directory}/{LEADER_EPOCH_FILE}"
        if self._files.exists(path) and self._files.read(path):
            return False
        return self._first_batch() is not None

    def _first_batch(self) -> RecordBatch | None:
        """The first batch of the first segment; None if it cannot be read, or there is none."""
        if not len(self._segments):
            return None
        try:
            return next((batch for _, batch in self._segments.first.positioned_batches()), None)
        except KafkaError:
            # Its recovery cuts the segment off there.
            return None

    def _reach_back(self) -> None:
        """Begin a lost history of a tiered log at its start: lower offsets are in the tier.

        It is written before the recovery writes what it reads: a broker that dies meanwhile must
        not leave a history that begins with the local log, as if all below had been deleted.
        """
        first, batch = self._log_start_offset, self._first_batch()
        if not self._request.config.remote_storage_enable or batch is None:
            return
        if first < batch.base_offset and batch.partition_leader_epoch != UNDEFINED_EPOCH:
            self._epochs.assign(batch.partition_leader_epoch, first)

    def load(self) -> UnifiedLog:
        request, directory = self._request, self._request.directory
        names = self._files.listdir(directory)
        if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
            self._finish_interrupted_work(names)
            names = self._files.listdir(directory)
        self._producers.scan_snapshots(names)
        self._open_segments(names)
        was_clean = request.had_clean_shutdown
        self._settle_history()
        request = self._request
        self._settle_log_start(was_clean=was_clean)
        if not request.had_clean_shutdown:
            self._recover_from(request.recovery_point)
        elif len(self._segments) and request.recovery_point not in (0, self._end_offset()):
            # A clean shutdown leaves nothing unsynced: the log must end at its recovery point. It
            # does not, so the offsets of the last batches are wrong.
            self._recover_segment(self._segments.last)
        start = self._log_start_offset
        if len(self._segments) and self._end_offset() < start:
            # The disk lost its cache, with records that were durable according to the checkpoints.
            for segment in self._segments:
                self._lose(segment, start, "it ended before its start offset")
        if not len(self._segments):
            self._segments.add(self._segment(start))
        if not request.may_have_holes:
            gaps = log_gaps(request.topic_partition, self._segments, self._loss)
            self._damaged_from.extend(gaps)
        if request.recovery_point > self._end_offset():
            _log.error(
                "The log of %s in %s ends at offset %d, below its recovery point %d: the "
                "records between them are lost.",
                request.topic_partition,
                directory,
                self._end_offset(),
                request.recovery_point,
            )
        if self._loss is not None:
            self._log_dir.losses.append(self._loss)
            # Truncated bytes must not reappear among records appended later.
            self._segments.last.flush_log()
            self._files.sync_dir(directory)
        return self._assemble()

    def _settle_log_start(self, *, was_clean: bool) -> None:
        """Choose the log start offset if the epoch history and the checkpoint disagree."""
        request = self._request
        if was_clean and len(self._segments):
            # After a clean shutdown the history never begins above the log start; if it does, one
            # of the two was lost. Both stay until the leader looks up the log start in the tier.
            self._log_start_offset = request.log_start_offset
        elif self._log_start_offset > request.log_start_offset:
            # Records were deleted just before the crash, or one of the two files is corrupt.
            _log.warning(
                "The log of %s starts at offset %d according to leader-epoch-checkpoint, not "
                "at %d as in log-start-offset-checkpoint: the records between them count as "
                "deleted.",
                request.topic_partition,
                self._log_start_offset,
                request.log_start_offset,
            )

    def _assemble(self) -> UnifiedLog:
        request = self._request
        local = LocalLog(self._files, request.directory, request.config, self._segments)
        local.active_segment.make_appendable(request.config)
        end_offset = self._end_offset()
        local.bounds.advance_log_end(end_offset)
        local.recovery_point = (
            end_offset if request.had_clean_shutdown else min(request.recovery_point, end_offset)
        )
        local.note_rebuilt(self._rebuilt)
        first = self._segments.first.base_offset
        log_start_offset = self._log_start_offset
        is_tiered, entries = request.config.remote_storage_enable, self._epochs.entries
        if self._has_lost_epochs and is_tiered:
            # Lower offsets are in the tier, where the leader also finds their epochs.
            if entries and entries[0].start_offset > log_start_offset:
                oldest = EpochEntry(entries[0].epoch, log_start_offset)
                self._epochs.replace([oldest, *entries[1:]])
        elif not is_tiered or not entries:
            # Records below a tiered log's first segment are in the tier if the epoch history
            # reaches that far; otherwise they are lost.
            log_start_offset = max(log_start_offset, first)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        self._rebuild_producers(log_start_offset, end_offset)
        parts = LogParts(
            request.topic_partition,
            request.topic_id,
            self._log_dir,
            local,
            self._epochs,
            self._producers,
            min(self._damaged_from, default=None),
        )
        return UnifiedLog(parts, log_start_offset, self._now_ms)

    def _rebuild_producers(self, log_start_offset: int, end_offset: int) -> None:
        producers = self._producers
        producers.scan_snapshots(self._files.listdir(self._request.directory))
        producers.remove_stray_snapshots(self._segments.base_offsets)
        reload_producers(producers, self._segments, log_start_offset, end_offset)
        producers.remove_expired(self._now_ms)

    def _finish_interrupted_work(self, names: list[str]) -> None:
        cleaned = [offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
        first_cleaned = min(cleaned, default=None)
        swaps: list[str] = []
        for name in names:
            path = f"{self._request.directory}/{name}"
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                self._files.remove(path)
            elif name.endswith(SWAP_SUFFIX):
                # A swap file at or above an unfinished cleaned file is unfinished too.
                if first_cleaned is not None and offset_of(name) >= first_cleaned:
                    self._files.remove(path)
                else:
                    swaps.append(name)
        for name in swaps:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                self._complete_swap(name, names)
        # A replaced segment must not reappear beside its replacement.
        self._files.sync_dir(self._request.directory)
        for name in swaps:
            path = f"{self._request.directory}/{name}"
            if self._files.exists(path):
                self._files.rename(path, path.removesuffix(SWAP_SUFFIX))
        self._files.sync_dir(self._request.directory)

    def _complete_swap(self, swap_name: str, names: list[str]) -> None:
        """Remove the segments that the cleaned segment replaces: those that begin in its range."""
        base = offset_of(swap_name)
        request = self._request
        swap = LogSegment(
            self._files, request.directory, base, request.config, self._now_ms, SWAP_SUFFIX
        )
        end = max(base + 1, swap.next_offset())
        swap.release()
        for name in names:
            if name.endswith((LOG_SUFFIX, *_INDEX_SUFFIXES)) and base <= offset_of(name) < end:
                self._files.remove(f"{self._request.directory}/{name}")

    def _segment(self, base_offset: int) -> LogSegment:
        request = self._request
        return LogSegment(self._files, request.directory, base_offset, request.config, self._now_ms)

    def _open_segments(self, names: list[str]) -> None:
        present = set(names)
        for name in names:
            if not has_offset_name(name):
                continue
            path = f"{self._request.directory}/{name}"
            if name.endswith(_INDEX_SUFFIXES):
                if f"{offset_of(name):020d}{LOG_SUFFIX}" not in present:
                    # For the first segment, only this warning shows that its records were lost.
                    _log.warning(
                        "Found an orphaned index file %s, with no corresponding log file.", path
                    )
                    self._files.remove(path)
            elif name.endswith(LOG_SUFFIX):
                self._segments.add(self._segment(offset_of(name)))
        if self._request.had_clean_shutdown:
            for segment in self._segments:
                self._check_or_rebuild(segment)
            self._check_transactions()

    def _check_transactions(self) -> None:
        """Check the transaction indexes together: a producer's transactions never overlap."""
        ends: dict[int, int] = {}
        for segment in self._segments:
            for txn in list(segment.txn_index):
                if txn.first_offset <= ends.get(txn.producer_id, -1):
                    _warn_of_index(
                        segment,
                        f"{segment.txn_index.path} lists a transaction that was not aborted",
                    )
                    self._recover_segment(segment)
                    break
                ends[txn.producer_id] = txn.last_offset

    def _check_or_rebuild(self, segment: LogSegment) -> None:
        try:
            segment.sanity_check(is_active=segment is self._segments.last)
            segment.check_end(self._limit_of(segment))
        except MissingIndexError:
            # A small active segment may lack its indexes: that is no error.
            if not (segment is self._segments.last and segment.needs_no_index):
                _log.error(
                    "Could not find offset index file corresponding to log file %s, recovering "
                    "segment and rebuilding index files...",
                    segment.path,
                )
            self._recover_segment(segment)
        except (CorruptIndexError, KafkaError) as error:
            _warn_of_index(segment, error)
            self._recover_segment(segment)

    def _limit_of(self, segment: LogSegment) -> int:
        """The offset below which all records of the segment must be."""
        following = self._segments.higher(segment.base_offset)
        return 2**63 if following is None else following.base_offset

    def _end_offset(self) -> int:
        last = self._segments.last
        try:
            return last.next_offset()
        except KafkaError:
            # The shutdown was marked as clean, but the segment is damaged.
            self._recover_segment(last)
            return last.next_offset()

    def _drop(self, segment: LogSegment) -> None:
        self._segments.remove(segment)
        segment.delete()
        self._producers.delete_snapshot_at(segment.base_offset)

    def _note_loss(self, offset: int, reason: str) -> LogLoss:
        """Record a loss and return the log's total loss, which begins at the lowest lost offset."""
        request, loss = self._request, self._loss
        if loss is None:
            loss = LogLoss(request.topic_partition, request.directory, offset, reason)
            self._loss = loss
        elif offset < loss.offset:
            loss.offset, loss.reason = offset, reason
        return loss

    def _lose(self, segment: LogSegment, offset: int, reason: str) -> None:
        """Delete a segment, because nothing from `offset` on can be kept."""
        if segment.size > 0:
            loss = self._note_loss(offset, reason)
            loss.later_segments += 1
            loss.later_bytes += segment.size
        self._drop(segment)

    def _recover_from(self, recovery_point: int) -> None:
        """Check every segment that may hold unsynced bytes; truncate at the first damage."""
        # This includes the segment that ends at the recovery point: it may have been closed, and
        # its indexes completed, after the last flush.
        last_synced = max(recovery_point - 1, 0)
        suspects = self._segments.from_offset(last_synced) if len(self._segments) else []
        for segment in self._segments:
            if segment not in suspects:
                self._check_or_rebuild(segment)
        was_cut = is_cut = False
        expected: int | None = None
        for segment in suspects:
            # A power loss cannot cause a gap below the synced end, so the log goes on after one.
            if segment.base_offset > self._request.synced_end:
                # If the segment before lost whole batches, nothing was cut: only the gap shows it.
                has_gap = expected is not None and segment.base_offset != expected
                is_cut = is_cut or was_cut or (has_gap and not self._request.may_have_holes)
            if is_cut:
                gap = f"the records before offset {segment.base_offset} are missing"
                self._lose(segment, expected or 0, gap)
            else:
                was_cut = self._recover_segment(segment) > 0
                expected = segment.next_offset()

    def _recover_segment(self, segment: LogSegment) -> int:
        """Keep the valid batches and rebuild the indexes; returns how many bytes were truncated."""
        producers = self._producers_at(segment.base_offset)
        segment.begin_rebuild()
        following = self._segments.higher(segment.base_offset)
        request = self._request
        valid = RecoverableBatches(
            segment,
            None if following is None else following.base_offset,
            request.recovery_point,
            request.synced_end,
            is_compacted=request.may_have_holes,
        )
        for position, batch in valid:
            epoch = batch.partition_leader_epoch
            if epoch > self._epochs.latest_epoch:
                self._epochs.assign(epoch, batch.base_offset)
            segment.rebuild_with(batch, position)
            completed = producers.apply(batch)
            if completed is not None and completed.is_aborted:
                stable = producers.last_stable_offset_after(completed)
                first, last = completed.first_offset, completed.last_offset
                segment.txn_index.append(AbortedTxn(completed.producer_id, first, last, stable))
        if valid.damaged_from is not None:
            self._damaged_from.append(valid.damaged_from)
        self._rebuilt.append(segment)
        is_active = segment is self._segments.last
        cut_bytes = segment.end_rebuild(valid.size, is_active=is_active)
        if cut_bytes:
            self._note_loss(segment.next_offset(), valid.damage).cut_bytes += cut_bytes
        return cut_bytes

    def _producers_at(self, offset: int) -> ProducerStateManager:
        """The producer state at a segment's start, with transactions that markers may end."""
        producers = self._recovering
        if producers is None or producers.map_end_offset > offset:
            producers = ProducerStateManager(self._files, self._request.directory)
            producers.scan_snapshots(self._files.listdir(self._request.directory))
            producers.load(-1, offset)
            self._recovering = producers
        if len(self._segments) and self._segments.first.base_offset < offset:
            fold_batches(producers, self._segments, offset)
        producers.advance_to(offset)
        return producers

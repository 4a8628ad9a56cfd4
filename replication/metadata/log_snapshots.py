"""The metadata log and its snapshots as one (Kafka's `KafkaRaftLog`).

    snapshot A        snapshot B             snapshot C
    |                 |                      |
    +-----------------+----------------------+---------- log end
    log start

A start loads the newest snapshot and replays only the log after it. The log start moves from one
snapshot to the next, and only once the next can be read: whatever the power does, there is either
the whole log, or a snapshot at or above the first segment's offset.

A snapshot ends at the end of a batch, because a follower that begins with it is then sent the batch
after it. It contains only committed records, and never a part of a metadata transaction.
"""

import logging
from typing import NamedTuple

from ...clients.record.batch import RecordBatch
from ...storage.directory.log_dir import LogDirError, on_disk
from ...storage.files import FileRegion, Files
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.unified_log import UnifiedLog
from .durable_end import first_offset, lower_durable_end
from .metadata_log_config import MetadataLogConfig
from .metadata_snapshots import MetadataSnapshots, SnapshotWriting
from .snapshot_format import QuorumRecord, SnapshotContent, SnapshotDamagedError, SnapshotId

_log = logging.getLogger(__name__)


def find_snapshots(
    files: Files, directory: str
) -> tuple[MetadataSnapshots, SnapshotContent | None]:
    """The snapshots in the directory of a metadata log that is not open yet, and the newest one.

    Raises OSError, or LogDirError if the beginning of the log is gone and no snapshot replaces it.
    """
    snapshots = MetadataSnapshots(files, directory)
    newest = snapshots.load_newest()
    begins_at = first_offset(files, directory)
    if begins_at > 0 and (newest is None or newest.snapshot_id.offset < begins_at):
        raise LogDirError(
            f"The metadata log in {directory} begins at offset {begins_at}, and no usable snapshot "
            f"(.checkpoint file) in it contains the records before. Restore the directory from a "
            f"backup."
        )
    return snapshots, newest


class DueDeletion(NamedTuple):
    """The log may begin with `snapshot_id`; what is before it goes, for this reason."""

    snapshot_id: SnapshotId
    reason: str


class LogSnapshots:
    """The snapshots of an open metadata log."""

    def __init__(
        self,
        log: UnifiedLog,
        files: Files,
        snapshots: MetadataSnapshots,
        newest: SnapshotContent | None,
        now_ms: int,
    ) -> None:
        """Puts the log and its snapshots in step: see `find_snapshots`."""
        self.log_dir = log.log_dir
        self._log = log
        self._files = files
        self._snapshots = snapshots
        self._newest = newest
        self._is_fetching = False
        self.loaded_quorum: tuple[int, tuple[QuorumRecord, ...]] = (0, ())
        """The end offset of the snapshot that was loaded last, and its records on the quorum."""
        if newest is not None:
            self.loaded_quorum = (newest.snapshot_id.offset, tuple(newest.quorum))
            self._settle(newest.snapshot_id, now_ms)

    @on_disk
    def _settle(self, newest: SnapshotId, now_ms: int) -> None:
        log, epoch = self._log, self._log.leader_epochs.latest_epoch
        # The log may end in a later epoch, that of a leader whose records were never committed.
        is_behind = newest.epoch > epoch or newest.offset > log.log_end_offset
        # An empty log has no epoch: it may have been put at the snapshot already.
        if is_behind and not log.log_start_offset == log.log_end_offset == newest.offset:
            _log.warning(
                "The metadata log in %s ends at offset %d, before its newest snapshot %s: it "
                "continues at offset %d.",
                log.directory,
                log.log_end_offset,
                newest,
                newest.offset,
            )
            lower_durable_end(self._files, log.directory, newest.offset, newest.epoch)
            log.truncate_fully_and_start_at(newest.offset)
        log.update_high_watermark(newest.offset)
        self._snapshots.delete_before(log.log_start_offset, now_ms)
        earliest = self._snapshots.earliest
        assert earliest is not None, "The newest snapshot is not below the log start."
        if log.log_start_offset > 0:
            log.maybe_increment_log_start_offset(earliest.offset)

    def take_newest(self) -> SnapshotContent | None:
        """The content of the newest snapshot after a start or `install`, once.

        Afterwards its memory is free.
        """
        newest, self._newest = self._newest, None
        return newest

    def note_fetching(self, is_fetching: bool) -> None:
        """A leader's snapshot is on its way, which will replace the log in a thread, or is not."""
        self._is_fetching = is_fetching

    def is_fetching(self) -> bool:
        """Whether the log is about to be replaced: nobody else may change it or its snapshots."""
        return self._is_fetching

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """The snapshots, the oldest first."""
        return self._snapshots.ids

    @property
    def latest(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self._snapshots.latest

    @property
    def earliest(self) -> SnapshotId | None:
        """The oldest snapshot; the log starts there, unless it starts at 0."""
        return self._snapshots.earliest

    def size(self, snapshot_id: SnapshotId) -> int:
        """The size of a snapshot in bytes."""
        return self._snapshots.size(snapshot_id)

    def written_ms(self, snapshot_id: SnapshotId) -> int:
        """When a snapshot was written, in milliseconds since the epoch."""
        return self._snapshots.times(snapshot_id).written_ms

    @property
    def bytes_after_latest(self) -> int:
        """The size of the log that a start must replay, approximately."""
        latest = self._snapshots.latest
        start = self._log.log_start_offset if latest is None else latest.offset
        return self._log.read_position(start, FetchIsolation.LOG_END)

    @on_disk
    def timestamp_before(self, snapshot_id: SnapshotId) -> int:
        """The timestamp of the last record that a new snapshot of this id contains.

        The id must be that of committed records, up to the end of a batch.
        """
        offset = snapshot_id.offset
        assert self._log.log_start_offset < offset <= self._log.high_watermark
        batch = self._batch_at(offset - 1)
        assert batch.last_offset == offset - 1, "A snapshot ends where a batch ends."
        assert batch.partition_leader_epoch == snapshot_id.epoch
        return batch.max_timestamp

    def _batch_at(self, offset: int) -> RecordBatch:
        fetched = self._log.read(offset, 1, FetchIsolation.LOG_END, True)
        assert not isinstance(fetched, RemoteRead), "the metadata log is never tiered"
        records = fetched.records
        return RecordBatch(
            memoryview(records.read() if isinstance(records, FileRegion) else records)
        )

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch of the log; the log must not be empty."""
        return self._batch_at(self._log.log_start_offset).max_timestamp

    def begin(self, snapshot_id: SnapshotId, unique: str) -> SnapshotWriting:
        """Begin to write a snapshot; `add` it once it is frozen. Raises OSError."""
        return self._snapshots.begin(snapshot_id, unique)

    def add(self, snapshot_id: SnapshotId) -> None:
        """Count a snapshot that is complete, unless the log has since been put at a later one."""
        self._snapshots.add(snapshot_id)
        if snapshot_id.offset < self._log.log_start_offset:
            self._snapshots.delete_before(self._log.log_start_offset, 0)

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot's bytes, for a follower. Raises OSError."""
        return self._snapshots.read(snapshot_id, position, max_bytes)

    def install(self, snapshot_id: SnapshotId, now_ms: int) -> SnapshotContent:
        """Continue from another node's snapshot that is complete and beyond the log end.

        The log is truncated fully to it; `take_newest` gives its content. Raises
        SnapshotDamagedError, with nothing changed.
        """
        content = self._snapshots.load(snapshot_id)
        self._snapshots.add(snapshot_id)
        self._settle(snapshot_id, now_ms)
        self._newest = content
        self.loaded_quorum = (snapshot_id.offset, tuple(content.quorum))
        return content

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which may be in a snapshot only; 0 if there is none."""
        epoch, latest = self._log.leader_epochs.latest_epoch, self._snapshots.latest
        if epoch >= 0:
            return epoch
        return 0 if latest is None else latest.epoch

    def end_offset_for_epoch(self, epoch: int) -> SnapshotId:
        """The largest epoch at or below `epoch`, and its end (`KafkaRaftLog.endOffsetForEpoch`).

        For an epoch that is newer than any of the log, the end of the log; for one that is older,
        the earliest snapshot, with which the log starts.
        """
        log_epoch, offset = self._log.end_offset_for_epoch(epoch)
        earliest = self._snapshots.earliest
        if log_epoch < 0:
            return SnapshotId(self._log.log_end_offset, self.last_epoch)
        if earliest is not None and offset == earliest.offset and log_epoch == epoch:
            return earliest
        return SnapshotId(offset, log_epoch)

    @on_disk
    def roll_if_larger(self, size: int, now_ms: int) -> None:
        """Begin a segment if the active one is larger, so that the log can be cut between them."""
        if self._log.local.active_segment.size >= size:
            self._log.roll(now_ms)

    def due_deletion(self, config: MetadataLogConfig, now_ms: int) -> DueDeletion | None:
        """What retention deletes next, if the log has another snapshot to begin with.

        Raises OSError.
        """
        ids = self._snapshots.ids
        if len(ids) < 2:
            return None
        size = self._log.size_in_bytes + sum(map(self._snapshots.size, ids))
        if 0 <= config.retention_bytes < size:
            return DueDeletion(
                ids[1],
                f"the log and its snapshots have {size} bytes, more than "
                f"metadata.max.retention.bytes={config.retention_bytes}",
            )
        age = now_ms - self._snapshots.times(ids[0]).last_record_ms
        if 0 <= config.retention_ms < age:
            return DueDeletion(
                ids[1],
                f"snapshot {ids[0]} is {age} ms old, more than "
                f"metadata.max.retention.ms={config.retention_ms}",
            )
        return None

    def damage_of(self, snapshot_id: SnapshotId) -> SnapshotDamagedError | None:
        """Why a snapshot cannot be used; None if it can. Raises OSError.

        May run in any thread.
        """
        try:
            self._snapshots.load(snapshot_id)
        except SnapshotDamagedError as damage:
            return damage
        return None

    def forget(self, snapshot_id: SnapshotId, damage: SnapshotDamagedError) -> None:
        """Say that a snapshot is damaged, and count it no longer. Its file is left as it is."""
        self._snapshots.forget(snapshot_id, damage)

    @on_disk
    def delete_before(self, due: DueDeletion, now_ms: int) -> None:
        """Let the log begin with a snapshot; delete the segments and snapshots before it."""
        log, start = self._log, due.snapshot_id.offset
        closed = [each for each in log.local.segments if each is not log.local.active_segment]
        segments = [each for each in closed if log.end_offset_of(each) <= start]
        for segment in segments:
            # One after the other: after a power loss, no segment may be missing between two.
            log.maybe_increment_log_start_offset(log.end_offset_of(segment))
            log.delete_old_segments(now_ms)
            self._files.sync_dir(log.directory)
        log.maybe_increment_log_start_offset(start)
        gone = self._snapshots.delete_before(start, now_ms)
        _log.info(
            "The metadata log in %s now starts at offset %d: deleted %d segments and the snapshots "
            "%s, because %s",
            log.directory,
            start,
            len(segments),
            ", ".join(map(str, gone)),
            due.reason,
        )

    @on_disk
    def delete_pending(self, now_ms: int) -> int:
        """Remove files deleted a minute ago; returns how many are still to be removed."""
        return self._snapshots.delete_pending(now_ms) + self._log.delete_pending(now_ms)

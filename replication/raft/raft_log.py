"""What the raft core reads of the metadata log. It never writes it."""

from typing import Protocol

from ...storage.remote.remote_lineage import OffsetAndEpoch

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""The snapshot that a storage directory is formatted with; it holds no committed offsets."""


class RaftLogView(Protocol):
    """The metadata log and its snapshots, as they are now."""

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The log end offset, synced or not."""
        ...

    @property
    def flushed_offset(self) -> int:
        """The end of the synced records."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; that of the latest snapshot in an empty log; else 0."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The latest epoch up to this one that the log has, and where its records end.

        For an epoch before the first of the log: the log start offset, and the epoch of the
        snapshot there (0 without one).
        """
        ...

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The id of the newest snapshot."""
        ...

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The id of the oldest snapshot."""
        ...

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The size of a snapshot in bytes; None if it does not exist."""
        ...


def log_end(log: RaftLogView) -> OffsetAndEpoch:
    """The log end offset and the epoch of the last record."""
    return OffsetAndEpoch(log.end_offset, log.last_epoch)

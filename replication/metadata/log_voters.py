"""The voter sets that stand in the metadata log and its snapshots (KIP-853)."""

from ...clients.record.batch import batches
from ...storage.files import Files
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..quorum.control_records import voter_sets
from ..quorum.quorum_storage import OffsetAndVoters
from ..raft.raft_log import BOOTSTRAP_SNAPSHOT
from ..raft.voter_set import VoterSet
from .committed_reader import metadata_batches
from .snapshot_format import SNAPSHOT_SUFFIX, SnapshotId

_HEAD_BYTES = 1 << 20
"""Enough for the first batch of a snapshot, with a few hundred bytes for each voter."""


class LogVoters:
    """Reads them. All methods raise OSError, and KafkaError(CORRUPT_MESSAGE) for damaged bytes."""

    def __init__(self, log: UnifiedLog, files: Files) -> None:
        self._log = log
        self._files = files

    def after(self, offset: int) -> list[OffsetAndVoters]:
        """The Voters records of the log from an offset on, committed or not."""
        sets: list[OffsetAndVoters] = []
        start = max(offset, self._log.log_start_offset)
        for batch in metadata_batches(self._log, start, self._log.log_end_offset):
            sets += [OffsetAndVoters(at, voters) for at, voters in voter_sets(batch)]
        return sets

    def in_snapshot(self, snapshot_id: OffsetAndEpoch) -> VoterSet | None:
        """The voters in a snapshot; None if they are static."""
        handle = self._files.open(self._path(snapshot_id))
        try:
            # They stand in the first batch.
            for batch in batches(handle.pread(0, min(handle.size(), _HEAD_BYTES))):
                if not batch.is_control:
                    break
                for _, voters in voter_sets(batch):
                    return voters
        finally:
            handle.close()
        return None

    def in_bootstrap(self) -> VoterSet | None:
        """The voters that the directory was formatted with (`--standalone`).

        None if it was formatted for static voters, or not at all.
        """
        is_there = self._files.exists(self._path(BOOTSTRAP_SNAPSHOT))
        return self.in_snapshot(BOOTSTRAP_SNAPSHOT) if is_there else None

    def _path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self._log.directory}/{SnapshotId(*snapshot_id)}{SNAPSHOT_SUFFIX}"

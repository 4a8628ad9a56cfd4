"""What the shell of the quorum needs of the metadata log, its snapshots and the state file."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...storage.directory.log_dir import LogDir
from ...storage.files import FileRegion
from ...storage.log.local_log import FlushTask
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..raft.election_state import ElectionState
from ..raft.raft_actions import AppendStartOfEpoch, AppendVoters, WriteSnapshotChunk
from ..raft.raft_log import RaftLogView
from ..raft.raft_messages import FetchedBatch
from ..raft.voter_set import VoterSet

Records = bytes | memoryview | FileRegion


class OffsetAndVoters(NamedTuple):
    """A Voters record and where it stands in the log."""

    offset: int
    voters: VoterSet


class QuorumStorage(RaftLogView, Protocol):
    """The metadata log, its snapshots and the state file. All methods raise OSError, KafkaError."""

    @property
    def log_dir(self) -> LogDir:
        """The directory with all of it."""
        ...

    def persist(self, state: ElectionState) -> None:
        """Write and sync the state file. Runs in a thread."""
        ...

    def append_start_of_epoch(self, action: AppendStartOfEpoch) -> None: ...

    def append_voters(self, action: AppendVoters) -> None: ...

    def append_fetched(self, batches: Sequence[FetchedBatch]) -> Sequence[OffsetAndVoters]:
        """Append batches; returns the Voters records in them."""
        ...

    def truncate_to(self, offset: int) -> None: ...

    def prepare_flush(self) -> FlushTask | None:
        """The pending fsync, if any."""
        ...

    def run_flush(self, task: FlushTask) -> None:
        """Run an fsync. Runs in a thread."""
        ...

    def complete_flush(self, task: FlushTask) -> None: ...

    def advance_high_watermark(self, offset: int) -> None: ...

    def records_from(self, offset: int) -> Records: ...

    def snapshot_voters(self, snapshot_id: OffsetAndEpoch) -> VoterSet | None:
        """The voters in a snapshot; None if they are static."""
        ...

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def write_snapshot_chunk(self, action: WriteSnapshotChunk) -> None: ...

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def drop_snapshot(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def snapshot_bytes(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> Records: ...

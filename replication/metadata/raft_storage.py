"""The metadata log and its snapshots as the quorum uses them: `QuorumStorage` on the disk.

What a node has acknowledged as durable must be there after a power loss, so the end of the synced
log stands in a file of its own (`durable_end.py`). Before the log is truncated, that file is put
back: a start must not refuse what the leader had truncated.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import uuid_to_string
from ...clients.protocol.schema import Message
from ...clients.record.batch import RecordBatch
from ...clients.runtime.environment import Environment
from ...storage.files import FileRegion, Files
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.local_log import FlushTask
from ...storage.log.unified_log import UnifiedLog
from ...storage.producer.producer_entry import AppendOrigin
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..quorum.control_records import start_of_epoch_batch, voter_sets, voters_batch
from ..quorum.quorum_storage import OffsetAndVoters
from ..raft.election_state import QUORUM_STATE_FILE, ElectionState, write_election_state
from ..raft.raft_actions import AppendStartOfEpoch, AppendVoters, WriteSnapshotChunk
from ..raft.raft_messages import FetchedBatch
from ..raft.voter_set import VoterSet
from .durable_end import lower_durable_end, write_durable_end
from .log_snapshots import LogSnapshots
from .log_voters import LogVoters
from .metadata_records import change_batch
from .snapshot_format import SnapshotDamagedError, SnapshotId

if TYPE_CHECKING:
    from .metadata_snapshots import SnapshotWriting

_READ_BYTES = 1 << 20

BATCH_BYTES_MAX = 8 << 20
"""The largest batch that the quorum replicates (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`)."""


class RaftStorage:
    """See the module; the methods are those of `QuorumStorage` and `RaftLogView`."""

    def __init__(
        self,
        log: UnifiedLog,
        files: Files,
        snapshots: LogSnapshots,
        environment: Environment,
        state: ElectionState,
    ) -> None:
        self._log = log
        self.log_dir = log.log_dir
        self._files = files
        self._snapshots = snapshots
        self._environment = environment
        self.voters = LogVoters(log, files)
        self._epoch = state.epoch
        self._download: SnapshotWriting | None = None

    # The methods of RaftLogView.

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._log.recovery_point

    @property
    def last_epoch(self) -> int:
        return self._snapshots.last_epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """See `RaftLogView`."""
        return OffsetAndEpoch(*self._snapshots.end_offset_for_epoch(epoch))

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return _id(self._snapshots.latest)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return _id(self._snapshots.earliest)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """See `RaftLogView`."""
        own_id = SnapshotId(*snapshot_id)
        return self._snapshots.size(own_id) if own_id in self._snapshots.ids else None

    def persist(self, state: ElectionState) -> None:
        """See `QuorumStorage`. Data version 0 is for static voters."""
        path = f"{self._log.directory}/{QUORUM_STATE_FILE}"
        write_election_state(self._files, path, state, 0 if state.voter_ids else 1)
        self._epoch = state.epoch

    def append_start_of_epoch(self, action: AppendStartOfEpoch) -> None:
        """See `QuorumStorage`."""
        now_ms = self._environment.wall_clock_ms()
        self._append(start_of_epoch_batch(action, now_ms), action.epoch, now_ms)

    def append_voters(self, action: AppendVoters) -> None:
        """See `QuorumStorage`."""
        assert action.offset == self.end_offset, "The core has counted on this offset."
        now_ms = self._environment.wall_clock_ms()
        self._append(voters_batch(action.voter_set, now_ms), action.epoch, now_ms)

    def append(self, records: Sequence[Message], epoch: int) -> int:
        """Append one change of state as the leader of an epoch; returns its last offset.

        Call `Quorum.appended` after it: the change is not committed yet. Raises
        KafkaError(RECORD_LIST_TOO_LARGE), with nothing written, for what followers may be unable to
        fetch in time.
        """
        now_ms = self._environment.wall_clock_ms()
        batch = change_batch(records, now_ms)
        if len(batch) > BATCH_BYTES_MAX:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"The change has {len(batch)} bytes of records, more than {BATCH_BYTES_MAX}.",
            )
        self._append(batch, epoch, now_ms)
        return self.end_offset - 1

    def _append(self, batch: bytearray, epoch: int, now_ms: int) -> None:
        self._log.append_as_leader(memoryview(batch), epoch, now_ms, AppendOrigin.RAFT_LEADER)

    def append_fetched(self, batches: Sequence[FetchedBatch]) -> list[OffsetAndVoters]:
        """See `QuorumStorage`."""
        now_ms = self._environment.wall_clock_ms()
        sets: list[OffsetAndVoters] = []
        for batch in batches:
            assert isinstance(batch, RecordBatch), "The shell hands in what it has decoded."
            self._log.append_as_follower(batch.view, now_ms)
            sets += [OffsetAndVoters(offset, voters) for offset, voters in voter_sets(batch)]
        return sets

    def truncate_to(self, offset: int) -> None:
        """See `QuorumStorage`."""
        lower_durable_end(self._files, self._log.directory, offset, self._epoch)
        self._log.truncate_to(offset)

    def prepare_flush(self) -> FlushTask | None:
        """See `QuorumStorage`."""
        return self._log.prepare_flush()

    def run_flush(self, task: FlushTask) -> None:
        """See `QuorumStorage`."""
        task.run()
        write_durable_end(self._files, self._log.directory, task.offset, self._epoch)

    def complete_flush(self, task: FlushTask) -> None:
        """See `QuorumStorage`."""
        self._log.complete_flush(task)

    def advance_high_watermark(self, offset: int) -> None:
        """See `QuorumStorage`."""
        self._log.update_high_watermark(offset)

    def records_from(self, offset: int) -> bytes | memoryview | FileRegion:
        """See `QuorumStorage`."""
        if offset >= self.end_offset:
            return b""
        fetched = self._log.read(offset, _READ_BYTES, FetchIsolation.LOG_END, True)
        assert not isinstance(fetched, RemoteRead), "The metadata log is never tiered."
        return fetched.records

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """See `QuorumStorage`."""
        if self._download is not None:
            self._download.abandon()
        self._snapshots.note_fetching(True)
        unique = uuid_to_string(self._environment.random_uuid())
        self._download = self._snapshots.begin(SnapshotId(*snapshot_id), unique)

    def write_snapshot_chunk(self, action: WriteSnapshotChunk) -> None:
        """See `QuorumStorage`."""
        download = self._download
        assert download is not None
        assert download.snapshot_id == SnapshotId(*action.snapshot_id), "One at a time."
        assert download.size == action.position, "Chunks come in order."
        download.append(bytes(action.chunk))

    def truncate_fully_to_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """See `QuorumStorage`."""
        download, self._download = self._download, None
        assert download is not None
        assert download.snapshot_id == SnapshotId(*snapshot_id), "One at a time."
        download.sync()
        try:
            download.check()
        except SnapshotDamagedError as damage:
            download.abandon()
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"The snapshot {download.snapshot_id} that the leader has sent is damaged: "
                f"{damage}. The log in {self._log.directory} is left as it was.",
            ) from damage
        download.freeze()
        lower_durable_end(self._files, self._log.directory, snapshot_id.offset, self._epoch)
        # Whatever its epochs: records that were never committed may be younger than the snapshot.
        self._log.truncate_fully_and_start_at(snapshot_id.offset)
        self._snapshots.install(download.snapshot_id, self._environment.wall_clock_ms())
        self._snapshots.note_fetching(False)

    def snapshot_voters(self, snapshot_id: OffsetAndEpoch) -> VoterSet | None:
        """See `QuorumStorage`. Raises KafkaError(CORRUPT_MESSAGE) for a damaged snapshot."""
        return self.voters.in_snapshot(snapshot_id)

    def drop_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """See `QuorumStorage`."""
        self._snapshots.note_fetching(False)
        download, self._download = self._download, None
        if download is not None and download.snapshot_id == SnapshotId(*snapshot_id):
            download.abandon()

    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """See `QuorumStorage`."""
        return self._snapshots.read(SnapshotId(*snapshot_id), position, min(max_bytes, _READ_BYTES))


def _id(snapshot_id: SnapshotId | None) -> OffsetAndEpoch | None:
    return None if snapshot_id is None else OffsetAndEpoch(*snapshot_id)

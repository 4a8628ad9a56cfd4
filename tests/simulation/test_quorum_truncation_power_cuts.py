"""The power goes at every step of a truncation that the leader asks of a voter."""

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.raft_storage import RaftStorage
from tierlog.replication.metadata.snapshot_format import SnapshotId, snapshot_batches
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft_actions import WriteSnapshotChunk
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.files import SimulatedFiles

DATA = "/data"
SNAPSHOT = OffsetAndEpoch(4, 3)


def opened(files: SimulatedFiles) -> MetadataLog:
    return open_metadata_log(LogDir(files, DATA), 1, 0)


def flush(storage: RaftStorage) -> None:
    task = storage.prepare_flush()
    assert task is not None
    storage.run_flush(task)
    storage.complete_flush(task)


class Truncation:
    """Synced records of a leader that was cut off go; those below were committed."""

    kept = 2

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs(DATA)
        files.sync_dir("/")
        storage = opened(files).raft_storage(SystemEnvironment())
        storage.persist(ElectionState(epoch=4))
        for number in range(6):
            storage.append([TopicRecord(name=f"t{number}")], 1)
        flush(storage)

    def work(self, files: SimulatedFiles) -> None:
        self.truncate(opened(files).raft_storage(SystemEnvironment()))

    def truncate(self, storage: RaftStorage) -> None:
        storage.truncate_to(self.kept)

    def check(self, files: SimulatedFiles) -> None:
        assert opened(files).end_offset >= self.kept


class FullTruncation(Truncation):
    """The leader no longer has what would follow: the log begins again at its snapshot."""

    def truncate(self, storage: RaftStorage) -> None:
        content = b"".join(
            snapshot_batches(SnapshotId(*SNAPSHOT), [], last_timestamp_ms=0, now_ms=0)
        )
        storage.create_snapshot(SNAPSHOT)
        storage.write_snapshot_chunk(WriteSnapshotChunk(SNAPSHOT, 0, content))
        storage.truncate_fully_to_snapshot(SNAPSHOT)


def test_a_start_never_refuses_what_the_leader_had_truncated() -> None:
    assert cut_power_everywhere(Truncation) > 3


def test_a_start_never_refuses_a_log_that_began_again_at_a_snapshot() -> None:
    assert cut_power_everywhere(FullTruncation) > 10

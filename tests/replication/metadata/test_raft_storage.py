"""The metadata log as a quorum uses it: snapshots that come from the leader."""

from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.snapshot_format import SnapshotId, snapshot_batches
from tierlog.replication.raft.raft_actions import WriteSnapshotChunk
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

SNAPSHOT = OffsetAndEpoch(500, 7)


def opened(directory: Path) -> MetadataLog:
    return open_metadata_log(LogDir(OsFiles(), str(directory)), 1, 0)


def a_snapshot() -> bytes:
    records = [TopicRecord(name="of-the-snapshot")]
    batches = snapshot_batches(
        SnapshotId(*SNAPSHOT), records, last_timestamp_ms=1_000, now_ms=1_000
    )
    return b"".join(map(bytes, batches))


def fetch_snapshot(log: MetadataLog, content: bytes) -> None:
    storage = log.raft_storage(SystemEnvironment())
    storage.create_snapshot(SNAPSHOT)
    for position in range(0, len(content), 50):
        chunk = content[position : position + 50]
        storage.write_snapshot_chunk(WriteSnapshotChunk(SNAPSHOT, position, chunk))
    storage.truncate_fully_to_snapshot(SNAPSHOT)


def test_the_log_begins_again_at_a_snapshot_of_the_leader(tmp_path: Path) -> None:
    log = opened(tmp_path)
    storage = log.raft_storage(SystemEnvironment())
    storage.append([TopicRecord(name="committed")], 1)
    storage.append([TopicRecord(name="of a later epoch, and never committed")], 9)
    fetch_snapshot(log, a_snapshot())

    assert (storage.start_offset, storage.end_offset, storage.last_epoch) == (500, 500, 7)
    assert storage.latest_snapshot_id == SNAPSHOT
    assert storage.snapshot_size(SNAPSHOT) == len(a_snapshot())
    assert storage.snapshot_bytes(SNAPSHOT, 10, 20) == a_snapshot()[10:30]

    # As after a power loss: the log is not closed.
    again = opened(tmp_path)
    replayed = [record for committed in again.replay() for record in committed.records]
    assert [record.name for record in replayed if isinstance(record, TopicRecord)] == [
        "of-the-snapshot"
    ]


def test_a_damaged_snapshot_of_the_leader_replaces_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    storage = log.raft_storage(SystemEnvironment())
    storage.append([TopicRecord(name="of-the-log")], 1)
    torn = a_snapshot()[:-1]
    damaged = bytearray(a_snapshot())
    damaged[-70] ^= 1
    for content in (b"", b"nonsense" * 20, torn, bytes(damaged)):
        with pytest.raises(KafkaError, match="is left as it was") as refused:
            fetch_snapshot(log, content)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE

    assert (storage.start_offset, storage.end_offset) == (0, 1)
    assert storage.latest_snapshot_id is None
    assert not [name for name in OsFiles().listdir(log.directory) if ".checkpoint" in name]

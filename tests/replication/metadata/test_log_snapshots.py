"""What a start makes of a metadata log and its snapshots, in whatever state it meets them."""

from collections.abc import Sequence

import pytest

from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.clients.record.control import ControlRecordType
from tierlog.replication.control.controller_state import ControllerCore
from tierlog.replication.metadata.cluster_image import ClusterDelta
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.log_snapshots import DueDeletion
from tierlog.replication.metadata.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.replication.metadata.snapshot_format import (
    QuorumRecord,
    SnapshotDamagedError,
    SnapshotId,
    snapshot_batches,
)
from tierlog.replication.quorum.control_records import encode_voters
from tierlog.replication.raft.voter_set import Voter, VoterKey, VoterSet
from tierlog.storage.directory.log_dir import LogDirError
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from .opened_metadata import DATA, DIRECTORY, EMPTY, NODE_ID, Metadata, id_of


def damage(files: SimulatedFiles, path: str) -> None:
    content = bytearray(files.read(path))
    content[-1] ^= 1
    files.atomic_replace(path, bytes(content))


def test_the_log_before_the_newest_snapshot_is_not_read(led: Metadata) -> None:
    led.create("a", "b")
    led.take_snapshot()
    led.create("c")
    (first, *_) = sorted(name for name in led.files.listdir(DIRECTORY) if name.endswith(".log"))
    assert first.startswith("0" * 20)
    again = Metadata(led.files)
    assert again.topics == ["a", "b", "c"]
    assert again.image == led.image
    assert again.log.high_watermark >= led.log.snapshots.ids[-1].offset


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(
    led: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    led.create("a")
    older = led.take_snapshot()
    led.cut_before(older)
    led.create("b")
    damaged = led.take_snapshot()
    led.create("c")
    damage(led.files, led.path(damaged))
    again = Metadata(led.files)
    assert again.image == led.image
    assert again.log.snapshots.ids == (older,)
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert led.path(damaged) in said
    assert led.files.exists(led.path(damaged))


def test_a_damaged_snapshot_is_replaced_by_the_whole_log(led: Metadata) -> None:
    led.create("a")
    damage(led.files, led.path(led.take_snapshot()))
    assert Metadata(led.files).image == led.image


def test_a_log_without_its_beginning_and_without_a_snapshot_is_refused(led: Metadata) -> None:
    led.create("a")
    snapshot_id = led.take_snapshot()
    led.create("b")
    led.cut_before(snapshot_id)
    before = led.files.disk.operations
    led.files.rename(led.path(snapshot_id), f"{DATA}/elsewhere")
    with pytest.raises(LogDirError, match=f"begins at offset {snapshot_id.offset}"):
        Metadata(led.files)
    assert led.files.disk.operations == before + 1, "nothing was written"
    led.files.rename(f"{DATA}/elsewhere", led.path(snapshot_id))
    assert Metadata(led.files).topics == ["a", "b"]


def test_files_of_unfinished_work_are_removed(led: Metadata) -> None:
    led.create("a")
    older = led.take_snapshot()
    led.create("b")
    newer = led.take_snapshot()
    led.log.snapshots.delete_before(DueDeletion(newer, "a test"), 0)
    led.log.snapshots.begin(SnapshotId(99, 1), "0123").append(b"half")
    content = led.files.read(led.path(newer))
    # The rename to `.deleted` did not survive.
    led.files.atomic_replace(led.path(older), content)
    again = Metadata(led.files)
    assert again.log.snapshots.ids == (newer,)
    again.log.snapshots.delete_pending(60_000)
    names = [name for name in led.files.listdir(DIRECTORY) if "checkpoint" in name]
    assert names == [f"{newer}.checkpoint", "leader-epoch-checkpoint"]


def test_a_log_that_ends_before_its_newest_snapshot_goes_on_from_there(led: Metadata) -> None:
    """The power went after a snapshot of another node came, and before the log was emptied."""
    led.create("a", "b", "c", "d")
    snapshot_id = led.take_snapshot()
    lost = led.image
    content = led.files.read(led.path(snapshot_id))
    led.files.remove_tree(DIRECTORY)
    behind = Metadata(led.files)
    behind.log.become_leader(0)
    behind.create("a")
    led.files.atomic_replace(led.path(snapshot_id), content)
    again = Metadata(led.files)
    assert again.topics == ["a", "b", "c", "d"]
    assert again.log.end_offset == again.log.high_watermark == snapshot_id.offset
    again.log.become_leader(0)
    again.create("e")
    last = Metadata(led.files)
    assert last.topics == ["a", "b", "c", "d", "e"]
    assert lost.topics_by_id.items() <= last.image.topics_by_id.items()


def test_an_empty_log_at_its_snapshot_is_left_alone(led: Metadata) -> None:
    led.create("a", "b")
    snapshot_id = led.take_snapshot()
    content = led.files.read(led.path(snapshot_id))
    led.files.remove_tree(DIRECTORY)
    led.files.mkdirs(DIRECTORY)
    led.files.atomic_replace(led.path(snapshot_id), content)
    assert Metadata(led.files).log.end_offset == snapshot_id.offset
    again = Metadata(led.files)
    assert again.topics == ["a", "b"]
    assert again.log.end_offset == snapshot_id.offset


def test_the_log_starts_at_its_oldest_snapshot(led: Metadata) -> None:
    """A segment may begin below it: what is there is not complete."""
    led.create("a", "b")
    led.log.snapshots.roll_if_larger(0, 0)
    led.create("c")
    snapshot_id = SnapshotId(led.image.offset + 1, led.image.epoch)
    led.create("d")
    content = b"".join(
        snapshot_batches(snapshot_id, image_records(led.image), last_timestamp_ms=0, now_ms=0)
    )
    led.files.atomic_replace(led.path(snapshot_id), content)
    first = min(name for name in led.files.listdir(DIRECTORY) if name.endswith(".log"))
    led.files.remove(f"{DIRECTORY}/{first}")
    again = Metadata(led.files)
    assert again.log.start_offset == snapshot_id.offset


def test_a_running_node_goes_on_from_a_snapshot_of_another(led: Metadata) -> None:
    led.create("a", "b", "c")
    snapshot_id = led.take_snapshot()
    content = led.files.read(led.path(snapshot_id))
    other = SimulatedFiles(SimulatedDisk())
    other.mkdirs(DATA)
    behind = Metadata(other)
    behind.log.become_leader(0)
    behind.create("a", "mine")
    own = behind.take_snapshot()
    writing = behind.log.snapshots.begin(snapshot_id, "4567")
    for position in range(0, len(content), 100):
        assert led.log.snapshots.read(snapshot_id, position, 100) == content[position:][:100]
        writing.append(content[position : position + 100])
    writing.sync()
    writing.freeze()
    received = behind.log.snapshots.install(snapshot_id, 0)
    delta = ClusterDelta(EMPTY)
    for records in received.records():
        delta.replay_all(records)
    image = delta.apply(snapshot_id.offset - 1, snapshot_id.epoch)
    changes = ClusterDelta.between(behind.image, image)
    assert [each.name for each in changes.deleted_topics.values()] == ["mine"]
    assert sorted(changes.apply(image.offset, image.epoch).topics_by_name) == ["a", "b", "c"]
    log = behind.log
    assert log.start_offset == log.high_watermark == log.end_offset == snapshot_id.offset
    assert log.snapshots.ids == (snapshot_id,)
    assert log.snapshots.last_epoch == snapshot_id.epoch
    assert not other.exists(behind.path(own))
    assert Metadata(other).topics == ["a", "b", "c"]


def test_a_damaged_snapshot_of_another_changes_nothing(led: Metadata) -> None:
    led.create("a")
    before = led.image
    writing = led.log.snapshots.begin(SnapshotId(99, 9), "4567")
    writing.append(b"nothing of the kind")
    writing.sync()
    writing.freeze()
    with pytest.raises(SnapshotDamagedError):
        led.log.snapshots.install(SnapshotId(99, 9), 0)
    assert Metadata(led.files).image == before


def test_the_end_of_an_epoch_below_the_log_start_is_that_of_the_snapshot(led: Metadata) -> None:
    """A follower that diverges there truncates to the snapshot, not into it."""
    led.create("a", "b")
    end_of_first = led.log.end_offset
    led.log.become_leader(0)
    led.create("c")
    snapshots = led.log.snapshots
    assert snapshots.end_offset_for_epoch(1) == SnapshotId(end_of_first, 1)
    snapshot_id = led.take_snapshot()
    led.log.become_leader(0)
    led.create("d")
    led.cut_before(snapshot_id)
    assert snapshots.last_epoch == 3
    assert snapshots.end_offset_for_epoch(3) == SnapshotId(led.log.end_offset, 3)
    assert snapshots.end_offset_for_epoch(2) == snapshot_id
    assert snapshots.end_offset_for_epoch(1) == snapshot_id
    assert snapshots.end_offset_for_epoch(4) == SnapshotId(led.log.end_offset, 3)


def test_a_topic_from_before_the_snapshot_is_not_lost(led: Metadata) -> None:
    led.create("a", "gone")
    led.change(RemoveTopicRecord(topic_id=id_of("gone")))
    snapshot_id = led.take_snapshot()
    led.create("b")
    again = Metadata(led.files)
    assert not any(map(again.log.has_lost, map(id_of, ("a", "b", "gone"))))
    assert again.log.has_lost(id_of("never"))
    assert id_of("gone") in again.image.deleted_topic_ids
    led.cut_before(snapshot_id)
    # Nobody knows any more what the log said before its start.
    assert not Metadata(led.files).log.has_lost(id_of("never"))


@pytest.mark.parametrize("end", [EndTransactionRecord(), AbortTransactionRecord(), None])
def test_a_transaction_that_the_log_ends_in_is_aborted(led: Metadata, end: Message | None) -> None:
    records: Sequence[Message] = [
        BeginTransactionRecord(),
        TopicRecord(name="a", topic_id=id_of("a")),
    ]
    led.log.append(records, 0)
    if end is not None:
        led.log.append([end], 0)
    led.log.flush()
    again = Metadata(led.files)
    assert again.log.is_in_transaction == (end is None)
    kept = ["a"] if isinstance(end, EndTransactionRecord) else []
    assert again.topics == kept
    # What the next leader writes is no part of the transaction.
    again.log.become_leader(0)
    leader: ControllerCore[None] = ControllerCore(again.image)
    for first in leader.claim(again.log.epoch, again.log.is_in_transaction):
        again.log.append(first, 0)
    again.create("b")
    assert Metadata(led.files).topics == [*kept, "b"]


def test_the_quorums_records_are_handed_on_from_snapshot_to_snapshot(led: Metadata) -> None:
    """Kafka may have written them (KIP-853). Once the log start has passed them, they are gone."""
    version = QuorumRecord(ControlRecordType.KRAFT_VERSION, b"\0\0\0\1\0")
    own = Voter(VoterKey(NODE_ID, id_of("directory")))
    voters = QuorumRecord(ControlRecordType.KRAFT_VOTERS, encode_voters(VoterSet([own])))
    builder = RecordBatchBuilder(
        is_control=True, base_offset=led.log.end_offset, leader_epoch=led.log.epoch
    )
    for kind, value in (version, voters):
        builder.append(0, kind.key(), value)
    segment = led.files.open(f"{DIRECTORY}/{0:020d}.log")
    segment.write_at(segment.size(), builder.build())
    again = Metadata(led.files)
    again.log.become_leader(0)
    assert again.log.quorum_records == [version, voters]
    again.create("b")
    again.cut_before(again.take_snapshot())
    assert Metadata(led.files).log.quorum_records == [version, voters]


def test_a_snapshot_ends_where_a_batch_ends(led: Metadata) -> None:
    led.change(*(TopicRecord(name=name, topic_id=id_of(name)) for name in "abc"))
    for offset in (led.image.offset, led.image.offset + 2, 0):
        with pytest.raises(AssertionError):
            led.log.snapshots.timestamp_before(SnapshotId(offset, led.image.epoch))

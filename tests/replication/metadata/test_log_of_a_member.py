"""The metadata log of a member of a quorum: it takes nothing as committed before it hears so."""

from tierlog.clients.record.control import ControlRecordType
from tierlog.replication.control.controller_state import ControllerCore
from tierlog.replication.control.standby_replay import StandbyReplay
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_records import BeginTransactionRecord
from tierlog.replication.metadata.snapshot_format import SnapshotId
from tierlog.replication.quorum.control_records import decode_voters
from tierlog.replication.raft.raft_actions import AppendVoters
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from .opened_metadata import DATA, EMPTY, NODE_ID, Metadata, id_of


def opened(files: SimulatedFiles) -> MetadataLog:
    """The log after a start that has replayed nothing."""
    return open_metadata_log(LogDir(files, DATA), NODE_ID, 0)


def is_in_transaction(log: MetadataLog) -> bool:
    """As a function, for type checkers take a property to stay as it was."""
    return log.is_in_transaction


def topics_of(core: ControllerCore[None]) -> list[str]:
    return sorted(core.committed.topics_by_name)


def voters(*ids: int) -> VoterSet:
    return VoterSet(
        Voter(VoterKey(each, id_of(f"directory-{each}")), {"CONTROLLER": Address("host", each)})
        for each in ids
    )


def append_voters(log: MetadataLog, voter_set: VoterSet) -> int:
    """Append a Voters record; returns its offset."""
    loop = SimulatedLoop()
    offset = log.end_offset
    storage = log.raft_storage(SimulatedEnvironment(loop, "voters"))
    storage.append_voters(AppendVoters(log.epoch, offset, voter_set))
    loop.close()
    return offset


def test_a_start_replays_the_snapshot_and_the_rest_as_it_is_committed(led: Metadata) -> None:
    led.create("a")
    snapshot_id = led.take_snapshot()
    led.create("b", "c")
    log = opened(led.files)
    core: ControllerCore[None] = ControllerCore(EMPTY)
    core.replay(log.replay_snapshot())
    assert topics_of(core) == ["a"]
    assert log.high_watermark == log.reader.offset == snapshot_id.offset
    assert core.replay(log.replay_snapshot()) is None
    core.replay(log.reader.read(log.end_offset - 1))
    assert topics_of(core) == ["a", "b"]
    core.replay(log.reader.read(log.end_offset))
    assert core.committed == led.image


def test_without_a_snapshot_nothing_is_replayed(led: Metadata) -> None:
    led.create("a")
    log = opened(led.files)
    assert list(log.replay_snapshot()) == []
    assert (log.reader.offset, log.high_watermark) == (0, 0)


def test_a_standby_begins_anew_with_a_snapshot_that_it_loads(led: Metadata) -> None:
    led.create("a", "b", "c")
    snapshot_id = led.take_snapshot()
    other = SimulatedFiles(SimulatedDisk())
    other.mkdirs(DATA)
    behind = Metadata(other)
    behind.log.become_leader(0)
    behind.create("mine")
    log = behind.log
    core: ControllerCore[None] = ControllerCore(EMPTY)
    core.replay(log.reader.read(log.end_offset))
    assert topics_of(core) == ["mine"]

    writing = log.snapshots.begin(snapshot_id, "4567")
    writing.append(led.files.read(led.path(snapshot_id)))
    writing.sync()
    writing.freeze()
    log.snapshots.install(snapshot_id, 0)
    replay = StandbyReplay(core, log, lambda _: None)
    replay.begin_with_snapshot()
    assert replay.go_on(snapshot_id.offset) or replay.go_on(snapshot_id.offset)
    assert core.committed == led.image
    assert log.reader.offset == log.end_offset == snapshot_id.offset


def test_voters_stand_in_the_snapshot_and_in_the_log_after_it(led: Metadata) -> None:
    log = led.log
    assert list(log.voter_sets()) == []
    first, second, third = voters(1), voters(1, 2), voters(1, 2, 3)
    append_voters(log, first)
    at_second = append_voters(log, second)
    led.create("a")
    log.reader.pass_over(log.end_offset)
    snapshot_id = led.take_snapshot()
    at_third = append_voters(log, third)
    log.flush()

    assert list(opened(led.files).voter_sets()) == [
        (snapshot_id.offset - 1, second),
        (at_third, third),
    ]
    led.files.remove(led.path(snapshot_id))
    assert list(opened(led.files).voter_sets()) == [
        (at_second - 1, first),
        (at_second, second),
        (at_third, third),
    ]


def test_who_passes_over_its_own_changes_keeps_the_records_of_the_quorum(led: Metadata) -> None:
    led.change(BeginTransactionRecord())
    log = led.log
    list(log.reader.read(log.end_offset))
    assert is_in_transaction(log)
    append_voters(log, voters(1, 2))
    log.reader.pass_over(log.end_offset)
    assert is_in_transaction(log), "no change has followed yet"
    led.create("a")
    log.reader.pass_over(log.end_offset - 1)
    assert log.reader.offset == log.end_offset - 1
    log.reader.pass_over(log.end_offset)
    assert not is_in_transaction(log)
    (record,) = log.quorum_records
    assert record.type is ControlRecordType.KRAFT_VOTERS
    assert decode_voters(record.value) == voters(1, 2)
    assert list(log.reader.read(log.end_offset)) == []


def test_a_snapshot_that_is_complete_too_late_does_not_count(led: Metadata) -> None:
    """While it was written, a leader's snapshot has replaced the log."""
    led.create("a", "b")
    log = led.log
    late = SnapshotId(led.image.offset, led.image.epoch)
    led.create("c")
    newer = led.take_snapshot()
    led.cut_before(newer)
    for name in (led.path(late), led.path(newer)):
        led.files.atomic_replace(name, led.files.read(led.path(newer)))
    log.snapshots.add(late)
    assert log.snapshots.ids == (newer,)
    assert log.snapshots.earliest == newer
    log.snapshots.delete_pending(10**9)
    assert not led.files.exists(led.path(late))
    assert Metadata(led.files).topics == ["a", "b", "c"]

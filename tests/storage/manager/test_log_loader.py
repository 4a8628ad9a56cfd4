"""Opening a log again: after a clean stop, after a crash, after damage."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.record.batch import batches
from tierlog.storage.checkpoint import (
    CLEANER_OFFSET_FILE,
    write_epoch_checkpoint,
    write_offset_checkpoint,
)
from tierlog.storage.config import LogConfig
from tierlog.storage.files import OsFiles
from tierlog.storage.log.replica_repair import drop_damaged_part
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.storage import compacted_log
from tierlog.tests.storage.compacted_log import COMPACTED, put, roll, surviving
from tierlog.tests.storage.log_home import (
    NOW_MS,
    PARTITION,
    SMALL,
    TIERED,
    LogHome,
    append,
    everything,
    filled,
    idempotent,
    indexes,
    plain,
    producer_states,
)

from .damaged_directories import flip, lived_in, truncate


def picture(log: UnifiedLog) -> dict[str, object]:
    """All that a log says of itself."""
    return {
        "bytes": everything(log),
        "indexes": indexes(log),
        "epochs": log.leader_epochs.entries,
        "end": log.log_end_offset,
        "start": log.log_start_offset,
        "unstable": log.producers.first_unstable_offset,
        "producers": producer_states(log),
    }


@pytest.fixture
def home(tmp_path: Path) -> LogHome:
    return LogHome(tmp_path)


def test_a_log_that_was_closed_is_found_as_it_was(home: LogHome) -> None:
    log = lived_in(home)
    before = picture(log)
    log.close(NOW_MS)
    again = home.open()
    assert picture(again) == before
    assert again.recovery_point == again.log_end_offset


def test_a_log_that_was_killed_is_found_as_it_was(home: LogHome) -> None:
    log = lived_in(home)
    before = picture(log)
    log.release()
    again = home.open(clean=False)
    again.update_high_watermark(again.log_end_offset)
    found = picture(again)
    # The time index of the segment that was active has got its closing entry.
    assert {**found, "indexes": 0} == {**before, "indexes": 0}
    assert again.recovery_point == 0


def test_rebuilt_indexes_are_the_originals(home: LogHome) -> None:
    log = lived_in(home)
    log.close(NOW_MS)
    before = indexes(home.open())
    for path in home.path.iterdir():
        if path.name.endswith(("index", ".snapshot")):
            path.unlink()
    for clean in (True, False):
        again = home.open(clean=clean)
        assert indexes(again) == before
        again.close(NOW_MS)


def zero(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-150] + bytes(150))


def garbage(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x7f" * 99)


@pytest.mark.parametrize("damage", [truncate, flip, zero, garbage])
@pytest.mark.parametrize("where", [0, 2, -1])
def test_damage_cuts_the_log_there_and_takes_all_later_segments(
    home: LogHome, damage: Callable[[Path], None], where: int
) -> None:
    log = lived_in(home)
    before, bases = everything(log), log.local.segments.base_offsets
    log.close(NOW_MS)
    damage(home.path / home.names(".log")[where])
    again = home.open(clean=False)
    found = everything(again)
    assert before.startswith(found)
    assert len(found) < len(before) or damage is garbage
    assert again.local.segments.base_offsets == bases[: bases.index(bases[where]) + 1]
    assert all(entry.start_offset < again.log_end_offset for entry in again.leader_epochs.entries)
    info = append(again, plain())
    assert everything(again).startswith(found)
    assert info.first_offset == again.log_end_offset - 1


@pytest.mark.parametrize("damage", [truncate, zero, garbage])
def test_a_clean_stop_is_not_believed_against_the_bytes(
    home: LogHome, damage: Callable[[Path], None]
) -> None:
    log = lived_in(home)
    before = everything(log)
    log.close(NOW_MS)
    damage(home.path / home.names(".log")[-1])
    again = home.open()
    found = everything(again)
    assert before.startswith(found)
    info = append(again, plain())
    assert everything(again)[: len(found)] == found
    assert info.first_offset == again.log_end_offset - 1


def test_below_the_recovery_point_nothing_is_read_again(home: LogHome) -> None:
    log = lived_in(home)
    bases = log.local.segments.base_offsets
    log.close(NOW_MS)
    flip(home.path / home.names(".log")[0])
    assert home.open(clean=False, recovery_point=bases[2]).local.segments.base_offsets == bases


def test_a_segment_that_runs_into_the_next_ends_the_log_between_them(home: LogHome) -> None:
    log = home.open()
    for _ in range(2):
        append(log, plain(2))
        log.roll(NOW_MS)
    log.release()
    first, second, *_ = (home.path / name for name in home.names(".log"))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    assert home.open(clean=False).log_end_offset == 2


def test_a_lost_segment_end_is_a_gap_and_ends_the_log(home: LogHome) -> None:
    log = home.open()
    append(log, plain(2))
    append(log, plain(2))
    log.roll(NOW_MS)
    append(log, plain(2))
    log.release()
    path = home.path / home.names(".log")[0]
    path.write_bytes(path.read_bytes()[: len(plain(2))])
    again = home.open(clean=False)
    assert (again.log_end_offset, again.local.segments.base_offsets) == (2, [0])
    (loss,) = home.log_dir.losses
    assert (loss.offset, loss.cut_bytes, loss.later_segments) == (2, 0, 1)
    assert loss.reason == "the records before offset 4 are missing"


def is_outside_checksum(content: bytes, position: int) -> bool:
    """Offset, length and leader epoch are not covered by a batch's CRC, in Kafka as here."""
    start = 0
    for batch in batches(content):
        if start <= position < start + 17:
            return True
        start += batch.size_in_bytes
    return False


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(0, 5000), flipped=st.integers(0, 5000) | st.none())
def test_whatever_survives_is_a_prefix_and_its_state_is_its_fold(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flipped: int | None
) -> None:
    home = LogHome(tmp_path_factory.mktemp("log"))
    log = lived_in(home, 10)
    before = everything(log)
    log.release()
    if flipped is not None and is_outside_checksum(before, flipped):
        flipped = None
    position = 0
    for name in home.names(".log"):
        path = home.path / name
        content = bytearray(path.read_bytes())
        if flipped is not None and position <= flipped < position + len(content):
            content[flipped - position] ^= 0xFF
        path.write_bytes(content[: max(0, cut - position)])
        position += len(content)
    again = home.open(clean=False)
    found = everything(again)
    assert before.startswith(found)
    other = home.path.parent / "folded"
    other.mkdir()
    folded = LogHome(other).open()
    folded.append_as_follower(memoryview(found), NOW_MS)
    # A snapshot does not carry the ended transactions that wait for the high watermark.
    folded.update_high_watermark(folded.log_end_offset)
    again.update_high_watermark(again.log_end_offset)
    assert producer_states(again) == producer_states(folded)
    assert again.producers.first_unstable_offset == folded.producers.first_unstable_offset
    assert again.leader_epochs.entries == folded.leader_epochs.entries
    assert again.log_end_offset == folded.log_end_offset
    again.close(NOW_MS)
    folded.release()


def test_left_over_files_of_unfinished_work_go(home: LogHome) -> None:
    log = lived_in(home)
    before = picture(log)
    log.close(NOW_MS)
    for name in (
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.cleaned",
        f"{10**6:020d}.index",
        f"{10**6:020d}.timeindex",
    ):
        (home.path / name).write_bytes(b"x")
    assert picture(home.open()) == before
    assert home.names(".deleted") == home.names(".cleaned") == []
    assert not (home.path / f"{10**6:020d}.index").exists()


def test_a_finished_cleaning_takes_the_place_of_what_it_cleaned(home: LogHome) -> None:
    log = home.open()
    for _ in range(3):
        append(log, plain(2))
        log.roll(NOW_MS)
    before = everything(log)
    log.close(NOW_MS)
    logs = [home.path / name for name in home.names(".log")]
    swap = home.path / f"{0:020d}.log.swap"
    swap.write_bytes(logs[0].read_bytes() + logs[1].read_bytes())
    again = home.open()
    assert everything(again) == before
    assert again.local.segments.base_offsets == [0, 4, 6]


def test_a_swap_beside_unfinished_cleaning_is_given_up(home: LogHome) -> None:
    log = lived_in(home)
    before = picture(log)
    log.close(NOW_MS)
    (home.path / f"{0:020d}.log.cleaned").write_bytes(b"x")
    (home.path / f"{5:020d}.log.swap").write_bytes(b"x")
    assert picture(home.open()) == before
    assert home.names(".swap") == []


def test_the_epoch_history_is_cut_to_the_log(home: LogHome) -> None:
    log = lived_in(home)
    end = log.log_end_offset
    log.close(NOW_MS)
    path = str(home.path / "leader-epoch-checkpoint")
    written = list(log.leader_epochs.entries)
    write_epoch_checkpoint(OsFiles(), path, [*written, (109, end), (110, end + 5)])
    within = log.leader_epochs.entries_in_range(30, end)
    assert home.open(log_start=30).leader_epochs.entries == tuple(within)


@pytest.mark.parametrize(
    "wrong", ["", "0\n0\n", "0\n1\n1 0\n", "0\n2\n5 0\n3 9\n", "0\n1\n0 9999\n"]
)
def test_a_history_that_contradicts_the_batches_is_read_from_them(
    home: LogHome, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean stop, where nobody looks at the batches otherwise."""
    log = lived_in(home)
    right, held = log.leader_epochs.entries, everything(log)
    log.close(NOW_MS)
    (home.path / "leader-epoch-checkpoint").write_text(wrong)
    again = home.open()
    assert again.leader_epochs.entries == right
    assert everything(again) == held
    again.close(NOW_MS)
    assert "leader-epoch-checkpoint of orders-0 is unusable" in caplog.text
    caplog.clear()
    assert home.open().leader_epochs.entries == right
    assert not caplog.records


def test_a_log_start_beyond_the_end_begins_an_empty_log(home: LogHome) -> None:
    lived_in(home).close(NOW_MS)
    log = home.open(log_start=10**6)
    assert (log.log_start_offset, log.log_end_offset, everything(log)) == (10**6, 10**6, b"")


def test_a_tiered_log_still_starts_where_the_checkpoint_says(tmp_path: Path) -> None:
    home = LogHome(tmp_path, TIERED)
    log = home.open()
    log.truncate_fully_and_start_at(100, log_start_offset=40)
    log.leader_epochs.assign(3, 40)
    append(log, plain(2), 3)
    log.close(NOW_MS)
    again = home.open(log_start=40)
    assert (again.log_start_offset, again.local_log_start_offset) == (40, 100)
    assert again.leader_epochs.entries == ((3, 40),)
    home.config = home.config.__class__()
    assert home.open(log_start=40).log_start_offset == 100


def test_a_fresh_log_has_one_empty_file(home: LogHome) -> None:
    log = home.open()
    assert [path.name for path in home.path.iterdir()] == [f"{0:020d}.log"]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)


def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_batches(home: LogHome) -> None:
    log = lived_in(home)
    before = log.leader_epochs.entries
    log.close(NOW_MS)
    (home.path / "leader-epoch-checkpoint").write_bytes(b"damaged")
    assert home.open().leader_epochs.entries == before


@pytest.mark.parametrize("clean", [True, False])
def test_all_five_batches_in_flight_are_recognised_after_a_restart(
    home: LogHome, clean: bool
) -> None:
    log = home.open()
    for sequence in range(20):
        append(log, idempotent(sequence))
        if sequence in (12, 15, 17, 19):
            log.roll(NOW_MS)
    if clean:
        log.close(NOW_MS)
    else:
        log.release()
    again = home.open(clean=clean)
    for sequence in range(15, 20):
        repeated = append(again, idempotent(sequence))
        assert (repeated.is_duplicate, repeated.first_offset) == (True, sequence)
    assert append(again, idempotent(20)).first_offset == 20


@pytest.mark.parametrize("room", [4, 12, 24, 60])
def test_a_smaller_index_than_before_costs_time_and_no_record(tmp_path: Path, room: int) -> None:
    home = LogHome(tmp_path, replace(SMALL, segment_bytes=5000))
    log = lived_in(home)
    before = everything(log)
    log.release()
    home.config = replace(home.config, segment_index_bytes=room)
    for clean in (False, True):
        again = home.open(clean=clean)
        assert everything(again) == before
        assert again.offset_for_timestamp(NOW_MS) is not None
        again.close(NOW_MS)
    last = append(home.open(), plain())
    assert last.first_offset == log.log_end_offset


def test_one_append_may_fill_the_index(tmp_path: Path) -> None:
    home = LogHome(tmp_path, replace(SMALL, segment_bytes=10_000, segment_index_bytes=48))
    sent = b"".join(stamped(plain(), offset) for offset in range(40))
    log = home.open()
    log.append_as_follower(memoryview(bytearray(sent)), NOW_MS)
    log.append_as_follower(memoryview(bytearray(stamped(plain(), 40))), NOW_MS)
    assert log.local.segments.base_offsets == [0, 40]
    assert log.log_end_offset == 41


def stamped(view: memoryview, offset: int) -> bytes:
    view[:8] = offset.to_bytes(8, "big")
    return bytes(view)


def test_a_closed_segment_that_ends_in_other_bytes_is_cut_after_a_clean_stop(home: LogHome) -> None:
    log = lived_in(home)
    before = picture(log)
    log.close(NOW_MS)
    path = home.path / home.names(".log")[1]
    path.write_bytes(path.read_bytes() + bytes(100))
    assert picture(home.open()) == before
    (loss,) = home.log_dir.losses
    assert loss.cut_bytes == 100


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [empty, Path.unlink])
def test_a_gap_between_segments_is_reported_with_its_offsets(
    home: LogHome, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    log = lived_in(home)
    bases, end = log.local.segments.base_offsets, log.log_end_offset
    log.close(NOW_MS)
    damage(home.path / home.names(".log")[1])
    assert home.open().log_end_offset == end
    assert (
        f"The log of orders-0 is missing offsets {bases[1]} to {bases[2] - 1}, before "
        in caplog.text
    )
    assert home.open().damaged_from == bases[1]


@pytest.mark.parametrize("name", [f"{0:020d}.index", "leader-epoch-checkpoint"])
def test_a_folder_in_the_place_of_a_file_is_set_aside(
    home: LogHome, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    log = lived_in(home)
    before = everything(log)
    log.close(NOW_MS)
    (home.path / name).unlink()
    (home.path / name).mkdir()
    (home.path / name / "inside").write_bytes(b"somebody's")
    assert everything(home.open()) == before
    assert f"{home.path / name} is a directory, but a file is expected there" in caplog.text
    assert (home.path / f"{name}.folder-aside" / "inside").read_bytes() == b"somebody's"


ONE_SEGMENT = replace(SMALL, segment_bytes=100_000)


def renumber(path: Path, offset: int, wrong: int) -> None:
    """Let a batch tell another base offset, which its checksum does not cover."""
    content, position = bytearray(path.read_bytes()), 0
    for batch in batches(bytes(content)):
        if batch.base_offset == offset:
            content[position : position + 8] = wrong.to_bytes(8, "big")
        position += batch.size_in_bytes
    path.write_bytes(content)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("wrong", [2**63 - 2, 2**32 + 5, 26, 19, 11, 1])
@pytest.mark.parametrize("offset", [0, 10, 18])
@pytest.mark.parametrize("config", [ONE_SEGMENT, SMALL])
def test_a_wrong_base_offset_that_others_prove_is_put_right(
    tmp_path: Path, config: LogConfig, offset: int, wrong: int, clean: bool
) -> None:
    home = LogHome(tmp_path, config)
    log = filled(home)
    before = everything(log)
    log.close(NOW_MS)
    base = max(each for each in log.local.segments.base_offsets if each <= offset)
    renumber(home.path / f"{base:020d}.log", offset, wrong)
    (home.path / f"{base:020d}.index").unlink(missing_ok=True)
    again = home.open(clean=clean, recovery_point=20)
    if not clean and base < log.local.active_segment.base_offset:
        # Below the recovery point nothing is looked at, until something is wrong with it.
        again = home.open(clean=False)
    again.update_high_watermark(again.log_end_offset)
    assert not home.log_dir.losses
    assert (again.log_end_offset, everything(again)) == (20, before)
    again.close(NOW_MS)
    assert everything(home.open(recovery_point=20)) == before


@pytest.mark.parametrize("wrong", [2**63 - 2, 2**32 + 5, 26, 19, 11, 1])
def test_a_wrong_base_offset_that_nothing_proves_ends_the_log_and_is_reported(
    tmp_path: Path, wrong: int
) -> None:
    home = LogHome(tmp_path, ONE_SEGMENT)
    filled(home).close(NOW_MS)
    renumber(home.path / f"{0:020d}.log", 18, wrong)
    (home.path / f"{0:020d}.index").unlink(missing_ok=True)
    again = home.open(clean=False)
    again.update_high_watermark(again.log_end_offset)
    offsets = [loss.offset for loss in home.log_dir.losses]
    assert (again.log_end_offset, offsets) == (18, [18])
    append(again, plain(1))
    assert again.log_end_offset == 19


@pytest.mark.parametrize("wrong", [4, 2, 2**40])
def test_a_wrong_base_offset_behind_a_gap_is_put_right_where_it_is_proven(
    tmp_path: Path, wrong: int
) -> None:
    compacted = replace(ONE_SEGMENT, cleanup_policy=("compact",))
    home = LogHome(tmp_path, compacted)
    filled(home).close(NOW_MS)
    path = home.path / f"{0:020d}.log"
    kept = [each for each in batches(path.read_bytes()) if each.base_offset not in (4, 6)]
    path.write_bytes(b"".join(bytes(each.view) for each in kept))
    before = path.read_bytes()
    # The one behind the batch that follows the gap.
    renumber(path, 10, wrong)
    for name in ("index", "timeindex"):
        (home.path / f"{0:020d}.{name}").unlink(missing_ok=True)
    again = home.open(clean=False)
    assert path.read_bytes() == before
    assert again.log_end_offset == 20
    assert not home.log_dir.losses


def test_a_topic_that_was_compacted_once_keeps_its_gaps(tmp_path: Path) -> None:
    home = LogHome(tmp_path, ONE_SEGMENT)
    filled(home).close(NOW_MS)
    path = home.path / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(b"".join(bytes(b.view) for b in batches(whole) if b.base_offset not in (4, 6)))
    for name in ("index", "timeindex"):
        (home.path / f"{0:020d}.{name}").unlink(missing_ok=True)
    again = home.open(clean=False)
    assert again.log_end_offset == 20
    assert not home.log_dir.losses


def damage_epochs(home: LogHome) -> None:
    path = home.path / "leader-epoch-checkpoint"
    content = bytearray(path.read_bytes())
    content[0] ^= 0x40
    path.write_bytes(content)


def test_a_lost_epoch_history_costs_no_record_of_a_topic_that_was_compacted_once(
    tmp_path: Path,
) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    for number in range(40):
        put(log, (f"k{number % 5}", f"{number:030d}"))
    roll(log)
    compacted_log.clean(log)
    for number in range(40):
        put(log, (f"x{number}", f"{number:030d}"))
    before, end = surviving(log), log.log_end_offset
    log.close(NOW_MS)
    home.config = replace(COMPACTED, cleanup_policy=("delete",))
    damage_epochs(home)
    assert surviving(home.open(recovery_point=end)) == before
    assert not home.log_dir.losses


def test_a_damaged_batch_that_was_synced_stays_and_a_follower_drops_it(home: LogHome) -> None:
    log = filled(home, 10)
    end = log.log_end_offset
    log.release()
    path = home.path / home.names(".log")[-1]
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x55
    path.write_bytes(content)
    again = home.open(clean=False, recovery_point=end)
    assert (again.log_end_offset, again.damaged_from) == (end, end - 2)
    drop_damaged_part(again)
    assert (again.log_end_offset, again.damaged_from) == (end - 2, None)
    append(again, plain(2))
    drop_damaged_part(again)
    assert again.log_end_offset == end


@pytest.mark.parametrize("clean_stop", [True, False])
def test_damage_below_what_was_synced_ends_its_segment_and_no_other(
    home: LogHome, clean_stop: bool
) -> None:
    log = filled(home, 60)
    bases, end = log.local.segments.base_offsets, log.log_end_offset
    log.close(NOW_MS)
    damage_epochs(home)
    path = home.path / home.names(".log")[1]
    content = bytearray(path.read_bytes())
    # Behind a batch of no length nothing can be told from it.
    content[8:12] = bytes(4)
    path.write_bytes(content)
    again = home.open(clean=clean_stop, recovery_point=end)
    assert (again.local.segments.base_offsets, again.log_end_offset) == (bases, end)
    (loss,) = home.log_dir.losses
    assert (loss.offset, loss.later_segments) == (bases[1], 0)


def test_an_index_whose_log_file_is_gone_is_reported(
    home: LogHome, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else tells that a log has lost its first segment."""
    lived_in(home).close(NOW_MS)
    (home.path / home.names(".log")[0]).unlink()
    orphan = home.path / home.names(".index")[0]
    home.open().close(NOW_MS)
    warned = f"Found an orphaned index file {orphan}, with no corresponding log file."
    assert warned in [record.getMessage() for record in caplog.records]
    assert not orphan.exists()


def test_holes_of_a_log_that_is_compacted_no_more_stay_where_its_epochs_are_lost(
    home: LogHome,
) -> None:
    """What was on the disk at the last checkpoint has no lost tail, whatever is read again."""
    log = lived_in(home)
    bases, end = log.local.segments.base_offsets, log.log_end_offset
    log.close(NOW_MS)
    # As a cleaning leaves it that keeps nothing of a segment's last batch.
    first = home.path / home.names(".log")[0]
    *_, last = batches(first.read_bytes())
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size - last.size_in_bytes)
    (home.path / "leader-epoch-checkpoint").write_text("nonsense")
    for clean in (True, False):
        found = home.open(clean=clean, recovery_point=end)
        assert (found.local.segments.base_offsets, found.log_end_offset) == (bases, end)
        found.release()


def test_a_crash_takes_nothing_of_a_log_that_was_compacted_once(
    home: LogHome, tmp_path: Path
) -> None:
    log = lived_in(home)
    bases, end = log.local.segments.base_offsets, log.log_end_offset
    log.release()
    first = home.path / home.names(".log")[0]
    *_, last = batches(first.read_bytes())
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size - last.size_in_bytes)
    write_offset_checkpoint(home.files, f"{tmp_path}/{CLEANER_OFFSET_FILE}", {PARTITION: 0})
    manager = LogManager(home.files, [str(tmp_path)], home.config)
    manager.start(NOW_MS)
    found = manager.get_log(PARTITION)
    assert found is not None
    assert (found.local.segments.base_offsets, found.log_end_offset) == (bases, end)

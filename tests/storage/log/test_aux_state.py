"""What a follower believes of that which came from the tier, and what it makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.checkpoint import format_epochs
from tierlog.storage.log.aux_state import AuxState, MalformedAuxStateError, aux_state
from tierlog.storage.log.leader_epoch import EpochEntry
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage import crash_scenarios
from tierlog.tests.storage.log_home import NOW_MS, TIERED, LogHome, append, filled, plain
from tierlog.tests.tiering.segments import segment_metadata

NO_PRODUCERS = encode_snapshot(())


def segment(start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    return segment_metadata(1, offsets=(start, end), epochs=epochs)


@pytest.mark.scenario("5")
def test_the_log_goes_on_after_the_segment_with_the_history_up_to_there() -> None:
    content = format_epochs([(0, 0), (1, 3), (2, 5), (3, 7)])
    state = aux_state(segment(6, 8, (2, 6), (3, 7)), 0, content, NO_PRODUCERS)
    assert state.next_offset == 9
    assert state.epochs == [EpochEntry(0, 0), (1, 3), (2, 5), (3, 7)]


@pytest.mark.parametrize(
    ("log_start", "expected"),
    [
        (0, [(0, 0), (1, 3), (3, 7)]),
        (2, [(0, 2), (1, 3), (3, 7)]),
        (3, [(1, 3), (3, 7)]),
        (8, [(3, 8)]),
    ],
)
def test_the_history_is_cut_at_the_log_start(
    log_start: int, expected: list[tuple[int, int]]
) -> None:
    content = format_epochs([(0, 0), (1, 3), (3, 7)])
    state = aux_state(segment(6, 9, (1, 6), (3, 7)), log_start, content, NO_PRODUCERS)
    assert state.epochs == expected


SOUND = format_epochs([(0, 0), (3, 7)])


@pytest.mark.parametrize(
    ("epochs", "snapshot"),
    [
        (b"", NO_PRODUCERS),
        (b"\xff\xfe", NO_PRODUCERS),
        (SOUND[:-4], NO_PRODUCERS),
        (b"1" + SOUND[1:], NO_PRODUCERS),
        (format_epochs([]), NO_PRODUCERS),
        (format_epochs([(3, 7), (0, 0)]), NO_PRODUCERS),
        (format_epochs([(0, 0), (3, 0)]), NO_PRODUCERS),
        # It is that of another segment, or of another branch.
        (format_epochs([(0, 0), (2, 7)]), NO_PRODUCERS),
        (format_epochs([(0, 0), (3, 10)]), NO_PRODUCERS),
        (SOUND, b""),
        (SOUND, NO_PRODUCERS[:-1] + b"\x01"),
    ],
)
def test_what_is_damaged_is_not_believed(epochs: bytes, snapshot: bytes) -> None:
    with pytest.raises(MalformedAuxStateError):
        aux_state(segment(5, 9, (0, 5), (3, 7)), 0, epochs, snapshot)


@given(content=st.binary(max_size=60))
def test_no_bytes_are_too_strange_to_be_refused(content: bytes) -> None:
    for epochs, snapshot in ((content, NO_PRODUCERS), (SOUND, content)):
        try:
            aux_state(segment(5, 9, (0, 5), (3, 7)), 0, epochs, snapshot)
        except MalformedAuxStateError:
            continue


@pytest.mark.scenario("4.10")
def test_a_log_begins_at_an_offset_with_its_older_part_in_the_tier(tmp_path: Path) -> None:
    home = LogHome(tmp_path, TIERED)
    log = filled(home)
    log.bounds.update_highest_remote(15)
    log.start_at(AuxState(60, 40, [EpochEntry(0, 40), EpochEntry(2, 55)], NO_PRODUCERS))
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (40, 60, 60)
    assert (log.high_watermark, log.recovery_point) == (60, 60)
    assert home.names(".log") == [f"{60:020d}.log"]
    assert home.names(".snapshot") == [f"{60:020d}.snapshot"]
    assert append(log, plain(), 3).first_offset == 60
    log.close(NOW_MS)
    again = home.open(log_start=40)
    assert (again.log_start_offset, again.local_log_start_offset, again.log_end_offset) == (
        40,
        60,
        61,
    )
    assert again.leader_epochs.entries == ((0, 40), (2, 55), (3, 60))


def epochs(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries]


def test_a_tiered_log_cut_below_its_first_segment_keeps_what_leads_into_the_tier(
    tmp_path: Path,
) -> None:
    log = LogHome(tmp_path, TIERED).open()
    log.start_at(AuxState(60, 40, [EpochEntry(0, 40), EpochEntry(2, 55)], NO_PRODUCERS))
    log.truncate_to(57)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (40, 57, 57)
    assert epochs(log) == [(0, 40), (2, 55)]
    log.truncate_to(50)
    assert epochs(log) == [(0, 40)]
    # At or below the log start nothing is left to keep.
    log.truncate_to(40)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert epochs(log) == []


def test_a_log_that_is_not_tiered_keeps_nothing_below_its_first_segment(tmp_path: Path) -> None:
    log = LogHome(tmp_path, replace(TIERED, remote_storage_enable=False)).open()
    log.start_at(AuxState(60, 60, [], None))
    append(log, plain(), 1)
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_a_disk_that_fails_in_the_midst_is_offline() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs(crash_scenarios.DIRECTORY)
    log = crash_scenarios.open_log(files)
    disk.faults.append(Fault(Kind.SYNC_DIRECTORY))
    with pytest.raises(KafkaError) as caught:
        log.start_at(AuxState(60, 40, [EpochEntry(0, 40)], NO_PRODUCERS))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.log_dir.is_online
    log.release()

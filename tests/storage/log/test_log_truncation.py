"""A log that must give records back, and a log on a disk that fails."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.config import LogConfig
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage import crash_scenarios
from tierlog.tests.storage.log_home import (
    NOW_MS,
    SMALL,
    TIERED,
    LogHome,
    append,
    everything,
    fetch,
    filled,
    idempotent,
    offsets_in,
    only_batch,
    plain,
    producer_states,
)


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


@settings(deadline=None, max_examples=40)
@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=20), cut=st.integers(0, 60))
def test_after_truncation_the_log_is_as_if_the_rest_was_never_there(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], cut: int
) -> None:
    home = LogHome(tmp_path_factory.mktemp("log"))
    log = home.open()
    sent: list[memoryview] = []
    sequence = 0
    for epoch, count in enumerate(counts):
        view = idempotent(sequence, count)
        append(log, view, epoch // 3)
        sent.append(view)
        sequence += count
    log.truncate_to(cut)
    kept = [view for view in sent if only_batch(view).next_offset <= cut]
    assert log.log_end_offset == min(cut, sequence)
    assert everything(log) == b"".join(kept)
    assert log.high_watermark <= log.log_end_offset
    last = log.producers.get(7)
    expected = only_batch(kept[-1]).last_sequence if kept else -1
    assert (last.last_sequence if last else -1) == expected
    assert all(entry.start_offset < cut for entry in log.leader_epochs.entries)
    info = append(log, plain(1), 99)
    assert info.first_offset == min(cut, sequence)
    assert offsets_in(fetch(log, info.first_offset)) == [info.first_offset]
    log.close(NOW_MS)
    assert everything(home.open()) == b"".join([*kept, fetch_last(info.first_offset)])


def fetch_last(offset: int) -> bytes:
    view = plain(1)
    view[:8] = offset.to_bytes(8, "big")
    view[12:16] = (99).to_bytes(4, "big")
    return bytes(view)


def test_a_log_can_start_afresh_at_any_offset(tmp_path: Path) -> None:
    home = LogHome(tmp_path, TIERED)
    log = filled(home)
    log.truncate_fully_and_start_at(100, log_start_offset=40)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (40, 100, 100)
    assert (log.high_watermark, log.leader_epochs.entries) == (100, ())
    assert append(log, plain()).first_offset == 100
    assert home.names(".log") == [f"{100:020d}.log"]


@pytest.mark.parametrize(("cut", "expected"), [(30, 15), (15, 14), (16, 15), (2, 1), (0, -1)])
def test_what_was_cut_off_no_longer_counts_as_copied(
    tmp_path: Path, cut: int, expected: int
) -> None:
    log = filled(LogHome(tmp_path, TIERED), 20)
    log.bounds.update_highest_remote(15)
    log.truncate_to(cut)
    assert log.highest_remote_offset == expected
    log.bounds.update_highest_remote(15)
    log.truncate_fully_and_start_at(cut)
    assert log.highest_remote_offset == expected


def test_truncating_below_the_first_segment_starts_afresh(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path, replace(SMALL, retention_bytes=0)), 30)
    log.delete_old_segments(NOW_MS)
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_takes_the_directory_offline_and_shows_nothing(code: int) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs(crash_scenarios.DIRECTORY)
    log = crash_scenarios.open_log(files)
    append(log, plain())
    before = log.log_end_offset
    disk.faults.append(Fault(Kind.WRITE, code))
    with pytest.raises(KafkaError) as caught:
        append(log, plain())
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == before
    assert not log.log_dir.is_online
    for use in (lambda: append(log, plain()), lambda: fetch(log, 0), log.flush):
        with pytest.raises(KafkaError) as caught:
            use()
        assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


def test_flushing_in_another_thread_moves_the_recovery_point_on_completion(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 20)
    task = log.prepare_flush()
    assert task is not None
    append(log, plain())
    task.run()
    assert log.recovery_point == 0
    log.complete_flush(task)
    assert log.recovery_point == 40
    log.truncate_to(30)
    assert log.recovery_point == 30
    log.flush()
    assert log.prepare_flush() is None


def test_producers_survive_a_clean_restart(tmp_path: Path) -> None:
    home = LogHome(tmp_path)
    log = home.open()
    append(log, idempotent(0, 2))
    append(log, idempotent(2, 2))
    log.close(NOW_MS)
    again = home.open()
    assert append(again, idempotent(2, 2)).is_duplicate
    assert append(again, idempotent(4, 2)).first_offset == 4
    assert set(producer_states(again)) == {7}


def test_the_raft_leader_may_append_what_clients_may_not(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    view = memoryview(bytearray(plain(2)) + bytearray(plain(1)))
    info = log.append_as_leader(view, 5, NOW_MS, AppendOrigin.RAFT_LEADER)
    assert (info.first_offset, info.last_offset) == (0, 2)


def test_a_flush_of_what_is_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 20)
    task = log.prepare_flush()
    assert task is not None
    log.truncate_to(2)
    append(log, plain())
    task.run()
    log.complete_flush(task)
    # What is there now was written after the truncation, and perhaps after the flush.
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 3
    append(log, plain())
    task = log.prepare_flush()
    assert task is not None
    log.release()
    shutil.rmtree(log.directory)
    task.run()


def test_a_flush_that_fails_says_so() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs(crash_scenarios.DIRECTORY)
    log = crash_scenarios.open_log(files)
    append(log, plain())
    task = log.prepare_flush()
    assert task is not None
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO, ".log"))
    with pytest.raises(OSError, match="Errno 5"):
        task.run()
    assert log.recovery_point == 0


def test_a_flush_begun_before_a_truncation_promises_nothing_of_what_came_after(
    tmp_path: Path,
) -> None:
    """As many records stand there again, and they were never fsynced."""
    log = LogHome(tmp_path).open()
    for _ in range(10):
        append(log, plain())
    task = log.prepare_flush()
    assert task is not None
    task.run()
    log.truncate_to(5)
    for _ in range(10):
        append(log, plain(), epoch=1)
    log.complete_flush(task)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 15


def test_positions_of_batches_are_forgotten_with_the_batches(tmp_path: Path) -> None:
    """A read at an offset that a batch began at before the truncation, and none does now."""
    log = LogHome(tmp_path, LogConfig()).open()
    for _ in range(6):
        append(log, plain(size=20))
    log.truncate_to(2)
    for _ in range(2):
        append(log, plain(count=3, size=90), epoch=1)
    assert offsets_in(fetch(log, 3)) == [2, 5]


def test_a_flush_that_has_not_run_does_not_count(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 20)
    task = log.prepare_flush()
    assert task is not None
    with pytest.raises(AssertionError, match="only after the fsync"):
        log.complete_flush(task)
    assert log.recovery_point == 0

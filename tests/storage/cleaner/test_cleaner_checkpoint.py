"""Where a log's next cleaning begins, and when what was written down is not believed."""

from dataclasses import replace
from pathlib import Path

from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.checkpoint import CLEANER_OFFSET_FILE
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from tierlog.storage.log.unified_log import UnifiedLog

from ..compacted_log import COMPACTED, clean, offsets, put, roll
from ..log_home import NOW_MS, PARTITION, LogHome


def cleaned(home: LogHome) -> UnifiedLog:
    """A log of four records in two segments; the first is noted as cleaned."""
    log = home.open()
    put(log, ("a", "1"), ("b", "1"))
    roll(log)
    put(log, ("c", "1"), ("d", "1"))
    checkpoint = CleanerCheckpoint(home.log_dir)
    checkpoint.cleaned_up_to(log, 2)
    checkpoint.write()
    return log


def first_dirty(home: LogHome, log: UnifiedLog) -> int:
    return CleanerCheckpoint(home.log_dir).first_dirty_offset(log)


def test_it_is_kafkas_file_and_read_again_after_a_restart(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    assert (tmp_path / CLEANER_OFFSET_FILE).read_text() == "0\n1\norders 0 2\n"
    assert first_dirty(home, log) == 2


def test_a_log_that_was_never_cleaned_is_dirty_from_its_start(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    (tmp_path / CLEANER_OFFSET_FILE).unlink()
    assert first_dirty(home, log) == 0


def test_a_damaged_file_costs_a_longer_cleaning(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    (tmp_path / CLEANER_OFFSET_FILE).write_text("0\n2\norders 0 2\n")
    assert first_dirty(home, log) == 0


def test_an_offset_outside_the_log_is_not_believed(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    (tmp_path / CLEANER_OFFSET_FILE).write_text("0\n1\norders 0 5\n")
    assert first_dirty(home, log) == 0
    (tmp_path / CLEANER_OFFSET_FILE).write_text("0\n1\norders 0 1\n")
    log.maybe_increment_log_start_offset(2)
    assert first_dirty(home, log) == 2


def test_after_a_truncation_all_counts_as_dirty(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    checkpoint = CleanerCheckpoint(home.log_dir)
    checkpoint.cleaned_up_to(log, 2)
    log.truncate_to(1)
    put(log, ("a", "2"), ("a", "3"))
    assert checkpoint.first_dirty_offset(log) == 0


def test_another_topic_of_the_name_is_dirty(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    checkpoint = CleanerCheckpoint(home.log_dir)
    checkpoint.cleaned_up_to(log, 2)
    log.topic_id = Uuid(bytes(15) + b"\x07")
    assert checkpoint.first_dirty_offset(log) == 0


def test_logs_that_are_gone_leave_the_file(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    cleaned(home)
    checkpoint = CleanerCheckpoint(home.log_dir)
    checkpoint.keep_only({PARTITION._replace(partition=1)})
    checkpoint.write()
    assert (tmp_path / CLEANER_OFFSET_FILE).read_text() == "0\n0\n"


def test_clean_and_dirty_bytes_are_distinguished(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    roll(log)
    log.flush()
    half = measure(log, 2, NOW_MS)
    assert half.clean_bytes == half.dirty_bytes > 0
    assert half.dirty_ratio == 0.5
    assert not half.is_due, "more than half must be dirty"
    assert measure(log, 0, NOW_MS).dirty_ratio == 1
    assert measure(log, 4, NOW_MS).dirty_bytes == 0


def test_a_log_that_is_compacted_and_deleted_obeys_both(tmp_path: Path) -> None:
    both = replace(COMPACTED, cleanup_policy=("compact", "delete"), retention_bytes=500)
    log = LogHome(tmp_path, both).open()
    for number in range(12):
        put(log, (f"k{number}", "old" * 30))
    for number in range(6, 12):
        put(log, (f"k{number}", "new" * 30))
    roll(log)
    clean(log)
    assert offsets(log) == [0, 1, 2, 3, 4, 5, *range(12, 18)]
    assert log.delete_old_segments(NOW_MS) > 0
    left = offsets(log)
    assert left == list(range(left[0], 18))
    assert log.log_start_offset > 5


def test_what_is_noted_while_the_file_is_written_waits_for_the_next_one(tmp_path: Path) -> None:
    """The file is written in a thread, while the loop goes on noting and forgetting."""
    home = LogHome(tmp_path, COMPACTED)
    log = cleaned(home)
    checkpoint = CleanerCheckpoint(home.log_dir)
    write = checkpoint.prepare_write()
    checkpoint.cleaned_up_to(log, 4)
    checkpoint.keep_only(set())
    write()
    assert first_dirty(home, log) == 2

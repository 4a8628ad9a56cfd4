"""What retention takes and what it leaves, with and without a tier."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.storage.config import LogConfig
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import (
    NOW_MS,
    SMALL,
    TIERED,
    LogHome,
    append,
    fetch,
    idempotent,
    offsets_in,
    plain,
)

HOUR_MS = 3_600_000
FOREVER = replace(SMALL, retention_ms=-1, retention_bytes=-1)


def segmented(home: LogHome, count: int = 5) -> UnifiedLog:
    """One batch of two records per segment, an hour apart; the newest segment is active."""
    log = home.open()
    for step in range(count):
        if step:
            log.roll(NOW_MS)
        append(log, plain(2, timestamp=NOW_MS - (count - step) * HOUR_MS))
    return log


def bases(log: UnifiedLog) -> list[int]:
    return log.local.segments.base_offsets


def test_without_limits_nothing_goes(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, FOREVER))
    assert log.delete_old_segments(NOW_MS + 10**12) == 0


def test_old_segments_go_and_the_log_starts_later(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(FOREVER, retention_ms=3 * HOUR_MS)))
    assert log.delete_old_segments(NOW_MS) == 2
    assert (bases(log), log.log_start_offset, log.local_log_start_offset) == ([4, 6, 8], 4, 4)
    assert log.leader_epochs.entries[0] == (0, 4)


def test_exactly_the_limit_is_not_too_old(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(FOREVER, retention_ms=5 * HOUR_MS)))
    assert log.delete_old_segments(NOW_MS) == 0
    assert log.delete_old_segments(NOW_MS + 1) == 1


def test_the_oldest_go_while_the_rest_is_still_large_enough(tmp_path: Path) -> None:
    size = len(plain(2))
    home = LogHome(tmp_path, replace(FOREVER, retention_bytes=3 * size))
    assert segmented(home).delete_old_segments(NOW_MS) == 2


def test_less_than_a_segment_too_much_stays(tmp_path: Path) -> None:
    size = len(plain(2))
    home = LogHome(tmp_path, replace(FOREVER, retention_bytes=5 * size - 1))
    assert segmented(home).delete_old_segments(NOW_MS) == 0


def test_the_active_segment_goes_after_a_new_one_is_begun(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(FOREVER, retention_ms=0)))
    assert log.delete_old_segments(NOW_MS) == 5
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([10], 10, 10)
    assert log.delete_old_segments(NOW_MS) == 0


def test_nothing_at_or_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(FOREVER, retention_ms=0)))
    log.update_high_watermark(5)
    assert log.delete_old_segments(NOW_MS) == 2
    assert bases(log) == [4, 6, 8]


def test_a_record_from_the_future_keeps_its_segment_and_all_after_it(tmp_path: Path) -> None:
    log = LogHome(tmp_path, replace(FOREVER, retention_ms=HOUR_MS)).open()
    append(log, plain(timestamp=NOW_MS - 2 * HOUR_MS))
    log.roll(NOW_MS)
    append(log, plain(timestamp=NOW_MS + HOUR_MS))
    log.roll(NOW_MS)
    append(log, plain(timestamp=NOW_MS - 2 * HOUR_MS))
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [1, 2]


def test_records_without_time_age_with_their_file(tmp_path: Path) -> None:
    home = LogHome(tmp_path, replace(FOREVER, retention_ms=HOUR_MS))
    log = home.open()
    append(log, plain(timestamp=-1))
    log.roll(NOW_MS)
    written_ms = log.local.segments.first.modified_ms
    assert log.delete_old_segments(written_ms + HOUR_MS) == 0
    assert log.delete_old_segments(written_ms + HOUR_MS + 1) == 1


def test_what_lies_below_the_log_start_goes_whatever_the_policy(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(FOREVER, cleanup_policy=("compact",))))
    log.maybe_increment_log_start_offset(5)
    assert log.delete_old_segments(NOW_MS) == 2
    assert (bases(log), log.log_start_offset) == ([4, 6, 8], 5)


def test_a_compacted_topic_is_not_deleted_by_age(tmp_path: Path) -> None:
    compacted = replace(FOREVER, cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    assert segmented(LogHome(tmp_path, compacted)).delete_old_segments(NOW_MS) == 0


def test_files_wait_under_another_name_before_they_go(tmp_path: Path) -> None:
    home = LogHome(tmp_path, replace(FOREVER, retention_ms=4 * HOUR_MS, file_delete_delay_ms=500))
    log = home.open()
    append(log, idempotent(0, 2))
    log.roll(NOW_MS)
    append(log, plain(timestamp=NOW_MS))
    log.delete_old_segments(NOW_MS + 4 * HOUR_MS)
    log.delete_old_segments(NOW_MS + 4 * HOUR_MS + 1)
    assert len(home.names(".deleted")) == 3 + 3
    assert log.delete_pending(NOW_MS + 4 * HOUR_MS + 500) == 2
    assert log.delete_pending(NOW_MS + 4 * HOUR_MS + 501) == 0
    assert home.names(".deleted") == []
    assert home.names(".snapshot") == [f"{3:020d}.snapshot"]


LOCAL_NOTHING = replace(TIERED, retention_ms=-1, local_retention_ms=0)


def test_nothing_leaves_the_disk_before_its_copy_is_finished(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, LOCAL_NOTHING))
    assert log.delete_old_segments(NOW_MS) == 0
    for highest, base in [(0, 0), (1, 2), (2, 2), (4, 4), (5, 6)]:
        log.bounds.update_highest_remote(highest)
        log.delete_old_segments(NOW_MS)
        assert log.local_log_start_offset == base
    assert (log.log_start_offset, log.leader_epochs.entries[0]) == (0, (0, 0))


def test_total_retention_is_not_applied_to_local_segments(tmp_path: Path) -> None:
    config = replace(TIERED, retention_ms=10 * HOUR_MS, local_retention_ms=4 * HOUR_MS)
    log = segmented(LogHome(tmp_path, config))
    log.bounds.update_highest_remote(9)
    assert log.delete_old_segments(NOW_MS) == 1
    log.update_config(replace(config, local_retention_ms=-2))
    assert log.delete_old_segments(NOW_MS) == 0


def test_local_retention_by_size(tmp_path: Path) -> None:
    size = len(plain(2))
    config = replace(TIERED, retention_ms=-1, local_retention_bytes=2 * size)
    log = segmented(LogHome(tmp_path, config))
    log.bounds.update_highest_remote(7)
    assert log.delete_old_segments(NOW_MS) == 3
    assert (bases(log), log.log_start_offset) == ([6, 8], 0)


@pytest.mark.scenario("2.4")
def test_an_active_segment_beyond_local_retention_is_rolled_for_the_copy(tmp_path: Path) -> None:
    log = LogHome(tmp_path, LOCAL_NOTHING).open()
    append(log, plain(2, timestamp=NOW_MS - HOUR_MS))
    assert log.delete_old_segments(NOW_MS) == 0
    assert bases(log) == [0, 2]
    assert [segment.base_offset for segment in log.copy_candidates(0)] == [0]
    log.bounds.update_highest_remote(1)
    assert log.delete_old_segments(NOW_MS) == 1
    assert log.delete_old_segments(NOW_MS) == 0
    assert bases(log) == [2]


def test_copied_or_not_what_lies_below_the_log_start_goes(tmp_path: Path) -> None:
    log = segmented(LogHome(tmp_path, replace(TIERED, retention_ms=-1)))
    log.maybe_increment_log_start_offset(4)
    assert log.delete_old_segments(NOW_MS) == 2
    assert bases(log) == [4, 6, 8]


def test_when_copying_is_disabled_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    config = replace(TIERED, retention_ms=3 * HOUR_MS, remote_log_copy_disable=True)
    assert segmented(LogHome(tmp_path, config)).delete_old_segments(NOW_MS) == 2


def test_a_record_from_the_future_does_not_stay_local_for_ever(tmp_path: Path) -> None:
    home = LogHome(tmp_path, replace(TIERED, retention_ms=-1, local_retention_ms=HOUR_MS))
    log = home.open()
    append(log, plain(timestamp=NOW_MS + 1000))
    log.roll(NOW_MS)
    append(log, plain(timestamp=NOW_MS))
    log.bounds.update_highest_remote(0)
    log.local.segments.first.flush_log()
    written = (NOW_MS - 2 * HOUR_MS) / 1000
    os.utime(log.local.segments.first.path, (written, written))
    assert log.delete_old_segments(NOW_MS) == 1
    assert offsets_in(fetch(log, 1)) == [1]


@pytest.mark.parametrize("config", [FOREVER, LogConfig()])
def test_an_empty_log_has_nothing_to_give(tmp_path: Path, config: LogConfig) -> None:
    assert LogHome(tmp_path, config).open().delete_old_segments(NOW_MS) == 0

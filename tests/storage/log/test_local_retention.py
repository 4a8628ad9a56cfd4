"""What leaves this machine's disk while the rest of the log is, or is not, in the tier."""

from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.storage.config import LogConfig
from tierlog.storage.log.log_retention import Breached
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import NOW_MS, TIERED, LogHome, append, plain

pytestmark = pytest.mark.scenario("4.10")

RECORD = len(plain())
UNLIMITED = replace(TIERED, retention_ms=-1)


def log_of(home: LogHome, count: int, per_segment: int = 1) -> UnifiedLog:
    """Records of now; a segment is closed when it holds that many and another one comes."""
    log = home.open()
    more(log, count, per_segment)
    return log


def more(log: UnifiedLog, count: int, per_segment: int = 1) -> None:
    for _ in range(count):
        if log.log_end_offset - log.local.active_segment.base_offset >= per_segment:
            log.roll(NOW_MS)
        append(log, plain())


def clean(log: UnifiedLog, now_ms: int = NOW_MS) -> tuple[int, int, int]:
    """Run the cleaner; how many segments there are now, local start, log start."""
    log.delete_old_segments(now_ms)
    return len(log.local.segments), log.local_log_start_offset, log.log_start_offset


def test_the_active_segment_is_rolled_and_not_deleted_before_it_is_in_the_tier(
    tmp_path: Path,
) -> None:
    """KAFKA-15047."""
    log = log_of(LogHome(tmp_path, replace(TIERED, local_retention_ms=1, retention_ms=3)), 1)
    log.delete_old_segments(NOW_MS + 2)
    assert log.local.segments.base_offsets == [0, 1]
    log.bounds.update_highest_remote(1)
    assert clean(log, NOW_MS + 2) == (1, 1, 0)
    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("config", "later_ms"),
    [
        (replace(UNLIMITED, retention_bytes=1), 0),
        (replace(TIERED, retention_ms=1000), 1001),
    ],
    ids=["size", "time"],
)
def test_local_limits_that_are_not_set_are_the_total_ones(
    tmp_path: Path, config: LogConfig, later_ms: int
) -> None:
    log = log_of(LogHome(tmp_path, config), 6)
    log.bounds.update_highest_remote(1)
    assert clean(log, NOW_MS + later_ms) == (4, 2, 0)


def test_offsets_keep_their_positions_only_while_they_are_local(tmp_path: Path) -> None:
    config = replace(UNLIMITED, local_retention_bytes=1)
    log = log_of(LogHome(tmp_path, config), 11, 11)
    more(log, 39, 10)
    assert log.local.segments.base_offsets == [0, 11, 21, 31, 41]
    log.bounds.update_highest_remote(30)
    assert clean(log) == (2, 31, 0)


def test_what_was_never_copied_goes_only_below_the_log_start(tmp_path: Path) -> None:
    log = LogHome(tmp_path, replace(UNLIMITED, retention_bytes=1)).open()
    for epoch in (0, 0, 0, 1):
        append(log, plain(), epoch)
    log.roll(NOW_MS)
    append(log, plain(), 2)
    assert clean(log) == (2, 0, 0)
    log.maybe_increment_log_start_offset(3)
    assert clean(log) == (2, 3, 3)
    log.maybe_increment_log_start_offset(4)
    assert clean(log)[1:] == (4, 4)
    assert 0 not in log.local.segments.base_offsets
    log.maybe_increment_log_start_offset(5)
    log.update_config(replace(log.config, local_retention_ms=1))
    clean(log, NOW_MS + 2)
    assert clean(log, NOW_MS + 2) == (1, 5, 5)
    assert (log.size_in_bytes, log.log_end_offset) == (0, 5)


def test_with_copying_disabled_the_whole_of_retention_is_local(tmp_path: Path) -> None:
    """KIP-950."""
    config = replace(UNLIMITED, local_retention_bytes=1, retention_bytes=5 * RECORD)
    log = log_of(LogHome(tmp_path, config), 6)
    assert clean(log) == (6, 0, 0)
    log.bounds.update_highest_remote(1)
    assert clean(log) == (4, 2, 0)
    log.update_config(replace(config, remote_log_copy_disable=True))
    assert clean(log) == (4, 2, 0)
    log.maybe_increment_log_start_offset(2)
    assert clean(log) == (4, 2, 2)
    more(log, 3)
    assert clean(log) == (5, 4, 4)
    by_time = replace(TIERED, local_retention_ms=1, retention_ms=1000)
    log.update_config(replace(by_time, remote_log_copy_disable=True))
    assert clean(log, NOW_MS + 10) == (5, 4, 4)
    assert clean(log, NOW_MS + 1010) == (1, 9, 9)


def test_without_a_cleanup_policy_local_retention_holds_all_the_same(tmp_path: Path) -> None:
    config = replace(UNLIMITED, cleanup_policy=(), local_retention_bytes=1)
    log = log_of(LogHome(tmp_path, config), 4)
    log.bounds.update_highest_remote(1)
    assert clean(log) == (2, 2, 0)
    log.update_config(replace(config, remote_log_copy_disable=True, retention_bytes=1))
    assert clean(log) == (2, 2, 0)


def test_a_log_that_goes_on_far_ahead_keeps_what_the_tier_has_below(tmp_path: Path) -> None:
    log = log_of(LogHome(tmp_path, UNLIMITED), 3)
    log.truncate_fully_and_start_at(60, 40)
    assert (log.local_log_start_offset, log.log_end_offset, log.log_start_offset) == (60, 60, 40)


def test_a_rule_that_lets_go_what_is_not_in_the_tier_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogHome(tmp_path, TIERED).open()
    for _ in range(30):
        append(log, plain(2))
    segments = [each for each in log.local.segments if each is not log.local.active_segment]

    def too_much(*_: object) -> Breached:
        return Breached(segments, rolls_active=False)

    monkeypatch.setattr("tierlog.storage.log.unified_log.breached_segments", too_much)
    log.bounds.update_highest_remote(segments[-1].base_offset - 1)
    with pytest.raises(AssertionError, match="neither in the tier nor below the log start"):
        log.delete_old_segments(NOW_MS)
    assert log.local.segments.first is segments[0]
    log.bounds.update_highest_remote(log.end_offset_of(segments[-1]) - 1)
    assert log.delete_old_segments(NOW_MS) == len(segments)

"""Wherever the power goes in a cleaning, the log means the same afterwards (CL6).

What survives is, segment by segment, the log before or after: every record that a key is last with
is there, nothing that was not written, offsets climb, and the log ends where it ended.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.log.local_log import LocalLog
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.segment.log_segment import LogSegment
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from ..crash_scenarios import CONFIG, NOW_MS
from .cleaned_log import CleanedLog


class CleanedTwice(CleanedLog):
    """More is written and flushed, and a second cleaning begins where names may still be new."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        log.update_high_watermark(log.log_end_offset)
        self.clean(log)
        self.write(log, 3)
        log.roll(NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        self.clean(log)
        self.flush(log)
        self.clean(log)
        log.delete_pending(NOW_MS + 10)
        self.checkpoint(log, files)


class CleanedAndFlushed(CleanedLog):
    """The files of the replaced segments go, and the log is closed as usual."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        super().story(log, files)
        log.delete_pending(NOW_MS + 10)
        log.close(NOW_MS)
        self.promised_offset = log.log_end_offset
        self.checkpoint(log, files)
        log.log_dir.write_clean_shutdown_marker(-1)


class CleanedBesideRetention(CleanedLog):
    """Writing, DeleteRecords, retention and the removal of files come between any two steps."""

    config = replace(CONFIG, cleanup_policy=("compact", "delete"), file_delete_delay_ms=0)

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.deleted_below = 0

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        log.update_high_watermark(log.log_end_offset)
        for _ in range(2):
            self.clean(log)
        self.flush(log)
        self.checkpoint(log, files)

    def clean(self, log: UnifiedLog) -> None:
        config = CleanerConfig(io_buffer_size=300)
        cleaning = LogCleaning(measure(log, self.deleted_below, NOW_MS), config, NOW_MS)
        for _ in cleaning.read_keys():
            self.meanwhile(log)
        for group in cleaning.groups():
            for _ in cleaning.clean(group):
                self.meanwhile(log)
            cleaning.swap(group, NOW_MS)
            self.meanwhile(log)
        assert log.log_dir.is_online

    def meanwhile(self, log: UnifiedLog) -> None:
        """One of what else is done to a log, or nothing."""
        action = self.random.randrange(6)
        if action == 0:
            self.write(log, 3)
            log.update_high_watermark(log.log_end_offset)
        elif action == 1:
            log.roll(NOW_MS)
            self.flush(log)
        elif action == 2:
            step = self.random.randrange(log.high_watermark - log.log_start_offset + 1) // 3
            # Said before it is done, because it may survive a power loss in the middle of it.
            self.deleted_below = log.log_start_offset + step
            log.maybe_increment_log_start_offset(self.deleted_below)
        elif action == 3:
            log.delete_old_segments(NOW_MS)
            log.delete_pending(NOW_MS + 1)

    def must_be_there(self, end: int) -> set[int]:
        # What was never synced may be missing, in the middle too; nothing is superseded by that.
        safe = super().must_be_there(min(end, self.promised_offset))
        return {offset for offset in safe if offset >= self.deleted_below}


STORIES = [CleanedLog, CleanedTwice, CleanedAndFlushed, CleanedBesideRetention]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_else_is_done_to_a_log_a_cleaning_goes_on_or_gives_up(seed: int) -> None:
    story = CleanedBesideRetention(seed)
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    story.prepare(files)
    story.work(files)
    story.check(SimulatedFiles(disk))


def test_the_stories_would_catch_a_cleaning_that_reads_files_which_others_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A segment that is deleted while its keys are read."""

    def no_pin(segment: LogSegment) -> LogSegment:
        return segment

    monkeypatch.setattr(LogSegment, "pin", no_pin)
    with pytest.raises(OSError, match="closed"):
        for seed in range(60):
            test_whatever_else_is_done_to_a_log_a_cleaning_goes_on_or_gives_up(seed)


@pytest.mark.parametrize("story", STORIES)
def test_wherever_the_power_goes_in_a_cleaning_no_keys_last_record_is_lost(
    story: Callable[[], CleanedLog],
) -> None:
    assert cut_power_everywhere(story, chances_per_point=2) > 20


def _replace_too_soon(
    local: LocalLog, cleaned: LogSegment, old: list[LogSegment], now_ms: int
) -> None:
    """A careless swap: the old segments go before the cleaned one counts."""
    local.delete_segments(old, now_ms)
    cleaned.change_suffix(".cleaned", "")
    local.segments.add(cleaned)


def test_the_stories_would_catch_old_segments_that_go_too_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalLog, "replace_segments", _replace_too_soon)
    with pytest.raises(AssertionError):
        cut_power_everywhere(CleanedLog, chances_per_point=2)


def test_the_stories_would_catch_a_cleaned_segment_that_is_not_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flush_log = LogSegment.flush_log

    def unless_cleaned(segment: LogSegment) -> None:
        if not segment.path.endswith(".cleaned"):
            flush_log(segment)

    monkeypatch.setattr(LogSegment, "flush_log", unless_cleaned)
    with pytest.raises((AssertionError, KafkaError)):
        cut_power_everywhere(CleanedLog, chances_per_point=2)


def test_the_stories_would_catch_a_record_superseded_by_one_that_may_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole_log = property(lambda log: cast("UnifiedLog", log).log_end_offset)
    monkeypatch.setattr(UnifiedLog, "recovery_point", whole_log)
    with pytest.raises(AssertionError):
        cut_power_everywhere(CleanedTwice, chances_per_point=2)

"""Wherever the power goes: what was flushed stays, and the log is whole up to its end.

Each story is run once for every operation that it does on the disk, and the power goes exactly
there: see `crash_scenarios` for what must hold and `simulation/crash_points` for how.
"""

import errno
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import RecordBatch
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.log.leader_epoch import LeaderEpochCache
from tierlog.storage.log.local_log import LocalLog
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.segment.log_segment import LogSegment
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage.crash_scenarios import CONFIG, NOW_MS, LogScenario, open_log


class Appends(LogScenario):
    """Batches of several sizes, flushed now and then."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        for count in (1, 2, 1):
            self.append(log, count)
        self.flush(log)
        self.append(log, 3)
        self.flush(log)
        self.append(log, 1)


class Rolls(LogScenario):
    """Enough to roll several times, with new leader epochs and checkpoints in between."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        for round_number in range(4):
            self.append(log, 3)
            self.append(log, 2)
            if round_number % 2:
                self.flush(log)
                self.checkpoint(log, files)
                self.elect()
        assert len(log.local.segments) > 2


class RollsByHand(LogScenario):
    """Rolled although there is room, flushed only afterwards."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        self.append(log, 1)
        log.roll(NOW_MS)
        self.append(log, 1)
        log.roll(NOW_MS)
        self.flush(log)
        self.checkpoint(log, files)


class StopsCleanly(LogScenario):
    """Appends, closes and leaves the marker that lets the next start skip recovery."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        for _ in range(4):
            self.append(log, 3)
        log.close(NOW_MS)
        self.promised_offset = log.log_end_offset
        self.checkpoint(log, files)
        log.log_dir.write_clean_shutdown_marker(-1)


class StopsAndStartsAgain(StopsCleanly):
    """A second life after a clean stop: the marker must be gone before anything is written."""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        super().story(log, files)
        again = open_log(files)
        self.append(again, 2)
        self.flush(again)
        # Far enough for a segment to be closed whose bytes nobody has synced.
        for _ in range(6):
            self.append(again, 3)


class LosesOldSegments(LogScenario):
    """Retention takes the oldest segments; their files go a little later."""

    config = replace(CONFIG, retention_bytes=800, file_delete_delay_ms=1)

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        for _ in range(3):
            for _ in range(3):
                self.append(log, 3)
            self.flush(log)
            self.checkpoint(log, files)
            log.update_high_watermark(log.log_end_offset)
            log.delete_old_segments(NOW_MS)
            log.delete_pending(NOW_MS + 10)
        assert log.log_start_offset > 0


class Truncates(LogScenario):
    """What was flushed is cut off, for a leader that never had it; other records follow.

    Until the cut is made the log may be found uncut, but never with a hole or a mixture in it.
    """

    uncut = b""

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        for counts in ((1, 1, 1, 2), (1, 2), (3, 1)):
            for count in counts:
                self.append(log, count)
            self.elect()
            if counts != (3, 1):
                log.roll(NOW_MS)
        self.flush(log)
        self.checkpoint(log, files)
        assert [segment.base_offset for segment in log.local.segments] == [0, 5, 8]
        self.cut(log)
        self.elect()
        self.append(log, 1)
        self.append(log, 1)
        log.roll(NOW_MS)
        self.append(log, 2)
        self.flush(log)
        self.append(log, 2)
        self.checkpoint(log, files)
        self.append(log, 3)

    def cut(self, log: UnifiedLog) -> None:
        self.truncate(log, 3)

    def truncate(self, log: UnifiedLog, offset: int) -> None:
        self.uncut, self.promised_offset = self.appended, offset
        log.truncate_to(offset)
        self.uncut = b""
        assert log.log_end_offset == offset
        self.resume(log)

    def check_content(self, log: UnifiedLog, content: bytes) -> None:
        if not self.uncut.startswith(content):
            super().check_content(log, content)


class TruncatesAtASegment(Truncates):
    """Cut where a segment begins: it stays, empty."""

    def cut(self, log: UnifiedLog) -> None:
        self.truncate(log, 5)


class TruncatesTwice(Truncates):
    """The second leader did not have all of the first one's records either."""

    def cut(self, log: UnifiedLog) -> None:
        self.truncate(log, 11)
        self.elect()
        self.append(log, 4)
        self.flush(log)
        self.truncate(log, 6)


class StartsAfresh(Truncates):
    """All is dropped, and the log goes on below the end of what it was."""

    def cut(self, log: UnifiedLog) -> None:
        self.uncut, self.promised_offset = self.appended, 0
        log.truncate_fully_and_start_at(3)
        self.uncut, self.promised_offset = b"", 3
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)
        self.appended = b""


TRUNCATIONS = [Truncates, TruncatesAtASegment, TruncatesTwice, StartsAfresh]
STORIES = [Appends, Rolls, RollsByHand, StopsCleanly, StopsAndStartsAgain, LosesOldSegments]


@pytest.mark.parametrize("story", STORIES)
def test_wherever_the_power_goes_what_was_flushed_stays(story: Callable[[], LogScenario]) -> None:
    assert cut_power_everywhere(story, chances_per_point=10) > 20


@pytest.mark.parametrize("story", TRUNCATIONS)
def test_wherever_the_power_goes_records_that_were_cut_off_do_not_mix_with_later_ones(
    story: Callable[[], LogScenario],
) -> None:
    assert cut_power_everywhere(story, chances_per_point=3) > 100


def _forget(*_: object) -> None:
    """Stands in for a step that a careless log would leave out."""


def _believe(*_: object) -> bool:
    """Stands in for a check that a careless log would leave out."""
    return True


@pytest.mark.parametrize(
    ("owner", "step", "careless"),
    [
        (LogSegment, "flush_log", _forget),
        (LogSegment, "flush_indexes", _forget),
        (SimulatedFiles, "sync_dir", _forget),
        (RecordBatch, "crc_is_valid", _believe),
        (LeaderEpochCache, "truncate_from_end", _forget),
        (LogDir, "remove_clean_shutdown_marker", _forget),
        (LogDir, "lower_recovery_point", _forget),
        (LocalLog, "sync_truncation", _forget),
    ],
)
def test_the_stories_would_catch_a_log_that_forgets(
    monkeypatch: pytest.MonkeyPatch, owner: type, step: str, careless: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, step, careless)
    with pytest.raises(AssertionError):
        for story in (StopsAndStartsAgain, *TRUNCATIONS, *STORIES):
            cut_power_everywhere(story, chances_per_point=3)


def _log_in_use() -> tuple[SimulatedDisk, LogScenario, UnifiedLog]:
    disk, scenario = SimulatedDisk(), Appends()
    scenario.prepare(SimulatedFiles(disk))
    disk.lose_power(Survival.EVERYTHING, random.Random(0))
    log = open_log(SimulatedFiles(disk))
    scenario.append(log, 2)
    scenario.flush(log)
    return disk, scenario, log


def _assert_offline_then_whole_again(
    disk: SimulatedDisk, scenario: LogScenario, log: UnifiedLog
) -> None:
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(memoryview(bytearray(61)), 0, NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.faults.clear()
    disk.capacity_bytes = 1 << 40
    for survival in (Survival.EVERYTHING, Survival.NOTHING):
        disk.lose_power(survival, random.Random(0))
        scenario.check(SimulatedFiles(disk))


def test_a_full_disk_takes_the_directory_offline_and_nothing_promised_is_lost() -> None:
    disk, scenario, log = _log_in_use()
    disk.capacity_bytes = disk.used_bytes() + 100
    with pytest.raises(KafkaError) as full:
        scenario.append(log, 5)
    assert full.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(full.value.__cause__, OSError)
    assert full.value.__cause__.errno == errno.ENOSPC
    _assert_offline_then_whole_again(disk, scenario, log)


def test_a_failed_flush_promises_nothing_and_is_never_tried_again() -> None:
    disk, scenario, log = _log_in_use()
    scenario.append(log, 1)
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO, ".log"))
    before = log.recovery_point
    with pytest.raises(KafkaError) as failed:
        log.flush()
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == before
    # The pages that were not written count as clean now: a second flush would lie.
    with pytest.raises(KafkaError):
        log.flush()
    assert log.recovery_point == before
    _assert_offline_then_whole_again(disk, scenario, log)


def test_a_write_that_fails_is_not_part_of_the_log() -> None:
    disk, scenario, log = _log_in_use()
    end_offset = log.log_end_offset
    disk.faults.append(Fault(Kind.WRITE, errno.EIO, ".log"))
    with pytest.raises(KafkaError):
        scenario.append(log, 1)
    assert log.log_end_offset == end_offset
    _assert_offline_then_whole_again(disk, scenario, log)


def test_after_a_crash_the_log_goes_on_where_it_ends() -> None:
    disk, scenario, log = _log_in_use()
    scenario.append(log, 3)
    disk.lose_power(Survival.NOTHING, random.Random(0))
    files = SimulatedFiles(disk)
    again = open_log(files)
    assert again.log_end_offset == 2
    scenario.resume(again)
    scenario.append(again, 2)
    scenario.flush(again)
    disk.lose_power(Survival.NOTHING, random.Random(0))
    scenario.check(SimulatedFiles(disk))
    assert open_log(SimulatedFiles(disk)).log_end_offset == 4

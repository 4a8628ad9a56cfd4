"""Each call of a cleaning fails once, and the log means the same: now, later and after a crash.

An error that says nothing about the disk (no memory, no descriptor) leaves the log online: it is
read, cut, cleaned again. Any other takes its directory offline.
"""

import errno
import random

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.directory.log_dir import ResourcesExhaustedError
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles

from ..crash_scenarios import NOW_MS
from .cleaned_log import CleanedLog

KINDS = [Kind.CREATE, Kind.WRITE, Kind.RENAME, Kind.FLUSH, Kind.SYNC_DIRECTORY]
SURVIVALS = [Survival.NOTHING, Survival.BY_CHANCE, Survival.EVERYTHING]
ERRORS = [errno.ENOMEM, errno.EIO]
CUT_AT = 3
AFTERWARDS = ["read on", "clean again", "cut", "lose power", "retention", "stop"]


class Interrupted(CleanedLog):
    """A cleaning in which one call fails, and what is done to the log after that."""

    def __init__(self, disk: SimulatedDisk, fault: Fault, afterwards: str) -> None:
        super().__init__()
        self.disk = disk
        self.fault = fault
        self.afterwards = afterwards
        self.was_struck = False
        self.is_cut = False
        self.deleted_below = 0

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        log.update_high_watermark(log.log_end_offset)
        times = self.fault.times
        self.disk.faults.append(self.fault)
        self.clean(log)
        self.was_struck = self.fault.times < times
        self.fault.times = 0
        if not log.log_dir.is_online:
            assert self.fault.error == errno.EIO or times > 1
            return
        self.must_mean_the_same(log)
        if self.afterwards == "clean again":
            self.clean(log)
            names = files.listdir(log.directory)
            assert not [name for name in names if name.endswith((".swap", ".cleaned"))]
        elif self.afterwards == "cut":
            self.cut(log)
        elif self.afterwards == "retention":
            self.deleted_below = log.log_end_offset
            log.maybe_increment_log_start_offset(self.deleted_below)
            log.delete_old_segments(NOW_MS)
            log.delete_pending(NOW_MS + 10)
        elif self.afterwards == "stop":
            log.close(NOW_MS)
            log.log_dir.write_clean_shutdown_marker(-1)
            return
        if self.afterwards != "lose power":
            self.write(log, 3)
            self.flush(log)

    def cut(self, log: UnifiedLog) -> None:
        """The leader's log is another one from here on."""
        log.truncate_to(CUT_AT)
        self.is_cut = True
        self.written = {at: record for at, record in self.written.items() if at < CUT_AT}
        self.promised_offset = CUT_AT

    def clean(self, log: UnifiedLog) -> None:
        """As `LogCompaction` does it."""
        cleaning: LogCleaning | None = None
        try:
            cleaning = LogCleaning(measure(log, 0, NOW_MS), CleanerConfig(), NOW_MS)
            self.clean_whole(cleaning)
        except OSError as error:
            log.log_dir.fail(error)
            if cleaning is not None and log.log_dir.is_online:
                cleaning.abandon()
        except ResourcesExhaustedError:
            if cleaning is not None:
                cleaning.abandon()
        except KafkaError:
            assert not log.log_dir.is_online

    def clean_whole(self, cleaning: LogCleaning) -> None:
        for _ in cleaning.read_keys():
            pass
        for group in cleaning.groups():
            for _ in cleaning.clean(group):
                pass
            assert cleaning.swap(group, NOW_MS)

    def must_mean_the_same(self, log: UnifiedLog) -> None:
        found = [batch for segment in log.local.segments for batch in segment.batches()]
        left = {record.offset for batch in found for record in batch.records()}
        assert self.must_be_there(log.log_end_offset) <= left

    def must_be_there(self, end: int) -> set[int]:
        if self.is_cut:
            return {offset for offset in self.written if offset >= CUT_AT}
        start = self.deleted_below
        return {offset for offset in super().must_be_there(end) if offset >= start}


def strike(fault: Fault, afterwards: str, survival: Survival) -> bool:
    """Whether the fault came; what must hold afterwards holds."""
    disk = SimulatedDisk()
    story = Interrupted(disk, fault, afterwards)
    files = SimulatedFiles(disk)
    story.prepare(files)
    files.sync_dir("/")
    files.sync_dir("/data")
    story.work(files)
    if afterwards != "stop":
        disk.lose_power(survival, random.Random(fault.after))
    story.check(SimulatedFiles(disk))
    return story.was_struck


@pytest.mark.parametrize("afterwards", AFTERWARDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ERRORS)
def test_one_call_of_a_cleaning_fails_and_no_record_is_lost(
    error: int, kind: Kind, afterwards: str
) -> None:
    after = 0
    while strike(Fault(kind, error, after=after), afterwards, SURVIVALS[after % 3]):
        after += 1
    assert after > 0


@pytest.mark.parametrize("afterwards", AFTERWARDS)
@pytest.mark.parametrize("kind", [Kind.RENAME, Kind.SYNC_DIRECTORY])
def test_the_way_back_fails_too_and_no_record_is_lost(kind: Kind, afterwards: str) -> None:
    after = 0
    while strike(Fault(kind, errno.ENOMEM, times=3, after=after), afterwards, SURVIVALS[after % 3]):
        after += 1
    assert after > 0

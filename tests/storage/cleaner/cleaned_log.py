"""Shared by tests: a log that is cleaned until it crashes."""

from dataclasses import replace

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.simulation.files import SimulatedFiles

from ..crash_scenarios import CONFIG, NOW_MS, LogScenario, open_log

COMPACTED = replace(CONFIG, cleanup_policy=("compact",), file_delete_delay_ms=1)


class CleanedLog(LogScenario):
    """A flushed log of keys that come again and again, in many small segments."""

    config = COMPACTED

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, Record] = {}

    def prepare(self, files: SimulatedFiles) -> None:
        super().prepare(files)
        log = open_log(files, self.config)
        for _ in range(9):
            self.write(log, 3)
        log.roll(NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        self.flush(log)
        self.checkpoint(log, files)
        assert len(log.local.segments) > 4
        log.release()

    def write(self, log: UnifiedLog, count: int) -> None:
        first = log.log_end_offset
        made = [
            Record(first + i, NOW_MS, b"k%d" % ((first + i) % 5), b"%060d" % (first + i))
            for i in range(count)
        ]
        # Said before the append, because it may survive a power loss in the middle of it.
        self.written.update((record.offset, record) for record in made)
        log.append_as_leader(memoryview(build_batch(made)), 0, NOW_MS)

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        log.update_high_watermark(log.log_end_offset)
        self.clean(log)

    def clean(self, log: UnifiedLog) -> None:
        cleaning = LogCleaning(measure(log, 0, NOW_MS), CleanerConfig(), NOW_MS)
        for _ in cleaning.read_keys():
            pass
        for group in cleaning.groups():
            for _ in cleaning.clean(group):
                pass
            assert cleaning.swap(group, NOW_MS)

    def check(self, files: SimulatedFiles) -> None:
        log = open_log(files, self.config)
        assert log.log_end_offset >= self.promised_offset, "flushed records are lost"
        found = [batch for segment in log.local.segments for batch in segment.batches()]
        ends = [0, *(batch.next_offset for batch in found)]
        assert all(end <= batch.base_offset for end, batch in zip(ends, found, strict=False))
        left = {record.offset: record for batch in found for record in batch.records()}
        assert left.items() <= self.written.items(), "something was never written"
        assert self.must_be_there(ends[-1]) <= left.keys(), "the last record of a key is gone"
        for segment in log.local.segments:
            segment.sanity_check(is_active=segment is log.local.active_segment)
        names = files.listdir(log.directory)
        assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
        log.release()

    def must_be_there(self, end: int) -> set[int]:
        """The offsets below `end` that no cleaning may take away."""
        return set({each.key: at for at, each in self.written.items() if at < end}.values())

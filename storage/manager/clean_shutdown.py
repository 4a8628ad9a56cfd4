"""Closing all logs of a broker, so that the next start need recover none (`LogManager.shutdown`).

Each log writes what belongs to its end: the snapshot of its producers, the last entries of its
indexes. Then everything is put on the disk. Those flushes know nothing of each other and may run in
as many threads as the disk likes: a file system that is asked for many at once commits them
together. A directory in which one of them has failed, or was never run, is not clean.
"""

from collections.abc import Iterable

from ...clients.errors import KafkaError
from ..directory.log_dir import LogDir, ResourcesExhaustedError
from ..log.local_log import FlushTask
from ..log.unified_log import UnifiedLog


class CleanShutdown:
    """See the top of this file. Run all `flushes`, and say how each has ended."""

    def __init__(self, logs: Iterable[UnifiedLog], now_ms: int) -> None:
        self._waiting: dict[UnifiedLog, FlushTask] = {}
        for log in logs:
            try:
                task = log.prepare_close(now_ms)
            except ResourcesExhaustedError:
                log.log_dir.has_unclosed_log = True
            except KafkaError:
                # The directory's listener knows already.
                if log.log_dir.is_online:
                    raise
            else:
                if task is not None:
                    self._waiting[log] = task

    @property
    def flushes(self) -> list[tuple[UnifiedLog, FlushTask]]:
        """What is to be run, in any order and any threads."""
        return list(self._waiting.items())

    def flushed(self, log: UnifiedLog) -> None:
        """The log's flush has returned."""
        log.complete_flush(self._waiting.pop(log))

    def flush_here(self) -> None:
        """Run what is left, one after the other."""
        for log, task in self.flushes:
            try:
                task.run()
            except OSError as error:
                log.log_dir.fail(error)
            else:
                self.flushed(log)

    def is_clean(self, log_dir: LogDir) -> bool:
        """Whether every log in the directory is on the disk."""
        if not log_dir.is_online or log_dir.has_unclosed_log:
            return False
        return all(log.log_dir is not log_dir for log in self._waiting)

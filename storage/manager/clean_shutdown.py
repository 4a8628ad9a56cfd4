"""Closes all logs of a broker so that the next start needs no recovery (`LogManager.shutdown`).

Each log writes its producer snapshot and the last entries of its indexes, and is then flushed. The
flushes are independent and may run in as many threads as are useful: a file system commits
concurrent flushes together. A directory in which a flush has failed, or was not run, is not clean.
"""

from collections.abc import Iterable

from ...clients.errors import KafkaError
from ..directory.log_dir import LogDir, ResourcesExhaustedError
from ..log.local_log import FlushTask
from ..log.unified_log import UnifiedLog


class CleanShutdown:
    """Closes logs: see the module docstring. Run all `flushes`, calling `flushed` after each."""

    def __init__(self, logs: Iterable[UnifiedLog], now_ms: int) -> None:
        self._waiting: dict[UnifiedLog, FlushTask] = {}
        for log in logs:
            try:
                task = log.prepare_close(now_ms)
            except ResourcesExhaustedError:
                log.log_dir.has_unclosed_log = True
            except KafkaError:
                # When the directory went offline, its listeners were notified.
                if log.log_dir.is_online:
                    raise
            else:
                if task is not None:
                    self._waiting[log] = task

    @property
    def flushes(self) -> list[tuple[UnifiedLog, FlushTask]]:
        """The flushes to run, in any order and any threads."""
        return list(self._waiting.items())

    def flushed(self, log: UnifiedLog) -> None:
        """Record that the log's flush has succeeded."""
        log.complete_flush(self._waiting.pop(log))

    def flush_here(self) -> None:
        """Run the remaining flushes, one after the other."""
        for log, task in self.flushes:
            try:
                task.run()
            except OSError as error:
                log.log_dir.fail(error)
            else:
                self.flushed(log)

    def is_clean(self, log_dir: LogDir) -> bool:
        """Whether the directory is online and all its logs were closed and flushed."""
        if not log_dir.is_online or log_dir.has_unclosed_log:
            return False
        return all(log.log_dir is not log_dir for log in self._waiting)

"""Periodic compaction: cleans the dirtiest log, then the next, and pauses when none is due.

The data that a cleaning reads and writes is not shared, so its bounded steps run in the given
executor, with pauses that keep it within `log.cleaner.io.max.bytes.per.second`. Choosing a log and
swapping in a cleaned segment run on the event loop, which owns the logs. A log with unreadable
records is marked uncleanable and skipped until the broker restarts (Kafka's `LogCleaner` and
`LogCleanerManager`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...storage.cleaner.cleanable_log import CleanableLog, dirtiest, measure
from ...storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from ...storage.cleaner.cleaner_config import CleanerConfig
from ...storage.directory.log_dir import LogDir, ResourcesExhaustedError
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from ...storage.segment.index import CorruptIndexError

if TYPE_CHECKING:
    from ...clients.topic_partition import TopicPartition
    from ...storage.cleaner.log_cleaner import CleaningStats, LogCleaning

_log = logging.getLogger(__name__)

COMPACTION = "Compaction"
"""The name of this loop in the supervisor's reports."""

_CLEANER = "kafka.log:type=LogCleaner,name="
_MANAGER = "kafka.log:type=LogCleanerManager,name="
_TICK_S = 0.001


class LogCompaction:
    """Cleans one log at a time until it is cancelled."""

    def __init__(
        self,
        config: CleanerConfig,
        log_manager: LogManager,
        environment: Environment,
        executor: Executor,
        supervisor: Supervisor,
    ) -> None:
        self._config = config
        self._supervisor = supervisor
        self._is_changed = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held while a log is chosen and cleaned."""
        self._log_manager = log_manager
        log_manager.on_move(self._on_move)
        self._environment = environment
        self._executor = executor
        self._checkpoints: dict[str, CleanerCheckpoint] = {}
        self.uncleanable: set[TopicPartition] = set()
        """Logs with records that could not be read."""
        self._metrics: dict[str, float] = {}
        self._last_run_ms = environment.wall_clock_ms()

    @property
    def config(self) -> CleanerConfig:
        """The configuration, which may change at any time; a running cleaning keeps its buffers."""
        return self._config

    @config.setter
    def config(self, config: CleanerConfig) -> None:
        self._config = config
        self._is_changed.set()

    def metrics(self) -> dict[str, float]:
        """Current values and those of the last cleaning, by the names of Kafka's MBeans."""
        metrics = {
            _CLEANER + "max-buffer-utilization-percent": 0.0,
            _CLEANER + "cleaner-recopy-percent": 0.0,
            _CLEANER + "max-clean-time-secs": 0.0,
            _CLEANER + "max-compaction-delay-secs": 0.0,
            _MANAGER + "max-dirty-percent": 0.0,
            **self._metrics,
        }
        waited_ms = self._environment.wall_clock_ms() - self._last_run_ms
        metrics[_MANAGER + "time-since-last-run-ms"] = waited_ms
        for log_dir in self._log_manager.log_dirs:
            lost = [
                log
                for partition in self.uncleanable
                if (log := self._log_manager.get_log(partition)) and log.log_dir is log_dir
            ]
            of_directory = f',logDirectory="{log_dir.path}"'
            metrics[_MANAGER + "uncleanable-partitions-count" + of_directory] = len(lost)
            metrics[_MANAGER + "uncleanable-bytes" + of_directory] = sum(
                log.size_in_bytes for log in lost
            )
        return metrics

    def metric(self, name: str) -> float:
        """One of `metrics`."""
        return self.metrics()[name]

    async def run(self) -> None:
        """Clean every log that is due, until cancelled."""
        while True:
            was_due = False
            with self._supervisor.attempt(COMPACTION):
                was_due = await self.clean_dirtiest()
            # Yield to other tasks between two logs, however small.
            if was_due:
                await asyncio.sleep(0)
            else:
                await self._rest(lambda: self._config.backoff_ms / 1000)

    async def _rest(self, seconds: Callable[[], float]) -> None:
        """Sleep for `seconds()`, evaluated again when the configuration changes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (rest := seconds() - (loop.time() - began)) > _TICK_S:
            self._is_changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_changed.wait(), rest)

    async def clean_dirtiest(self) -> bool:
        """Clean the dirtiest log that is due; False if none is. Callers take turns."""
        async with self._turn:
            return await self._clean_dirtiest()

    async def _clean_dirtiest(self) -> bool:
        now_ms = self._last_run_ms = self._environment.wall_clock_ms()
        measured = [
            cleanable for log in self._compacted_logs() if (cleanable := self._measure(log, now_ms))
        ]
        self._metrics[_MANAGER + "max-dirty-percent"] = 100 * max(
            (each.dirty_ratio for each in measured), default=0.0
        )
        self._metrics[_CLEANER + "max-compaction-delay-secs"] = (
            max((each.overdue_ms for each in measured), default=0) / 1000
        )
        chosen = dirtiest(measured)
        if chosen is None:
            return False
        await self._clean(chosen)
        return True

    def _compacted_logs(self) -> list[UnifiedLog]:
        return [
            log
            for log in self._log_manager.all_logs()
            if log.config.is_compacted
            and log.log_dir.is_online
            and log.topic_partition not in self.uncleanable
            # Not a log that is being copied to another directory.
            and self._log_manager.future_logs.get(log.topic_partition) is None
        ]

    def _measure(self, log: UnifiedLog, now_ms: int) -> CleanableLog | None:
        if len(log.local.segments) == 1:
            return None
        try:
            return measure(log, self._checkpoint(log.log_dir).first_dirty_offset(log), now_ms)
        except OSError as error:
            log.log_dir.fail(error)
        except ResourcesExhaustedError:
            # Retried later.
            pass
        except Exception as error:
            self._give_up(log, error)
        return None

    def _checkpoint(self, log_dir: LogDir) -> CleanerCheckpoint:
        checkpoint = self._checkpoints.get(log_dir.path)
        if checkpoint is None:
            checkpoint = self._checkpoints[log_dir.path] = CleanerCheckpoint(log_dir)
        return checkpoint

    def _on_move(self, before: UnifiedLog, after: UnifiedLog) -> None:
        """Move the cleaner checkpoint of a log that has moved to another directory."""
        source, target = self._checkpoint(before.log_dir), self._checkpoint(after.log_dir)
        if not source.hand_over(before, target, after):
            return
        for log, checkpoint in ((after, target), (before, source)):
            try:
                checkpoint.write()
            except OSError as error:
                log.log_dir.fail(error)

    def _give_up(self, log: UnifiedLog, error: Exception) -> None:
        if not log.log_dir.is_online:
            return
        self.uncleanable.add(log.topic_partition)
        is_expected = isinstance(error, (KafkaError, CorruptIndexError))
        _log.error(
            "Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as "
            "uncleanable: it is not compacted until the broker restarts: %s",
            log,
            log.topic_partition,
            error,
            exc_info=None if is_expected else error,
        )

    async def _clean(self, chosen: CleanableLog) -> None:
        # Imported here, as most starts have nothing to clean and need not wait for the import.
        from ...storage.cleaner.log_cleaner import LogCleaning

        log = chosen.log
        cleaning: LogCleaning | None = None
        try:
            cleaning = LogCleaning(chosen, self._config, self._environment.wall_clock_ms())
            await self._clean_whole(cleaning)
        except OSError as error:
            # Not an error if the log was deleted meanwhile, with its directory.
            if not log.local.is_released:
                failure = log.log_dir.fail(error)
                if log.log_dir.is_online:
                    self._abandon(cleaning)
                    raise failure from error
        except ResourcesExhaustedError:
            self._abandon(cleaning)
            raise
        except Exception as error:
            # One bad log must not stop the cleaning of others (Kafka's `LogCleaner.cleanLog`).
            self._give_up(log, error)
            self._abandon(cleaning)

    async def _clean_whole(self, cleaning: "LogCleaning") -> None:
        """Run one cleaning. Skips segments deleted meanwhile; stops if the log is truncated."""
        wall_clock_ms = self._environment.wall_clock_ms
        started_ms = wall_clock_ms()
        is_whole = True
        await self._in_steps(cleaning.read_keys())
        checkpoint = self._checkpoint(cleaning.log_dir)
        if not checkpoint.knows(cleaning.log):
            # Noted before the first gap, so that the next start does not mistake the gap for a tail
            # lost in a power failure, even if the topic is no longer compacted (`log_loader.py`).
            await self._note(cleaning.log, checkpoint.first_dirty_offset(cleaning.log))
        for group in cleaning.groups():
            if not cleaning.is_log_current:
                return
            await self._in_steps(cleaning.clean(group))
            is_whole &= cleaning.swap(group, wall_clock_ms())
        if is_whole and cleaning.is_log_current:
            await self._note(cleaning.log, cleaning.cleaned_up_to)
            self._count(cleaning.stats, wall_clock_ms() - started_ms)

    def _abandon(self, cleaning: "LogCleaning | None") -> None:
        """Remove the files of an unfinished cleaning, after a failure unrelated to the disk."""
        if cleaning is None:
            return
        try:
            cleaning.abandon()
        except KafkaError:
            # A failed disk is already offline and reported.
            if cleaning.log_dir.is_online:
                raise

    async def _in_steps(self, steps: Iterator[int]) -> None:
        """Run a generator in the executor, no faster than the I/O limit allows."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            moved = await loop.run_in_executor(self._executor, next, steps, -1)
            if moved < 0:
                return
            await self._rest(partial(self._due_s, moved, loop.time() - began))

    def _due_s(self, moved: int, took_s: float) -> float:
        return moved / max(self._config.io_max_bytes_per_second, 1.0) - took_s

    async def _note(self, log: UnifiedLog, offset: int) -> None:
        checkpoint = self._checkpoint(log.log_dir)
        checkpoint.cleaned_up_to(log, offset)
        checkpoint.keep_only({each.topic_partition for each in self._log_manager.all_logs()})
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, checkpoint.prepare_write())
        except OSError as error:
            log.log_dir.fail(error)

    def _count(self, stats: "CleaningStats", took_ms: int) -> None:
        recopied = stats.bytes_written / stats.bytes_read if stats.bytes_read else 0.0
        self._metrics[_CLEANER + "max-buffer-utilization-percent"] = 100 * stats.map_utilization
        self._metrics[_CLEANER + "cleaner-recopy-percent"] = 100 * recopied
        self._metrics[_CLEANER + "max-clean-time-secs"] = took_ms / 1000

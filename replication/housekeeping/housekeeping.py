"""A broker's periodic work on its logs.

Retention, the removal of deleted files, fsync of closed segments, the checkpoints of high
watermarks, recovery points and log start offsets, and the expiration of idle producers each have
their own interval (`LogManager.startup`, `ReplicaManager.startHighWatermarkCheckPointThread`).
Compaction is in `log_compaction.py`.

Everything runs on the event loop, which owns the logs, except for flushes, file removal and the
cleaner's I/O, which run in the given executors. After deleting segments, retention syncs the epoch
checkpoint and yields before the next log. If a disk fails, the log manager takes its directory
offline; any other failure skips one log for this round, and the supervisor reports it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...storage.cleaner.cleaner_config import CleanerConfig
from ...storage.directory.log_dir import LogDir
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from .log_compaction import COMPACTION, LogCompaction

if TYPE_CHECKING:
    from ...storage.manager.due_deletions import Deletion

_RETENTION = "Log retention"
_PRODUCERS = "Expiration of producer ids"
_FLUSH = "Log flush"
_DELETION = "Deletion of files"

_LOGS_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class HousekeepingConfig:
    """Intervals in milliseconds, with Kafka's names where there are any."""

    initial_task_delay_ms: int = 30_000
    retention_check_interval_ms: int = 300_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    flush_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    producer_id_expiration_check_interval_ms: int = 600_000
    # Kafka's scheduler flushes a closed segment right away; ours waits at most this long.
    flush_check_interval_ms: int = 3_000
    delete_check_interval_ms: int = 1_000
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)


class Housekeeping:
    """Runs the periodic work on the logs until stopped."""

    def __init__(
        self,
        config: HousekeepingConfig,
        log_manager: LogManager,
        environment: Environment,
        flush_executor: Executor,
        supervisor: Supervisor,
        cleaner_executor: Executor | None = None,
    ) -> None:
        self._config = config
        self._log_manager = log_manager
        self._environment = environment
        self._flush_executor = flush_executor
        self._supervisor = supervisor
        self._cleaner_executor = cleaner_executor or flush_executor
        self.compaction = LogCompaction(
            config.cleaner, log_manager, environment, self._cleaner_executor, supervisor
        )
        self._put_off: list[Deletion] = []
        """Deletions that failed for lack of file descriptors."""
        self._tasks = TaskOwner(16)

    def start(self) -> None:
        """Start the periodic tasks on the running event loop."""
        config, logs = self._config, self._log_manager
        jobs: tuple[tuple[str, int, Callable[[], object]], ...] = (
            (
                "High watermark checkpoint",
                config.high_watermark_checkpoint_interval_ms,
                logs.checkpoint_high_watermarks,
            ),
            (
                "Recovery point checkpoint",
                config.flush_offset_checkpoint_interval_ms,
                logs.checkpoint_recovery_points,
            ),
            (
                "Log start checkpoint",
                config.flush_start_offset_checkpoint_interval_ms,
                logs.checkpoint_log_start_offsets,
            ),
        )
        for name, interval_ms, job in jobs:
            self._tasks.start(self._repeat(name, interval_ms, job), name)
        each_log: tuple[tuple[str, int, Callable[[UnifiedLog, int], int | None]], ...] = (
            (_RETENTION, config.retention_check_interval_ms, logs.delete_old_segments),
            (
                _PRODUCERS,
                config.producer_id_expiration_check_interval_ms,
                logs.remove_expired_producers,
            ),
        )
        for name, interval_ms, work in each_log:
            self._tasks.start(self._repeat_for_each_log(name, interval_ms, work), name)
        self._tasks.start(self._flush_now_and_then(), _FLUSH)
        self._tasks.start(self._delete_now_and_then(), _DELETION)
        if config.cleaner.enable:
            self._tasks.start(self.compaction.run(), COMPACTION)

    async def stop(self) -> None:
        """Stop once the current work is done."""
        await self._tasks.stop()

    async def _repeat(self, name: str, interval_ms: int, job: Callable[[], object]) -> None:
        await asyncio.sleep(min(interval_ms, self._config.initial_task_delay_ms) / 1000)
        while True:
            with self._supervisor.attempt(name):
                job()
            await asyncio.sleep(interval_ms / 1000)

    async def _repeat_for_each_log(
        self, name: str, interval_ms: int, work: Callable[[UnifiedLog, int], int | None]
    ) -> None:
        await asyncio.sleep(min(interval_ms, self._config.initial_task_delay_ms) / 1000)
        while True:
            with self._supervisor.attempt(name):
                async for log in self._online_logs():
                    with self._supervisor.attempt(name, log.topic_partition):
                        if work(log, self._environment.wall_clock_ms()):
                            # The deletion just synced to disk: let other tasks run.
                            await asyncio.sleep(0)
            await asyncio.sleep(interval_ms / 1000)

    async def _online_logs(self) -> AsyncIterator[UnifiedLog]:
        """Every log in an online directory; yields to the event loop every few hundred logs."""
        for index, log in enumerate(self._log_manager.online_logs()):
            if index % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            if log.log_dir.is_online and not log.local.is_released:
                yield log

    async def _delete_now_and_then(self) -> None:
        interval_s = self._config.delete_check_interval_ms / 1000
        await asyncio.sleep(min(interval_s, self._config.initial_task_delay_ms / 1000))
        while True:
            with self._supervisor.attempt(_DELETION):
                await self._delete_due()
            await asyncio.sleep(interval_s)

    async def _delete_due(self) -> None:
        """Remove files in a thread: on the loop, a large one would block all clients."""
        loop = asyncio.get_running_loop()
        now_ms = self._environment.wall_clock_ms()
        due = [
            each for each in self._put_off if each.log_dir.is_online
        ] + self._log_manager.due_deletions(now_ms)
        self._put_off = []
        for deletion in due:
            with self._supervisor.attempt(_DELETION, deletion.log_dir.path):
                try:
                    await loop.run_in_executor(self._cleaner_executor, deletion.remove)
                except OSError as error:
                    # Out of file descriptors: retried later.
                    self._put_off.append(deletion)
                    _report(deletion.log_dir, error)

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._config.flush_check_interval_ms / 1000)
            with self._supervisor.attempt(_FLUSH):
                await self.flush()

    async def flush(self) -> None:
        """fsync closed segments, and logs whose flush.ms has passed."""
        loop = asyncio.get_running_loop()
        async for log in self._online_logs():
            with self._supervisor.attempt(_FLUSH, log.topic_partition):
                task = self._log_manager.flush_task(log, self._environment.wall_clock_ms())
                if task is None:
                    continue
                try:
                    await loop.run_in_executor(self._flush_executor, task.run)
                except OSError as error:
                    _report(log.log_dir, error)
                else:
                    log.complete_flush(task)


def _report(log_dir: LogDir, error: OSError) -> None:
    """Take the directory offline if its disk has failed; otherwise raise the error."""
    failure = log_dir.fail(error)
    if log_dir.is_online:
        raise failure from error

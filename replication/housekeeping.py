"""What a broker does for its logs by the clock.

Retention, the removal of deleted files, fsync of closed segments, the checkpoints of high
watermarks, recovery points and log starts, and forgetting idle producers: each on its own interval,
under Kafka's names (`LogManager.startup`, `ReplicaManager.startHighWatermarkCheckPointThread`).

Compaction has a file of its own, `log_compaction.py`.

Everything is done on the event loop, because the logs are, except for fsync, the removal of files
and the cleaner's reading and writing, which run in the executors handed in. A failing disk takes
its directory offline inside the log manager; any other failure is a fault of ours and goes to
`on_failure`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ..clients.environment import Environment
from ..clients.task_owner import TaskOwner
from ..storage.cleaner_config import CleanerConfig
from ..storage.log_manager import LogManager
from .log_compaction import LogCompaction

OnFailure = Callable[["asyncio.Task[object]", BaseException], None]


@dataclass(frozen=True, slots=True)
class HousekeepingConfig:
    """Intervals in milliseconds, named as in Kafka where Kafka has a name."""

    initial_task_delay_ms: int = 30_000
    retention_check_interval_ms: int = 300_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    flush_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    producer_id_expiration_check_interval_ms: int = 600_000
    # Kafka flushes a closed segment from its scheduler right away; ours waits at most this long.
    flush_check_interval_ms: int = 3_000
    delete_check_interval_ms: int = 1_000
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)


class Housekeeping:
    """Keeps the logs in order until it is stopped."""

    def __init__(
        self,
        config: HousekeepingConfig,
        log_manager: LogManager,
        environment: Environment,
        flush_executor: Executor,
        on_failure: OnFailure | None = None,
        cleaner_executor: Executor | None = None,
    ) -> None:
        self._config = config
        self._log_manager = log_manager
        self._environment = environment
        self._flush_executor = flush_executor
        self._cleaner_executor = cleaner_executor or flush_executor
        self.compaction = LogCompaction(
            config.cleaner, log_manager, environment, self._cleaner_executor
        )
        self._tasks = TaskOwner(16, on_failure)

    def start(self) -> None:
        """Begin; the running loop's timers set the pace."""
        config, logs, now = self._config, self._log_manager, self._environment.wall_clock_ms
        jobs: tuple[tuple[str, int, Callable[[], object]], ...] = (
            ("retention", config.retention_check_interval_ms, lambda: logs.cleanup_logs(now())),
            (
                "high watermark checkpoint",
                config.high_watermark_checkpoint_interval_ms,
                logs.checkpoint_high_watermarks,
            ),
            (
                "recovery point checkpoint",
                config.flush_offset_checkpoint_interval_ms,
                logs.checkpoint_recovery_points,
            ),
            (
                "log start checkpoint",
                config.flush_start_offset_checkpoint_interval_ms,
                logs.checkpoint_log_start_offsets,
            ),
            (
                "producer id expiration",
                config.producer_id_expiration_check_interval_ms,
                lambda: logs.remove_expired_producers(now()),
            ),
        )
        for name, interval_ms, job in jobs:
            self._tasks.start(self._repeat(interval_ms, job), name)
        self._tasks.start(self._flush_now_and_then(), "flush")
        self._tasks.start(self._delete_now_and_then(), "deletion")
        if config.cleaner.enable:
            self._tasks.start(self.compaction.run(), "compaction")

    async def stop(self) -> None:
        """End after what is being done now."""
        await self._tasks.stop()

    async def _repeat(self, interval_ms: int, job: Callable[[], object]) -> None:
        await asyncio.sleep(min(interval_ms, self._config.initial_task_delay_ms) / 1000)
        while True:
            job()
            await asyncio.sleep(interval_ms / 1000)

    async def _delete_now_and_then(self) -> None:
        """Remove files in a thread: on the loop, a large one would keep all clients waiting."""
        interval_s = self._config.delete_check_interval_ms / 1000
        await asyncio.sleep(min(interval_s, self._config.initial_task_delay_ms / 1000))
        loop = asyncio.get_running_loop()
        while True:
            now_ms = self._environment.wall_clock_ms()
            for deletion in self._log_manager.due_deletions(now_ms):
                try:
                    await loop.run_in_executor(self._cleaner_executor, deletion.remove)
                except OSError as error:
                    deletion.log_dir.fail(error)
            await asyncio.sleep(interval_s)

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._config.flush_check_interval_ms / 1000)
            await self.flush()

    async def flush(self) -> None:
        """fsync what is due: closed segments, and logs whose flush.ms is over."""
        loop = asyncio.get_running_loop()
        for log, task in self._log_manager.flush_tasks(self._environment.wall_clock_ms()):
            try:
                await loop.run_in_executor(self._flush_executor, task.run)
            except OSError as error:
                log.log_dir.fail(error)
            else:
                log.complete_flush(task)

"""Puts a log on the disk, in a thread, for those who delete something on the strength of it.

With Kafka's default settings nothing flushes a log but its roll and its close, because Kafka relies
on replicas. Two promises of the tier cannot wait for that: the events of `__remote_log_metadata`,
without which a copied segment cannot be found again, and the closed segment that is about to be
copied, without which the log would end before its own copy. `docs/decisions/014` has the reasons.
"""

from ...storage.log.unified_log import UnifiedLog
from ..blocking_pool import BlockingPool


class LogDurability:
    """The fsyncs that tiering waits for."""

    def __init__(self, pool: BlockingPool) -> None:
        self._pool = pool

    async def sync(self, log: UnifiedLog, up_to: int) -> None:
        """Return once all that the log has below `up_to` would survive a loss of power.

        A log that is closed or deleted meanwhile has nothing to protect. Raises
        KafkaError(KAFKA_STORAGE_ERROR): the fsync failed, and the log's directory is offline.
        """
        while not log.local.is_released:
            log.log_dir.check()
            if log.recovery_point >= min(up_to, log.log_end_offset):
                return
            task = log.prepare_flush(up_to)
            if task is None:
                return
            try:
                await self._pool.run(task.run)
            except OSError as error:
                raise log.log_dir.fail(error) from error
            log.complete_flush(task)

    def stop(self) -> None:
        """Start no further fsync. Idempotent."""
        self._pool.stop()

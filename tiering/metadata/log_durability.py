"""Flushes a log to disk, in a thread, before tiering deletes anything that depends on it.

With Kafka's default settings only a roll and a close flush a log, because Kafka relies on
replicas. Tiering cannot wait for that in two cases. Without the events of `__remote_log_metadata`,
a copied segment cannot be found again. And if a power failure cut off a closed segment that was
already copied, the log would end before the end of its own copy. `docs/decisions/014` has the
reasons.
"""

from ...storage.log.unified_log import UnifiedLog
from ..blocking_pool import BlockingPool


class LogDurability:
    """The fsyncs that tiering waits for."""

    def __init__(self, pool: BlockingPool) -> None:
        self._pool = pool

    async def sync(self, log: UnifiedLog, up_to: int) -> None:
        """Return once everything in the log below `up_to` survives a power failure.

        Returns early if the log is closed or deleted meanwhile. Raises
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

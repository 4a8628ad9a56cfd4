"""The last step of a broker's shutdown: flush and close its logs, many at once.

An fsync waits for the file system's journal, and concurrent ones share one commit: a hundred logs
take hardly longer than ten (Kafka uses num.recovery.threads.per.data.dir threads).
"""

import asyncio
from concurrent.futures import Executor

from ...storage.manager.log_manager import LogManager

FLUSH_THREADS = 8
"""How many threads the executor should have; more would not help."""


async def close_logs(
    log_manager: LogManager, executor: Executor, now_ms: int, broker_epoch: int
) -> None:
    """Close every log; see `LogManager.shutdown`."""
    closing = log_manager.begin_shutdown(now_ms)
    loop = asyncio.get_running_loop()
    flushes = [(log, loop.run_in_executor(executor, task.run)) for log, task in closing.flushes]
    for log, flush in flushes:
        try:
            await flush
        except OSError as error:
            log.log_dir.fail(error)
        else:
            closing.flushed(log)
    log_manager.finish_shutdown(closing, broker_epoch)

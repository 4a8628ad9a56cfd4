"""Repeats a task on one partition, in a pool of bounded size.

Copying, expiration and following each have their own pool, so that a slow copy delays no deletion
(in a shared pool, deletions would wait behind uploads). A pool bounds how many partitions are
worked on at once, not how many wait for it. After a failure the pause doubles with each failure
in a row, bounded and jittered, so that an unreachable store is not overloaded and partitions do not
retry in step. An unexpected exception does not end a loop either: it is logged with its traceback,
counted, and the work is retried (`clients/runtime/supervisor.py`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...clients.errors import KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicPartition
from ...storage.segment.index import CorruptIndexError
from ..config import RemoteLogManagerConfig
from ..permits import Permits
from ..remote_storage import RemoteStorageError
from ..tier_health import TierHealth

_log = logging.getLogger(__name__)

_DOUBLINGS_MAX = 32

Work = Callable[[], Awaitable[int | None]]
"""Returns how much was done with the tier, or None if no work can ever follow.

Raises RemoteStorageError, KafkaError, CorruptIndexError or OSError to be called again."""


@dataclass(frozen=True, slots=True)
class LoopTools:
    """Dependencies of all loops."""

    config: RemoteLogManagerConfig
    environment: Environment
    health: TierHealth
    supervisor: Supervisor

    def pause_seconds(self, failures: int) -> float:
        """How long to wait after `failures` failures in a row."""
        config = self.config
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        delay_ms = min(config.retry_backoff_ms << doublings, config.retry_backoff_max_ms)
        spread = config.retry_jitter
        return delay_ms * self.environment.random.uniform(1 - spread, 1 + spread) / 1000


class PartitionLoop:
    """Repeats a task on one partition."""

    def __init__(
        self, task: str, partition: TopicPartition, pool: Permits, work: Work, tools: LoopTools
    ) -> None:
        self._task = task
        self._partition = partition
        self.name = f"{task} of {partition}"
        """The task and its partition, such as "Copying of orders-0"."""
        self._pool = pool
        self._work = work
        self._tools = tools
        self._woken = asyncio.Event()
        self._failures = 0
        self.rounds = 0
        """How often the work has ended, well or not."""

    def wake(self) -> None:
        """End the current pause: there may be something to do."""
        self._woken.set()

    async def run(self) -> None:
        """Repeat the work until it returns None or this is cancelled."""
        supervisor = self._tools.supervisor
        try:
            while True:
                self._woken.clear()
                pause: float | None = self._tools.config.task_interval_ms / 1000
                with supervisor.attempt(self._task, self._partition):
                    pause = await self._run_once()
                self.rounds += 1
                if pause is None:
                    return
                unexpected = supervisor.pause_seconds(self._task, self._partition)
                await self._sleep(unexpected or pause)
        finally:
            supervisor.forget(self._task, self._partition)

    async def _run_once(self) -> float | None:
        """Run the work once; returns the pause in seconds, or None if the work is over."""
        began = asyncio.get_running_loop().time()
        try:
            async with self._pool:
                began = asyncio.get_running_loop().time()
                done = await self._work()
        except (RemoteStorageError, KafkaError, CorruptIndexError, OSError) as error:
            self._failures += 1
            self._on_failure(error, self._failures, began)
            return self._tools.pause_seconds(self._failures)
        if done is None:
            return None
        self._failures = 0
        if done:
            self._tools.health.works()
        return self._tools.config.task_interval_ms / 1000

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _on_failure(self, error: Exception, failures: int, began: float) -> None:
        if isinstance(error, RemoteStorageError):
            self._tools.health.task_fails(self.name, began, error)
        elif isinstance(error, KafkaError) and error.is_retriable:
            _log.debug("%s is not possible yet: %s", self.name, error)
        elif failures == 1:
            _log.error("%s failed, trying again: %s", self.name, error)

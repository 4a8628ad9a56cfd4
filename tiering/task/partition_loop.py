"""Work on one partition that is done again and again, in a pool of bounded size.

Copying, expiration and following each have a pool of their own, so that a slow copy delays no
deletion (pitfall of one pool for all: deletions wait behind uploads). What a pool bounds is how
many partitions are worked on at once; who may try is not bounded. After work that failed the
pause doubles with each failure in a row, bounded and jittered, so that an outage is not hammered
and partitions do not come back in step. An unexpected exception does not end a loop either: it
is logged with its traceback, counted, and the work is tried again (`clients/supervisor.py`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...clients.environment import Environment
from ...clients.errors import KafkaError
from ...clients.supervisor import Supervisor
from ...clients.topic_partition import TopicPartition
from ...storage.segment.index import CorruptIndexError
from ..config import RemoteLogManagerConfig
from ..permits import Permits
from ..remote_storage import RemoteStorageError
from ..tier_health import TierHealth

_log = logging.getLogger(__name__)

_DOUBLINGS_MAX = 32

Work = Callable[[], Awaitable[int | None]]
"""How much was done with the tier; None if there will never be anything to do again.

Raises RemoteStorageError, KafkaError, CorruptIndexError or OSError to be called again."""


@dataclass(frozen=True, slots=True)
class LoopTools:
    """What all loops share."""

    config: RemoteLogManagerConfig
    environment: Environment
    health: TierHealth
    supervisor: Supervisor

    def pause_seconds(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        config = self.config
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        delay_ms = min(config.retry_backoff_ms << doublings, config.retry_backoff_max_ms)
        spread = config.retry_jitter
        return delay_ms * self.environment.random.uniform(1 - spread, 1 + spread) / 1000


class PartitionLoop:
    """See the top of this file."""

    def __init__(
        self, task: str, partition: TopicPartition, pool: Permits, work: Work, tools: LoopTools
    ) -> None:
        self._task = task
        self._partition = partition
        self.name = f"{task} of {partition}"
        """What is done to which partition: "Copying of orders-0"."""
        self._pool = pool
        self._work = work
        self._tools = tools
        self._woken = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """There may be something to do: end the present pause."""
        self._woken.set()

    async def run(self) -> None:
        """Until the work says that it is over, or this is cancelled."""
        supervisor = self._tools.supervisor
        try:
            while True:
                self._woken.clear()
                pause: float | None = self._tools.config.task_interval_ms / 1000
                with supervisor.attempt(self._task, self._partition):
                    pause = await self._run_once()
                if pause is None:
                    return
                unexpected = supervisor.pause_seconds(self._task, self._partition)
                await self._sleep(unexpected or pause)
        finally:
            supervisor.forget(self._task, self._partition)

    async def _run_once(self) -> float | None:
        """How long to wait before the next time; None if there is none."""
        try:
            async with self._pool:
                done = await self._work()
        except (RemoteStorageError, KafkaError, CorruptIndexError, OSError) as error:
            self._failures += 1
            self._failed(error, self._failures)
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

    def _failed(self, error: Exception, failures: int) -> None:
        if isinstance(error, RemoteStorageError):
            self._tools.health.fails(error)
        elif isinstance(error, KafkaError) and error.is_retriable:
            _log.debug("%s is not possible yet: %s", self.name, error)
        elif failures == 1:
            _log.error("%s failed, trying again: %s", self.name, error)

"""Reports the log directory of each of this broker's replicas to the controller (KIP-858).

Reports wait until the controller has room for them and are sent in bounded batches; a refused
batch is retried a little later. Before a moved replica takes over, the move waits for the
controller's answer; earlier reports of that replica that are still waiting are dropped
(`AssignmentsManager`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...storage.config import LogConfig
from ..control.brokers.directory_control import assign_replicas, directories_failed
from ..control.controller_config import Decision
from ..metadata.cluster_image import ClusterImage

_log = logging.getLogger(__name__)

_ASSIGNMENTS_PER_WRITE = 2_250
_RETRY_S = 1.0
_ASSIGNMENT = "Assignment of replicas to directories"

Decide = Callable[[Callable[[ClusterImage], Decision[None]]], Awaitable[None]]


class DirectoryReports(Protocol):
    """How reports reach the controller. Methods raise KafkaError."""

    async def assign(self, directories: Mapping[TopicIdPartition, Uuid]) -> None:
        """Report the directories of replicas."""
        ...

    async def fail(self, directories: Collection[Uuid]) -> None:
        """Report directories that have failed."""
        ...


class ControllerReports:
    """Reports to the controller of this process. `decide` is `Controller.decide`."""

    def __init__(
        self, node_id: int, decide: Decide, defaults: Callable[[], LogConfig] = LogConfig
    ) -> None:
        """`defaults` returns the current defaults of topics."""
        self._node_id = node_id
        self._decide = decide
        self._defaults = defaults

    async def assign(self, directories: Mapping[TopicIdPartition, Uuid]) -> None:
        """See `DirectoryReports`."""
        node_id = self._node_id
        await self._decide(
            lambda image: assign_replicas(image, node_id, directories, self._defaults())
        )

    async def fail(self, directories: Collection[Uuid]) -> None:
        """See `DirectoryReports`."""
        node_id = self._node_id
        await self._decide(
            lambda image: directories_failed(image, node_id, directories, self._defaults())
        )


class ReplicaDirectories:
    """See the top of this file."""

    def __init__(self, reports: DirectoryReports, supervisor: Supervisor) -> None:
        self._reports = reports
        self._pending: dict[TopicIdPartition, Uuid] = {}
        self._failed: set[Uuid] = set()
        self._supervisor = supervisor
        self._tasks = TaskOwner(1)
        self._is_stopped = False
        self._reporter: asyncio.Task[None] | None = None

    def report(self, replica: TopicIdPartition, directory: Uuid) -> None:
        """Queue a report of the replica's directory."""
        self._pending[replica] = directory
        self._wake()

    def report_failure(self, directories: Collection[Uuid]) -> None:
        """Queue a report that these directories have failed."""
        self._failed.update(directories)
        self._wake()

    async def assign(self, replica: TopicIdPartition, directory: Uuid) -> None:
        """Report the replica's directory and wait for the answer. Raises KafkaError."""
        self._pending.pop(replica, None)
        await self._reports.assign({replica: directory})

    async def stop(self) -> None:
        """Stop reporting; the next start sends the remaining reports."""
        self._is_stopped = True
        await self._tasks.stop()

    def _wake(self) -> None:
        if not self._is_stopped and (self._reporter is None or self._reporter.done()):
            self._reporter = self._tasks.start(self._report_all(), "replica directories")

    async def _report_all(self) -> None:
        while self._pending or self._failed:
            with self._supervisor.attempt(_ASSIGNMENT):
                try:
                    await self._report_batch()
                except KafkaError as error:
                    _log.info(
                        "Could not report replica directories to the controller, trying again: %s",
                        error,
                    )
                    await asyncio.sleep(_RETRY_S)
            await asyncio.sleep(self._supervisor.pause_seconds(_ASSIGNMENT))

    async def _report_batch(self) -> None:
        # Assignments first, so that replicas that have left a failed directory don't fail with it.
        if not self._pending:
            failed = frozenset(self._failed)
            await self._reports.fail(failed)
            self._failed -= failed
            return
        batch = dict(list(self._pending.items())[:_ASSIGNMENTS_PER_WRITE])
        await self._reports.assign(batch)
        for replica, directory in batch.items():
            # The replica may have moved again in the meantime.
            if self._pending.get(replica) == directory:
                del self._pending[replica]


class MoveTools(NamedTuple):
    """The parts of the broker that moves use; tasks in `executor` may block."""

    directories: ReplicaDirectories
    executor: Executor
    supervisor: Supervisor

"""Reads from the tier what followed partitions need to continue after it (KIP-405).

The reads run beside the fetches, so that a slow tier delays no partition that has all its records
from the leader. A failed read is tried again by the partition's state machine, after its pause.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ...clients.runtime.task_owner import TaskOwner
from ...storage.log.aux_state import AuxRequest, AuxState, MalformedAuxStateError
from ...tiering.remote_storage import RemoteStorageError
from .fetch_state import FollowedPartition
from .followed_partitions import Asked
from .follower_asks import AuxAsk

_log = logging.getLogger(__name__)

_READS_MAX = 4
"""How many partitions of a leader are read for at the same time."""
_TASKS_MAX = 100_000
"""Those that wait for their turn count, too; any further partition asks again later."""

FetchAux = Callable[[AuxRequest], Awaitable[AuxState]]
"""Reads a log's state from the tier. Raises RemoteStorageError, MalformedAuxStateError."""


class TierReadTools(NamedTuple):
    """What the reads of a fetcher work with."""

    fetch_aux: FetchAux | None
    """None if this broker has no tier."""
    contained: Callable[[FollowedPartition], AbstractContextManager[Any]]
    """Contains an unexpected error, so that it stops this partition only."""
    on_end: Callable[[FollowedPartition], None]
    """Called whenever the partition has its state, or tries again later."""
    now_ms: Callable[[], int]


class TierReads:
    """The reads of one fetcher, which `owner` names in the log."""

    def __init__(self, owner: object, tools: TierReadTools) -> None:
        self._owner = owner
        self._tools = tools
        self._turns = asyncio.Semaphore(_READS_MAX)
        self._tasks = TaskOwner(_TASKS_MAX)

    def start(self, part: Asked) -> None:
        """Read what the partition asks for, which has to be an `AuxAsk`."""
        partition, ask = part
        assert isinstance(ask, AuxAsk)
        fetch_aux = self._tools.fetch_aux
        if fetch_aux is None:
            self._fail(part, "This broker has no remote tier.", is_passing=False)
        elif len(self._tasks) >= _TASKS_MAX:
            self._fail(part, "Too many partitions wait for the remote tier.", is_passing=True)
        else:
            name = f"{self._owner} {partition.topic_id_partition.topic_partition}"
            self._tasks.start(self._read(part, ask, fetch_aux), name)

    async def stop(self) -> None:
        """Read nothing more. Idempotent."""
        await self._tasks.stop()

    async def _read(self, part: Asked, ask: AuxAsk, fetch_aux: FetchAux) -> None:
        partition = part.partition
        with self._tools.contained(partition):
            try:
                async with self._turns:
                    if partition.outstanding is not ask:
                        # It follows another leader, or is no longer followed.
                        return
                    state = await fetch_aux(ask.request)
            except RemoteStorageError as error:
                self._fail(part, str(error), is_passing=error.is_retriable)
            except MalformedAuxStateError as error:
                self._fail(part, str(error), is_passing=False)
            else:
                self._build(partition, ask, state)
        self._tools.on_end(partition)

    def _build(self, partition: FollowedPartition, ask: AuxAsk, state: AuxState) -> None:
        is_awaited = partition.outstanding is ask
        partition.aux_fetched(ask, state, self._tools.now_ms())
        if is_awaited and not partition.trouble:
            _log.info(
                "%s Partition %s continues at offset %d after what is in the remote tier,"
                " with log start offset %d",
                self._owner,
                partition.topic_id_partition.topic_partition,
                partition.fetch_offset,
                partition.log.log_start_offset,
            )

    def _fail(self, part: Asked, reason: str, *, is_passing: bool) -> None:
        partition, ask = part
        if partition.outstanding is ask and partition.trouble != reason:
            _log.log(
                logging.INFO if is_passing else logging.WARNING,
                "%s Partition %s waits for the remote tier: %s",
                self._owner,
                partition.topic_id_partition.topic_partition,
                reason,
            )
        partition.failed(ask, reason, self._tools.now_ms())

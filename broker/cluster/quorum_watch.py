"""Says in the log who the active controller is, and what a node without one waits for.

A node of a cluster may wait for others: it has no leader before a majority of the controllers runs.
After a while without a leader the log says so, with the reason of each controller that could not be
reached or refused this node, and repeats it every minute until there is one.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ...clients.runtime.task_owner import TaskOwner

_log = logging.getLogger(__name__)

FIRST_WARNING_S = 3.0
"""Longer than the first election of controllers that start together usually takes."""
WARN_AGAIN_S = 60.0

_SHOWN_MAX = 5


class QuorumView(Protocol):
    """What a node knows of its quorum; `QuorumMember` has it."""

    @property
    def leader_id(self) -> int:
        """The leader's node id; -1 if unknown."""
        ...

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the last request to a controller failed, by its address; without those that work."""
        ...

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the leader or its epoch has changed."""
        ...


class QuorumWatch:
    """See the top of this file."""

    def __init__(self, quorum: QuorumView, first_warning_s: float = FIRST_WARNING_S) -> None:
        self._quorum = quorum
        self._first_warning_s = first_warning_s
        self._has_changed = asyncio.Event()
        self._announced = -1
        self._tasks = TaskOwner(1)
        quorum.on_leader_change(self._has_changed.set)

    def start(self) -> None:
        """Begin to watch."""
        self._tasks.start(self._run(), "quorum watch")

    async def stop(self) -> None:
        """Say nothing more."""
        await self._tasks.stop()

    async def _run(self) -> None:
        wait_s = self._first_warning_s
        while True:
            self._has_changed.clear()
            leader_id = self._quorum.leader_id
            if leader_id >= 0:
                if leader_id != self._announced:
                    _log.info("The active controller is node %d.", leader_id)
                self._announced = leader_id
                wait_s = self._first_warning_s
            try:
                async with asyncio.timeout(None if leader_id >= 0 else wait_s):
                    await self._has_changed.wait()
            except TimeoutError:
                _log.warning(
                    "No controller is active: this node waits for a majority of the controllers%s",
                    _reasons(self._quorum),
                )
                wait_s = WARN_AGAIN_S


def absence(quorum: QuorumView) -> str:
    """A message that says that no controller is active, and why as far as it is clear."""
    return "No controller is active: this node waits for a majority of the controllers" + _reasons(
        quorum
    )


def _reasons(quorum: QuorumView) -> str:
    refusals = [reason for _, reason in sorted(quorum.refusals.items())]
    if not refusals:
        return "."
    more = f"; and {len(refusals) - _SHOWN_MAX} more" if len(refusals) > _SHOWN_MAX else ""
    return f" ({'; '.join(refusals[:_SHOWN_MAX])}{more})."

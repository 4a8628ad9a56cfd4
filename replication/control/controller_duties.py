"""What the active controller does without a request, each at its interval (`PeriodicTask`).

One task does all duties in turn. A standby has none: the task sleeps until its controller becomes
active, and then begins with full intervals. A duty that has more to do than one change may hold is
due again at once. A duty that fails is logged and due at its next interval; losing the lead is no
failure.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner

_log = logging.getLogger(__name__)

CONTROLLER_DUTY = "Duty of the active controller"
"""The name under which the supervisor counts failures of duties."""


@dataclass(slots=True)
class Duty:
    """Work at an interval; `work` returns whether there is more to do at once."""

    name: str
    interval_ms: int
    work: Callable[[], Awaitable[bool]]
    # In the time of the event loop.
    due_ms: float = 0.0


class ControllerDuties:
    """Does duties while the controller is active."""

    def __init__(
        self, duties: Sequence[Duty], is_active: Callable[[], bool], supervisor: Supervisor
    ) -> None:
        self._duties = duties
        self._is_active = is_active
        self._supervisor = supervisor
        self._tasks = TaskOwner(1)
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Begin; call `on_role_change` whenever the controller became active or a standby."""
        self.on_role_change()
        self._tasks.start(self._work(), "duties of the controller")

    async def stop(self) -> None:
        await self._tasks.stop()

    def on_role_change(self) -> None:
        """Give each duty a full interval from now on."""
        now_ms = loop_ms()
        for duty in self._duties:
            duty.due_ms = now_ms + duty.interval_ms
        self._changed.set()

    def hasten(self, duty: Duty, due_ms: float) -> None:
        """Do a duty at this time, if it is not due before."""
        if due_ms < duty.due_ms:
            duty.due_ms = due_ms
            self._changed.set()

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            wait_ms = min(duty.due_ms for duty in self._duties) - loop_ms()
            if not self._is_active():
                await self._changed.wait()
            elif wait_ms > 0:
                await self._sleep(wait_ms)
            else:
                await self._do_what_is_due()

    async def _sleep(self, wait_ms: float) -> None:
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _do_what_is_due(self) -> None:
        for duty in self._duties:
            if not self._is_active() or duty.due_ms > loop_ms():
                continue
            duty.due_ms = loop_ms() + duty.interval_ms
            with self._supervisor.attempt(CONTROLLER_DUTY, duty.name):
                if await _has_more(duty):
                    duty.due_ms = loop_ms()
        # A duty that always has more to do must not keep the event loop from others.
        await asyncio.sleep(0)


async def _has_more(duty: Duty) -> bool:
    try:
        return await duty.work()
    except KafkaError as error:
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise
        _log.debug("The controller lost its lead before it could %s", duty.name)
        return False


def loop_ms() -> float:
    """The event loop's time in milliseconds."""
    return asyncio.get_running_loop().time() * 1_000

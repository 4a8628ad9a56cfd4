"""The timers of the groups, on the running event loop.

Every heartbeat extends a session timer, so this must be cheap: a later deadline is only recorded,
and if the event loop's timer fires earlier, it is set again for the remaining time. There is at
most one loop timer per key, and at most four keys per group or member.
"""

import asyncio
from collections.abc import Callable

from ..group_actions import TimerKey


class _Timer:
    __slots__ = ("deadline", "handle")

    def __init__(self, deadline: float, handle: asyncio.TimerHandle) -> None:
        self.deadline = deadline
        self.handle = handle


class GroupTimers:
    """Calls `on_expired(key)` once for each timer that expires before it is cancelled."""

    def __init__(self, on_expired: Callable[[TimerKey], None]) -> None:
        self._on_expired = on_expired
        self._timers: dict[TimerKey, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._timers

    def set(self, key: TimerKey, delay_ms: int) -> None:
        """Set a timer to expire `delay_ms` from now, replacing any earlier deadline."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is not None and timer.handle.when() <= deadline:
            timer.deadline = deadline
            return
        self.cancel(key)
        self._timers[key] = _Timer(deadline, loop.call_at(deadline, self._fire, key))

    def cancel(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()

    def close(self) -> None:
        for key in list(self._timers):
            self.cancel(key)

    def _fire(self, key: TimerKey) -> None:
        timer = self._timers[key]
        if timer.deadline > timer.handle.when():
            loop = asyncio.get_running_loop()
            timer.handle = loop.call_at(timer.deadline, self._fire, key)
            return
        del self._timers[key]
        self._on_expired(key)

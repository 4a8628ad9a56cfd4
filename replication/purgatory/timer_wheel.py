"""A timer wheel: thousands of deadlines on one timer of the event loop.

A delayed operation nearly always completes before its deadline, so adding and cancelling must be
very cheap; expiring may cost a little more. Deadlines are rounded up to a tick; entries of one tick
share a bucket (a dict used as an ordered set), and a heap holds each bucket's tick once. Kafka's
`TimingWheel` uses hierarchical wheels; a sparse dict of buckets needs no overflow wheels and no
cascading.

Rules:

- an entry never expires before its deadline, and at most one tick plus the loop's delay after it;
- the event loop has at most one timer for the whole wheel, set to the earliest bucket;
- one turn of the loop expires at most `EXPIRATIONS_PER_TURN` entries, so that ten thousand
  deadlines in one tick do not stall requests that are being served;
- ticks left in the heap by emptied buckets are swept before they outnumber the live ones.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Protocol

EXPIRATIONS_PER_TURN = 1_000
"""How many entries may expire before the loop runs other tasks."""

_SWEEP_FLOOR = 256


class TimerHandle(Protocol):
    """The handle of a timer, used only to cancel it."""

    def cancel(self) -> None: ...


class TimerLoop(Protocol):
    """The clock and timers of an event loop (asyncio's loops fit)."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...


class TimerEntry:
    """An object with a deadline. Subclasses implement `on_deadline`."""

    __slots__ = ("bucket",)

    def __init__(self) -> None:
        # Set by the wheel; kept here so that cancelling needs no search.
        self.bucket: dict[TimerEntry, None] | None = None

    def on_deadline(self) -> None:
        """Called once by the wheel after the deadline, unless cancelled."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Remove the entry from its wheel, if it is on one."""
        bucket = self.bucket
        if bucket is not None:
            del bucket[self]
            self.bucket = None


class TimerWheel:
    """Deadlines of many entries on one loop timer."""

    def __init__(self, loop: TimerLoop, tick_ms: int = 1) -> None:
        assert tick_ms >= 1
        self._loop = loop
        self._ticks_per_second = 1000.0 / tick_ms
        # Invariant: the heap holds each key of _buckets exactly once.
        self._buckets: dict[int, dict[TimerEntry, None]] = {}
        self._ticks: list[int] = []
        self._sweep_at = _SWEEP_FLOOR
        # Buckets whose tick has passed and whose entries wait for the next turn of the loop.
        self._due: deque[dict[TimerEntry, None]] = deque()
        # Invariant: while any bucket exists, a timer is set for the heap's first tick or earlier.
        self._timer: TimerHandle | None = None
        self._timer_tick = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values())) + sum(map(len, self._due))

    def add(self, entry: TimerEntry, delay_ms: float) -> None:
        """Schedule `entry` to expire no sooner than `delay_ms` milliseconds from now."""
        assert entry.bucket is None, "an entry is on the wheel once"
        tick = ceil((self._loop.time() + delay_ms / 1000.0) * self._ticks_per_second)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._open_bucket(tick)
        bucket[entry] = None
        entry.bucket = bucket

    def close(self) -> None:
        """Cancel every entry without expiring it, and cancel the loop's timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for bucket in (*self._buckets.values(), *self._due):
            for entry in list(bucket):
                entry.cancel()
        self._buckets.clear()
        self._ticks.clear()
        self._due.clear()

    def _open_bucket(self, tick: int) -> dict[TimerEntry, None]:
        if len(self._ticks) >= self._sweep_at:
            self._sweep()
        bucket: dict[TimerEntry, None] = {}
        self._buckets[tick] = bucket
        heappush(self._ticks, tick)
        if self._timer is None or tick < self._timer_tick:
            self._set_timer(tick)
        return bucket

    def _sweep(self) -> None:
        """Drop empty buckets. The heap has doubled since the last sweep, so this amortises."""
        self._buckets = {tick: bucket for tick, bucket in self._buckets.items() if bucket}
        self._ticks = list(self._buckets)
        heapify(self._ticks)
        self._sweep_at = max(_SWEEP_FLOOR, 2 * len(self._ticks))

    def _set_timer(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = tick
        self._timer = self._loop.call_at(tick / self._ticks_per_second, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        # The same expression as for call_at: otherwise rounding could leave a tick never due.
        while self._ticks and self._ticks[0] / self._ticks_per_second <= now:
            self._due.append(self._buckets.pop(heappop(self._ticks)))
        self._expire_due(EXPIRATIONS_PER_TURN)
        if self._due:
            self._set_timer(0)
        elif self._ticks:
            self._set_timer(self._ticks[0])

    def _expire_due(self, budget: int) -> None:
        while self._due:
            bucket = self._due[0]
            while bucket:
                if budget == 0:
                    return
                budget -= 1
                entry = next(iter(bucket))
                entry.cancel()
                entry.on_deadline()
            self._due.popleft()

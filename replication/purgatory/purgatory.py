"""The purgatory: where operations wait until they can complete or their time is up.

A produce with acks=all waits for the high watermark, a fetch for enough bytes, a remote fetch for
the object store. Each is a `DelayedOperation`, watched under the keys whose movement may complete
it (partitions, mostly); whoever moves one of them calls `check_and_complete(key)`
(Kafka's `DelayedOperationPurgatory`).

Rules it keeps:

- an operation completes exactly once: by its condition, by its deadline, or by force;
- `on_complete` runs in the very call that completed it, after it has left every watch list and
  the timer, so nothing remembers a finished operation (Kafka purges lazily; with one thread there
  is no race to allow for, and no list to sweep);
- the number of waiting operations is bounded: one more than the limit doesn't wait but expires on
  arrival, which is a legal answer for every operation (a short fetch, a timed-out produce).

Everything happens on the event loop's thread; nothing here blocks or awaits.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from .timer_wheel import TimerEntry, TimerLoop, TimerWheel


class DelayedOperation(TimerEntry):
    """One waiting operation. Subclasses give the condition, the answer, and what expiry adds."""

    __slots__ = ("delay_ms", "is_completed", "keys", "place")

    def __init__(self, delay_ms: float) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.is_completed = False
        # Where it waits and for what; the purgatory's to set, empty before and after waiting.
        self.place: WaitingPlace | None = None
        self.keys: Sequence[Hashable] = ()

    def try_complete(self) -> bool:
        """Complete by `force_complete` if the condition holds; whether it is complete now."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Give the answer. Called once, whatever the reason."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called before `on_complete` when the deadline was the reason; for metrics."""

    def force_complete(self) -> bool:
        """Complete unless that has happened already. True for the one call that did it."""
        if self.is_completed:
            return False
        self.is_completed = True
        self._stop_waiting()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete because time is up."""
        if self.is_completed:
            return
        self.is_completed = True
        if self.place is not None:
            self.place.expired_total += 1
        self._stop_waiting()
        self.on_expiration()
        self.on_complete()

    def on_deadline(self) -> None:
        self.expire()

    def _stop_waiting(self) -> None:
        place = self.place
        if place is not None:
            self.place = None
            self.cancel()
            place.leave(self)


class WaitingPlace:
    """The watch lists: which operations wait for which key, and how many wait at all."""

    __slots__ = ("count", "expired_total", "watchers")

    def __init__(self) -> None:
        self.count = 0
        self.expired_total = 0
        # Invariant: no list is empty, and none holds a completed operation.
        self.watchers: dict[Hashable, dict[DelayedOperation, None]] = {}

    def enter(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        operation.place = self
        operation.keys = keys
        self.count += 1
        watchers = self.watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is None:
                waiting = watchers[key] = {}
            waiting[operation] = None

    def leave(self, operation: DelayedOperation) -> None:
        self.count -= 1
        watchers = self.watchers
        for key in operation.keys:
            waiting = watchers.get(key)
            # One operation may name a key twice; the first removal was enough.
            if waiting is not None:
                waiting.pop(operation, None)
                if not waiting:
                    del watchers[key]
        operation.keys = ()


OperationT = TypeVar("OperationT", bound=DelayedOperation)


class Purgatory(Generic[OperationT]):
    """All waiting operations of one kind, by what they wait for."""

    def __init__(self, name: str, loop: TimerLoop, operations_max: int = 100_000) -> None:
        self.name = name
        self.operations_max = operations_max
        self._wheel = TimerWheel(loop)
        self._place = WaitingPlace()

    def __len__(self) -> int:
        """How many operations wait (Kafka's metric NumDelayedOperations)."""
        return self._place.count

    @property
    def watched(self) -> int:
        """How often they are watched: once for each key (Kafka's metric PurgatorySize)."""
        return sum(map(len, self._place.watchers.values()))

    @property
    def expired_total(self) -> int:
        """How many operations have run out of time since the start."""
        return self._place.expired_total

    def is_watched(self, key: Hashable) -> bool:
        """Whether anything waits for `key`; the cheap question before `check_and_complete`."""
        return key in self._place.watchers

    def try_complete_else_watch(self, operation: OperationT, keys: Sequence[Hashable]) -> bool:
        """Complete at once if the condition holds; else wait for the keys and the deadline.

        Returns whether the operation is complete. With no time or no room it expires on the spot.
        """
        if operation.try_complete():
            return True
        if operation.delay_ms <= 0 or self._place.count >= self.operations_max:
            self._place.expired_total += 1
            operation.expire()
            return True
        self._place.enter(operation, keys)
        self._wheel.add(operation, operation.delay_ms)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Something about `key` has moved: try all that wait for it. How many completed."""
        waiting = self._place.watchers.get(key)
        if waiting is None:
            return 0
        completed = 0
        # A copy, because completing leaves the list and may start operations that enter it.
        for operation in list(waiting):
            if not operation.is_completed and operation.try_complete():
                completed += 1
        return completed

    def shutdown(self) -> None:
        """Expire everything that waits: the process is stopping."""
        while self._place.watchers:
            waiting = next(iter(self._place.watchers.values()))
            next(iter(waiting)).expire()
        self._wheel.close()

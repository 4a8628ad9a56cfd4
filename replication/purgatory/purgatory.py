"""The purgatory holds delayed operations until they complete or time out.

A produce with acks=all waits for the high watermark, a fetch for enough bytes, a remote fetch for
the object store. Each is a `DelayedOperation`, watched under keys (mostly partitions); code that
changes the state of a key calls `check_and_complete(key)`, which may complete the operation
(Kafka's `DelayedOperationPurgatory`).

Rules:

- an operation completes exactly once: by its condition, by its deadline, or by force;
- `on_complete` runs in the call that completes the operation, after it has left every watch list
  and the timer, so nothing refers to a finished operation (Kafka purges lazily; with one thread
  there are no races, and no lists to sweep);
- the number of waiting operations is limited: an operation above the limit expires immediately,
  which is a valid outcome for every operation (a short fetch, a timed-out produce).

Everything happens on the event loop's thread; nothing here blocks or awaits.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from .timer_wheel import TimerEntry, TimerLoop, TimerWheel

OPERATIONS_MAX = 100_000
"""How many operations of one kind may wait."""


class DelayedOperation(TimerEntry):
    """One waiting operation. Subclasses define its condition, completion and expiration."""

    __slots__ = ("delay_ms", "is_completed", "keys", "place", "repeats_keys")

    def __init__(self, delay_ms: float) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.is_completed = False
        # The watch lists and keys it waits on; set by the purgatory, empty unless waiting.
        self.place: WaitingPlace | None = None
        self.keys: Sequence[Hashable] = ()
        # Whether a key is among them more than once.
        self.repeats_keys = False

    def try_complete(self) -> bool:
        """Call `force_complete` if the condition holds; returns whether it is complete now."""
        raise NotImplementedError

    def try_complete_for(self, key: Hashable, place: int) -> bool:
        """The same after the state of one of `keys` has changed; that of the others has not.

        `place` is where the key is among the keys, for the first time.
        """
        return self.try_complete()

    def on_complete(self) -> None:
        """Send the response. Called once, however the operation completed."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called before `on_complete` if the deadline passed, to set errors and count timeouts."""

    def force_complete(self) -> bool:
        """Complete the operation. Returns False if it was already complete."""
        if self.is_completed:
            return False
        self.is_completed = True
        self._stop_waiting()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete the operation because its deadline has passed."""
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
    """The watch lists: the operations waiting on each key, and the total number waiting."""

    __slots__ = ("count", "expired_total", "watchers")

    def __init__(self) -> None:
        self.count = 0
        self.expired_total = 0
        # Each with the place of the key among those of the operation.
        # Invariant: no list is empty, and none holds a completed operation.
        self.watchers: dict[Hashable, dict[DelayedOperation, int]] = {}

    def enter(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        operation.place = self
        operation.keys = keys
        self.count += 1
        watchers = self.watchers
        for place, key in enumerate(keys):
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: place}
            elif operation in waiting:
                operation.repeats_keys = True
            else:
                waiting[operation] = place

    def leave(self, operation: DelayedOperation) -> None:
        self.count -= 1
        watchers = self.watchers
        for key in operation.keys:
            waiting = watchers.get(key)
            # An operation may list a key twice; the first removal was enough.
            if waiting is not None:
                waiting.pop(operation, None)
                if not waiting:
                    del watchers[key]
        operation.keys = ()


OperationT = TypeVar("OperationT", bound=DelayedOperation)


class Purgatory(Generic[OperationT]):
    """All waiting operations of one kind, by key."""

    def __init__(self, name: str, loop: TimerLoop, operations_max: int = OPERATIONS_MAX) -> None:
        self.name = name
        self.operations_max = operations_max
        self._wheel = TimerWheel(loop)
        self._place = WaitingPlace()

    def __len__(self) -> int:
        """The number of waiting operations (Kafka's metric NumDelayedOperations)."""
        return self._place.count

    @property
    def watched(self) -> int:
        """The number of watch list entries, one for each key (Kafka's metric PurgatorySize)."""
        return sum(map(len, self._place.watchers.values()))

    @property
    def expired_total(self) -> int:
        """The number of expired operations since the start."""
        return self._place.expired_total

    def is_watched(self, key: Hashable) -> bool:
        """Whether any operation waits on `key`; a cheap check before `check_and_complete`."""
        return key in self._place.watchers

    def try_complete_else_watch(self, operation: OperationT, keys: Sequence[Hashable]) -> bool:
        """Complete at once if the condition holds; else watch the keys and the deadline.

        Returns whether the operation is complete. It expires at once if its delay is zero or the
        purgatory is full.
        """
        return operation.try_complete() or self.watch(operation, keys)

    def watch(self, operation: OperationT, keys: Sequence[Hashable]) -> bool:
        """The same for an operation whose condition does not hold, or is still to be looked at."""
        if operation.delay_ms <= 0 or self._place.count >= self.operations_max:
            self._place.expired_total += 1
            operation.expire()
            return True
        self._place.enter(operation, keys)
        self._wheel.add(operation, operation.delay_ms)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try all operations waiting on `key`; returns how many completed."""
        waiting = self._place.watchers.get(key)
        if waiting is None:
            return 0
        completed = 0
        # Iterate over a copy: completing removes entries, and may add new ones.
        for operation, place in list(waiting.items()):
            if not operation.is_completed and operation.try_complete_for(key, place):
                completed += 1
        return completed

    def shutdown(self) -> None:
        """Expire all waiting operations, as the process stops."""
        while self._place.watchers:
            waiting = next(iter(self._place.watchers.values()))
            next(iter(waiting)).expire()
        self._wheel.close()

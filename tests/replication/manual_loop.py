"""A clock and its timers, moved by hand: what the timer wheel needs of an event loop."""

from collections.abc import Callable


class ManualTimer:
    """One timer of a `ManualLoop`."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualLoop:
    """Time stands still until `advance` moves it, and then every due timer fires in turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[ManualTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> ManualTimer:
        timer = ManualTimer(when, callback)
        self.timers.append(timer)
        return timer

    @property
    def pending(self) -> list[ManualTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled]

    def advance(self, milliseconds: float) -> None:
        """Move time on, firing what becomes due at the moment it is due."""
        end = self.now + milliseconds / 1000
        while True:
            due = [timer for timer in self.pending if timer.when <= end]
            if not due:
                break
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
        self.now = end

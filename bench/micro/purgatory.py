"""What waiting costs: `python -m tierlog.bench.micro.purgatory`.

Adding, completing and expiring delayed operations with many others waiting, against one loop timer
each. CPU time of this process, best of five rounds.
"""

import asyncio
from collections.abc import Callable
from time import process_time

from ...replication.purgatory import DelayedOperation, Purgatory
from ...replication.timer_wheel import TimerEntry, TimerWheel

ROUNDS = 5
OPERATIONS = 10_000


class Waiting(DelayedOperation):
    """Never completes by itself."""

    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Nobody waits for the answer."""


def cpu_us(work: Callable[[], object]) -> float:
    """Microseconds of CPU for one of `OPERATIONS` done by `work`."""
    started = process_time()
    work()
    return (process_time() - started) / OPERATIONS * 1e6


def wheel_round(loop: asyncio.AbstractEventLoop) -> tuple[float, float]:
    wheel = TimerWheel(loop)
    entries = [TimerEntry() for _ in range(OPERATIONS)]

    def add_all() -> None:
        for entry in entries:
            wheel.add(entry, 500)

    def cancel_all() -> None:
        for entry in entries:
            entry.cancel()

    add, cancel = cpu_us(add_all), cpu_us(cancel_all)
    wheel.close()
    return add, cancel


def purgatory_round(loop: asyncio.AbstractEventLoop) -> tuple[float, float]:
    purgatory: Purgatory[Waiting] = Purgatory("bench", loop)
    operations = [Waiting(500) for _ in range(OPERATIONS)]
    keys = [[index % 100] for index in range(OPERATIONS)]
    pairs = list(zip(operations, keys, strict=True))
    add = cpu_us(lambda: [purgatory.try_complete_else_watch(one, key) for one, key in pairs])
    complete = cpu_us(lambda: [one.force_complete() for one in operations])
    purgatory.shutdown()
    return add, complete


def loop_timer_round(loop: asyncio.AbstractEventLoop) -> tuple[float, float]:
    timers: list[asyncio.TimerHandle] = []

    def add_all() -> None:
        timers.extend(loop.call_later(0.5, int) for _ in range(OPERATIONS))

    def cancel_all() -> None:
        for timer in timers:
            timer.cancel()

    return cpu_us(add_all), cpu_us(cancel_all)


async def main() -> None:
    loop = asyncio.get_running_loop()
    print(f"{OPERATIONS} entries            add us    remove us")
    for name, work in (
        ("timer wheel", wheel_round),
        ("purgatory, one key", purgatory_round),
        ("loop timer each", loop_timer_round),
    ):
        rounds = [work(loop) for _ in range(ROUNDS)]
        add, remove = (min(column) for column in zip(*rounds, strict=True))
        print(f"{name:20} {add:12.2f} {remove:12.2f}")


if __name__ == "__main__":
    asyncio.run(main())

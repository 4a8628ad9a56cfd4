"""An event loop whose clock jumps: hours of timers run in milliseconds, the same way every time.

Callbacks run exactly as in asyncio. Only when nothing is ready does time pass, and then at once, to
the next timer. When there is no timer either, nobody can ever wake the waiting tasks: that is a
deadlock, and it is reported with the tasks that wait.

There is no input and no output here. The network is a `SimulatedNetwork` given to the loop, and
work for an executor runs on the loop itself after a delay drawn from the seed. Without a network,
opening a connection raises `RealWorldError`; descriptors, pipes, signals and processes are what
`BaseEventLoop` leaves out, and raise its NotImplementedError.
"""

import asyncio
import contextlib
import random
import socket
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple

from tierlog.tests.simulation.disk import PowerLoss

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


# Virtual time that cancelled tasks have for their clean-up.
CLEAN_UP_S = 600.0


class RealWorldError(Exception):
    """The code under simulation reached for the real world."""


class DeadlockError(Exception):
    """Nothing is ready, no timer is set: the tasks wait for ever."""


class TimeLimitError(Exception):
    """The story took more virtual time than it may."""


class Network(Protocol):
    """What the loop asks when code opens connections."""

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int
    ) -> asyncio.AbstractServer: ...

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class _Clock:
    """Stands where a loop keeps its selector: asked to wait, it moves the time instead."""

    def __init__(self, time_limit_s: float) -> None:
        self.now_s = 0.0
        self.time_limit_s = time_limit_s

    def select(self, timeout: float | None) -> list[NoReturn]:
        if timeout is None:
            raise DeadlockError(_describe_waiting())
        self.now_s += max(timeout, 0.0)
        if self.now_s > self.time_limit_s:
            raise TimeLimitError(f"{self.time_limit_s:g} s have passed.\n{_describe_waiting()}")
        return []


def _describe_waiting() -> str:
    lines = ["Waiting for ever:"]
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        stack = task.get_stack(limit=1)
        where = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "not begun"
        lines.append(f"  {task.get_name()} at {where}")
    return "\n".join(lines)


class SimulatedLoop(asyncio.base_events.BaseEventLoop):
    """See the module. `random` is the run's only source of chance: the same seed, the same run."""

    network: Network | None = None
    executor_delay_s_max = 0.005

    def __init__(self, seed: int = 0, time_limit_s: float = 24 * 3600) -> None:
        super().__init__()
        self.seed = seed
        self.random = random.Random(seed)
        self._selector = _Clock(time_limit_s)
        # Errors that asyncio would only log: in a simulation each one fails the run.
        self.unhandled: list[dict[str, Any]] = []
        self.set_exception_handler(self._remember)

    def _remember(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A process whose power went may have had callbacks under way: they end there.
        if not isinstance(context.get("exception"), PowerLoss):
            self.unhandled.append(context)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._selector.now_s

    def allow_time(self, seconds: float) -> None:
        """End the run with TimeLimitError `seconds` from now, whatever was allowed before."""
        self._selector.time_limit_s = self.time() + seconds

    def _process_events(self, event_list: list[NoReturn]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Called to wake a selector that sleeps in another thread; this one never sleeps."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` here, a little later, as if a thread had come round to it."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self.random.uniform(0, self.executor_delay_s_max), work)
        return future

    async def getaddrinfo(  # type: ignore[override]  # a host has a name here, and no family
        self, host: str, port: int, **options: object
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Names need no resolving: a host's name is its address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_server(  # type: ignore[override]  # the simulated network knows no socket options
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **options: object,
    ) -> asyncio.AbstractServer:
        """Listen on the simulated network."""
        if self.network is None or options.get("sock") or options.get("ssl"):
            raise RealWorldError("create_server without a simulated network, or on a real socket")
        return await self.network.create_server(protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]  # as above
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect on the simulated network; ConnectionRefusedError where nobody listens."""
        if self.network is None or options.get("sock") or options.get("ssl"):
            raise RealWorldError("create_connection without a simulated network")
        assert host is not None
        assert port is not None
        return await self.network.create_connection(protocol_factory, host, port)


@contextlib.contextmanager
def running(loop: SimulatedLoop) -> Generator[SimulatedLoop, None, None]:
    """Hand out a loop; afterwards cancel what is left, close it, and fail on unhandled errors."""
    try:
        yield loop
    finally:
        _cancel_all(loop)
        loop.close()
    if loop.unhandled:
        first = loop.unhandled[0]
        error = AssertionError(f"seed {loop.seed}: nobody handled: {first.get('message')}")
        raise error from first.get("exception")


def _cancel_all(loop: SimulatedLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    loop.allow_time(CLEAN_UP_S)
    waiter = loop.create_task(asyncio.wait(tasks))
    with contextlib.suppress(DeadlockError, TimeLimitError):
        loop.run_until_complete(waiter)


def simulate(
    story: Callable[[SimulatedLoop], Coroutine[Any, Any, T]],
    seed: int = 0,
    time_limit_s: float = 24 * 3600,
) -> T:
    """Run a story to its end on a fresh loop; whatever goes wrong names the seed."""
    loop = SimulatedLoop(seed, time_limit_s)
    return complete(loop, story(loop))


def complete(loop: SimulatedLoop, story: Coroutine[Any, Any, T]) -> T:
    """Run `story` to its end and close the loop; whatever goes wrong names the seed."""
    with running(loop):
        try:
            return loop.run_until_complete(story)
        except BaseException as error:
            error.add_note(f"simulated with seed {loop.seed}, at {loop.time():.6f} s")
            raise

"""Async tests: each runs in an event loop of its own, in a simulated one where it asks for `loop`.

    async def test_a_timer_fires(loop: SimulatedLoop) -> None: ...   # virtual time
    async def test_a_socket_is_closed() -> None: ...                 # a real loop, real time

The simulated loop is that of `simulation/loop.py`. A test that has no use for the loop itself asks
for it by `usefixtures("loop")`. The loop's seed is the test's `simulation_seed` or `seed`, if it
has one, and the mark `simulated(time_limit_s=...)` allows another time than a day.

What asyncio would only log fails the test, in either loop: an error in a callback, a task whose
exception nobody took, a task left behind that fails when it is cancelled.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar, cast

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop, complete

T = TypeVar("T")

DAY_S = 24 * 3600.0
_SEEDS = ("simulation_seed", "seed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "simulated(time_limit_s): how long an async test with `loop` may take there"
    )


@pytest.fixture
def loop(request: pytest.FixtureRequest) -> Generator[SimulatedLoop, None, None]:
    """The simulated loop that an async test runs in."""
    seeds = [name for name in _SEEDS if name in request.fixturenames]
    seed = int(request.getfixturevalue(seeds[0])) if seeds else 0
    own: pytest.Mark | None = request.node.get_closest_marker("simulated")
    time_limit_s = float(own.kwargs["time_limit_s"]) if own else DAY_S
    made = SimulatedLoop(seed, time_limit_s)
    yield made
    made.close()


class _Entered:
    """A context that is entered inside the test's loop, just before the test begins."""

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self.context = context


def entered(context: AbstractAsyncContextManager[T]) -> T:
    """What a fixture returns whose async test shall run inside `context`, in the same task.

    The test gets what the context gives, and so it is typed; other fixtures cannot use it.
    """
    return cast("T", _Entered(context))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test; leave others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    coroutine = _body(pyfuncitem)
    if "loop" in pyfuncitem.fixturenames:
        loop = pyfuncitem.funcargs["loop"]
        assert isinstance(loop, SimulatedLoop)
        complete(loop, coroutine)
    else:
        _run_in_a_real_loop(coroutine)
    return True


async def _body(item: pytest.Function) -> None:
    async with AsyncExitStack() as stack:
        arguments: dict[str, object] = {}
        for name in inspect.signature(item.obj).parameters:
            value = item.funcargs[name]
            if isinstance(value, _Entered):
                value = await stack.enter_async_context(value.context)
            arguments[name] = value
        await item.obj(**arguments)


def _run_in_a_real_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    unhandled: list[dict[str, Any]] = []

    def remember(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # In Python 3.11 streams take the cancellation of a connection's task for an error of it.
        if not isinstance(context.get("exception"), asyncio.CancelledError):
            unhandled.append(context)

    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(remember)
        runner.run(coroutine)
    if unhandled:
        error = AssertionError(f"nobody handled: {unhandled[0].get('message')}")
        raise error from unhandled[0].get("exception")

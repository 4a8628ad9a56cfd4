"""A thread with an event loop of its own: a broker in it serves while the test's thread waits."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar

from ..broker.metrics.log_lines import log_loop_exception
from ..clients.runtime.task_owner import TaskOwner
from .own_loop import OwnLoop

P = ParamSpec("P")
T = TypeVar("T")

BEGINS_WITHIN_S = 30.0
"""How long a new thread may take to run its loop."""
ENDS_WITHIN_S = 30.0
"""How long the loop may take to cancel what is left and to close."""
_MAY_BEGIN_S = 1.0
"""How long a thread whose start was interrupted is waited for: its loop may still begin."""


class _Moment:
    """Something that comes once, and that threads wait for.

    Ctrl-C may come while it waits, at any instruction. `threading.Event` and `Future.result` do not
    bear that: their condition may be left locked, or raise RuntimeError for it. A bare lock waits
    in one instruction.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._has_come = False

    def come(self) -> None:
        if self._has_come:
            return
        self._has_come = True
        self._lock.release()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has come, and say whether it has."""
        if not self._has_come and self._lock.acquire(timeout=timeout_s):
            # For others who wait; `_has_come` is what counts from now on.
            self._lock.release()
        return self._has_come


class _Work(Generic[T]):
    """A coroutine on the loop that another thread waits for."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._has_ended = _Moment()
        self._outcome = Future[T]()
        self._owner = TaskOwner(tasks_max=1)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """On the loop."""
        self._task = self._owner.start(self._run(), "what another thread waits for")
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """On the loop, whether it has begun or not."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self._outcome.set_result(await self._make())
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # The other thread raises it.
            self._outcome.set_exception(error)
            if not isinstance(error, Exception):
                raise

    def _end(self, _task: "asyncio.Task[None]") -> None:
        # Does nothing unless it was cancelled, be it before its first step.
        self._outcome.cancel()
        self._has_ended.come()

    def abandon(self) -> None:
        """When the loop has ended: nothing more comes of it."""
        self._outcome.cancel()
        self._has_ended.come()

    def wait(self, timeout_s: float) -> T:
        """In the other thread. Raises TimeoutError, and what the coroutine raises."""
        if not self._has_ended.wait(timeout_s):
            raise TimeoutError
        return self._outcome.result()


class LoopThread:
    """Runs coroutines for other threads, from `start` to `close`.

    The thread is a daemon: a broker that was never stopped does not keep the interpreter alive.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._is_started = False
        self._begun = _Moment()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way: set[_Work[Any]] = set()
        self.has_ended = False
        """Whether its loop has ended, with all that ran on it."""

    def start(self) -> None:
        """Start the thread; returns when its loop runs. Raises TimeoutError."""
        self._is_started = True
        try:
            self._thread.start()
        except RuntimeError as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                # Ctrl-C met the lock of `Thread.start` while that was not held.
                raise error.__context__ from None
            raise
        if not self._begun.wait(BEGINS_WITHIN_S):
            raise TimeoutError(f"The thread has no event loop after {BEGINS_WITHIN_S:.0f} s.")

    def _run(self) -> None:
        try:
            self._run_loop()
        finally:
            self.has_ended = True
            for work in list(self._under_way):
                work.abandon()

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=OwnLoop) as runner:
            loop = self._loop = runner.get_loop()
            loop.set_exception_handler(log_loop_exception)
            loop.call_soon(self._begun.come)
            loop.run_forever()

    @property
    def has_begun(self) -> bool:
        """Whether its loop runs, or has run; also of a thread whose start was interrupted."""
        return self._is_started and self._begun.wait(_MAY_BEGIN_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; `asyncio.wrap_future` lets another loop wait for it."""
        assert self._loop is not None, "The thread is not started."
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(
        self,
        timeout_s: float,
        act: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `act` on the loop and wait for it. Raises TimeoutError, and what it raises.

        Whatever ends the wait, Ctrl-C among it, cancels what runs. Raises CancelledError if the
        loop ends meanwhile, and RuntimeError if it has ended before.
        """
        assert self._loop is not None, "The thread is not started."
        work = _Work(lambda: act(*args, **kwargs))
        self._under_way.add(work)
        try:
            self._loop.call_soon_threadsafe(work.begin)
            return work.wait(timeout_s)
        except BaseException:
            # The loop may have ended, with all that ran on it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(work.cancel)
            raise
        finally:
            self._under_way.discard(work)

    def close(self) -> None:
        """Cancel what still runs, close the loop and end the thread. Raises TimeoutError."""
        if not self.has_begun:
            return
        assert self._loop is not None
        # It has ended already where that raises.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENDS_WITHIN_S)
        if self._thread.is_alive():
            raise TimeoutError(f"The thread has not ended after {ENDS_WITHIN_S:.0f} s.")

"""Threads wait for what runs on a loop in another one, and are told how it ended."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from tierlog.testing.loop_thread import LoopThread

WAIT_S = 60.0


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("tierlog-test")
    thread.start()
    try:
        yield thread
    finally:
        thread.close()


async def answer(number: int, *, plus: int = 0) -> int:
    await asyncio.sleep(0)
    return number + plus


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


def test_what_was_begun_returns_or_raises_in_the_thread_that_waits(thread: LoopThread) -> None:
    assert thread.run(WAIT_S, answer, 1, plus=2) == 3
    with pytest.raises(LookupError, match="broken"):
        thread.run(WAIT_S, fail, LookupError("broken"))
    assert thread.run(WAIT_S, answer, 4) == 4


def test_what_takes_too_long_is_cancelled(thread: LoopThread) -> None:
    ended = threading.Event()

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        thread.run(0.05, stay)
    assert ended.wait(WAIT_S)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_ends_the_loop_is_raised_to_the_waiting_thread_too() -> None:
    thread = LoopThread("tierlog-test")
    thread.start()
    with pytest.raises(SystemExit):
        thread.run(WAIT_S, fail, SystemExit(3))
    thread.close()


def test_whoever_waits_when_another_thread_closes_the_loop_waits_no_longer() -> None:
    thread = LoopThread("tierlog-test")
    thread.start()
    closer = threading.Thread(target=thread.close)

    async def stay() -> None:
        closer.start()
        await asyncio.Event().wait()

    with pytest.raises(CancelledError):
        thread.run(WAIT_S, stay)
    closer.join(WAIT_S)
    thread.close()


def test_several_threads_wait_at_the_same_time(thread: LoopThread) -> None:
    numbers: list[int] = []

    def wait(number: int) -> None:
        numbers.append(thread.run(WAIT_S, answer, number))

    waiting = [threading.Thread(target=wait, args=(number,)) for number in range(20)]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join(WAIT_S)
    assert sorted(numbers) == list(range(20))

"""Virtual time jumps, repeats itself, and knows when everyone waits for ever."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine

import pytest

from tierlog.tests.simulation.environment import EPOCH_MS, SimulatedEnvironment
from tierlog.tests.simulation.loop import (
    DeadlockError,
    RealWorldError,
    SimulatedLoop,
    TimeLimitError,
    simulate,
)


def test_an_hour_of_sleep_takes_no_time() -> None:
    async def story(loop: SimulatedLoop) -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert simulate(story) == pytest.approx(3600)


def test_timers_fire_in_the_order_of_their_time() -> None:
    async def story(_: SimulatedLoop) -> list[str]:
        seen: list[str] = []

        async def sleeper(name: str, delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            seen.append(name)

        await asyncio.gather(sleeper("c", 30), sleeper("a", 1), sleeper("b", 2))
        return seen

    assert simulate(story) == ["a", "b", "c"]


def test_a_timeout_fires_in_virtual_time() -> None:
    async def story(_: SimulatedLoop) -> None:
        async with asyncio.timeout(10):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        simulate(story)


def test_a_wait_that_nobody_can_end_is_a_deadlock_that_names_the_task() -> None:
    async def story(_: SimulatedLoop) -> None:
        asyncio.current_task().set_name("the one that waits")  # type: ignore[union-attr]  # inside a task
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="the one that waits at"):
        simulate(story)


def test_a_story_that_never_ends_hits_its_time_limit() -> None:
    async def story(_: SimulatedLoop) -> None:
        for _second in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitError):
        simulate(story, time_limit_s=100)


def test_a_failure_names_its_seed() -> None:
    async def story(_: SimulatedLoop) -> None:
        raise LookupError

    with pytest.raises(LookupError) as caught:
        simulate(story, seed=42)
    assert any("seed 42" in note for note in caught.value.__notes__)


def test_an_error_that_asyncio_would_only_log_fails_the_run() -> None:
    async def story(loop: SimulatedLoop) -> None:
        def broken() -> None:
            raise LookupError("nobody looks")

        loop.call_soon(broken)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="nobody handled"):
        simulate(story)


def test_executor_work_runs_here_and_later() -> None:
    async def story(loop: SimulatedLoop) -> tuple[bool, float]:
        thread = await loop.run_in_executor(None, threading.current_thread)
        return thread is threading.current_thread(), loop.time()

    is_same_thread, finished_s = simulate(story)
    assert is_same_thread
    assert finished_s > 0


def test_executor_work_may_fail() -> None:
    async def story(loop: SimulatedLoop) -> None:
        await loop.run_in_executor(None, int, "seven")

    with pytest.raises(ValueError, match="seven"):
        simulate(story)


async def _listen(loop: SimulatedLoop) -> None:
    await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)


async def _connect(loop: SimulatedLoop) -> None:
    await loop.create_connection(asyncio.Protocol, "127.0.0.1", 9092)


@pytest.mark.parametrize("reach_out", [_listen, _connect])
def test_the_real_world_is_out_of_reach(
    reach_out: Callable[[SimulatedLoop], Coroutine[None, None, None]],
) -> None:
    with pytest.raises(RealWorldError):
        simulate(reach_out)


def test_a_descriptor_cannot_be_watched() -> None:
    async def story(loop: SimulatedLoop) -> None:
        loop.add_reader(0, int)

    with pytest.raises(NotImplementedError):
        simulate(story)


def _trace(seed: int) -> list[tuple[str, float, int, bytes]]:
    async def story(loop: SimulatedLoop) -> list[tuple[str, float, int, bytes]]:
        environment = SimulatedEnvironment(loop, "broker-1")
        trace: list[tuple[str, float, int, bytes]] = []

        async def worker(name: str) -> None:
            for _ in range(20):
                await asyncio.sleep(loop.random.random())
                await loop.run_in_executor(None, int)
                uuid = environment.random_uuid()
                trace.append((name, loop.time(), environment.wall_clock_ms(), uuid))

        await asyncio.gather(*(worker(name) for name in "abc"))
        return trace

    return simulate(story, seed)


def test_the_same_seed_is_the_same_run_and_another_seed_another() -> None:
    assert _trace(7) == _trace(7)
    assert _trace(7) != _trace(8)


async def test_the_wall_clock_follows_virtual_time_and_its_own_skew(loop: SimulatedLoop) -> None:
    environment = SimulatedEnvironment(loop, clock_skew_ms=-250)
    await asyncio.sleep(2)
    assert environment.wall_clock_ms() == EPOCH_MS + 2000 - 250
    assert len(environment.random_uuid()) == 16


async def test_two_processes_draw_different_chances_from_one_seed(loop: SimulatedLoop) -> None:
    one, other = SimulatedEnvironment(loop, "1"), SimulatedEnvironment(loop, "2")
    assert one.random_uuid() != other.random_uuid()

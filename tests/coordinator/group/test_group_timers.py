"""Timers that move cheaply and run out once."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from tierlog.coordinator.group.group_timers import GroupTimers
from tierlog.coordinator.group_actions import TimerKey, TimerKind
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

KEY = TimerKey("group", TimerKind.SESSION, "anna")
OTHER = TimerKey("group", TimerKind.SESSION, "lena")


async def test_a_timer_runs_out_once_when_its_time_has_come(loop: SimulatedLoop) -> None:
    expired: list[tuple[TimerKey, float]] = []
    timers = GroupTimers(lambda key: expired.append((key, loop.time())))
    start = loop.time()
    timers.set(KEY, 3_000)
    timers.set(OTHER, 1_000)
    await asyncio.sleep(10)
    assert [(key, round(at - start, 3)) for key, at in expired] == [(OTHER, 1), (KEY, 3)]
    assert len(timers) == 0


# Delays are odd and pauses are even, so that no timer is due at the moment it is moved.
DELAYS = st.integers(0, 2_500).map(lambda number: 2 * number + 1)
PAUSES = st.integers(0, 2_500).map(lambda number: 2 * number)


@given(st.lists(st.tuples(DELAYS, PAUSES), min_size=1, max_size=20))
def test_a_timer_that_is_moved_runs_out_at_its_last_time(moves: list[tuple[int, int]]) -> None:
    async def story(loop: SimulatedLoop) -> None:
        expired: list[float] = []
        timers = GroupTimers(lambda key: expired.append(loop.time()))
        deadline = float("inf")
        expected: list[float] = []
        for delay_ms, pause_ms in moves:
            timers.set(KEY, delay_ms)
            deadline = loop.time() + delay_ms / 1000
            await asyncio.sleep(pause_ms / 1000)
            if deadline < loop.time():
                expected.append(deadline)
                deadline = float("inf")
        await asyncio.sleep(10)
        if deadline != float("inf"):
            expected.append(deadline)
        assert [round(at, 3) for at in expired] == [round(at, 3) for at in expected]

    simulate(story)


@pytest.mark.usefixtures("loop")
async def test_a_cancelled_timer_never_runs_out() -> None:
    expired: list[TimerKey] = []
    timers = GroupTimers(expired.append)
    timers.set(KEY, 1_000)
    timers.set(OTHER, 1_000)
    timers.cancel(KEY)
    timers.cancel(KEY)
    await asyncio.sleep(2)
    assert expired == [OTHER]
    timers.set(KEY, 1_000)
    timers.close()
    await asyncio.sleep(2)
    assert expired == [OTHER]

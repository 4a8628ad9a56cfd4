"""Loads that are shared, outlive those who wait, and fail only for those who wait."""

import asyncio

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tiering.reading.single_flight import SingleFlight


def test_many_ask_and_one_load_answers() -> None:
    async def story(_: SimulatedLoop) -> None:
        flights: SingleFlight[str, int] = SingleFlight(10)
        loads = 0

        async def loader() -> int:
            nonlocal loads
            loads += 1
            await asyncio.sleep(1)
            return 42

        answers = await asyncio.gather(*(flights.load("key", loader) for _ in range(5)))
        assert (answers, loads, len(flights)) == ([42] * 5, 1, 0)
        await flights.stop()

    simulate(story)


def test_who_gives_up_does_not_cancel_the_load() -> None:
    async def story(_: SimulatedLoop) -> None:
        flights: SingleFlight[str, str] = SingleFlight(10)
        done: list[str] = []

        async def loader() -> str:
            await asyncio.sleep(5)
            done.append("hydrated")
            return "value"

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await flights.load("key", loader)
        await asyncio.sleep(5)
        assert done == ["hydrated"]
        await flights.stop()

    simulate(story)


def test_a_failure_is_told_to_all_who_wait_and_then_forgotten() -> None:
    async def story(_: SimulatedLoop) -> None:
        flights: SingleFlight[str, int] = SingleFlight(10)

        async def failing() -> int:
            await asyncio.sleep(1)
            raise ValueError("no")

        async def working() -> int:
            return 1

        told = await asyncio.gather(
            *(flights.load("key", failing) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in told] == [ValueError] * 3
        assert await flights.load("key", working) == 1
        flights.begin("prefetch", failing)
        await asyncio.sleep(2)
        await flights.stop()

    simulate(story)


def test_stopping_ends_those_who_wait() -> None:
    async def story(_: SimulatedLoop) -> None:
        flights: SingleFlight[str, int] = SingleFlight(10)

        async def loader() -> int:
            await asyncio.sleep(1000)
            return 1

        flight = flights.begin("key", loader)
        await flights.stop()
        assert flight.cancelled()

    simulate(story)

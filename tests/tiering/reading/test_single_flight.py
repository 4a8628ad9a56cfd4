"""Loads that are shared, outlive those who wait, and fail only for those who wait."""

import asyncio

import pytest

from tierlog.tiering.reading.single_flight import SingleFlight

pytestmark = pytest.mark.usefixtures("loop")


async def test_many_ask_and_one_load_answers() -> None:
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


async def test_who_gives_up_does_not_cancel_the_load() -> None:
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


async def test_a_failure_reaches_all_waiters_and_is_then_forgotten() -> None:
    flights: SingleFlight[str, int] = SingleFlight(10)

    async def failing() -> int:
        await asyncio.sleep(1)
        raise ValueError("no")

    async def working() -> int:
        return 1

    results = await asyncio.gather(
        *(flights.load("key", failing) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in results] == [ValueError] * 3
    assert await flights.load("key", working) == 1
    flights.begin("prefetch", failing)
    await asyncio.sleep(2)
    await flights.stop()


async def test_stopping_ends_those_who_wait() -> None:
    flights: SingleFlight[str, int] = SingleFlight(10)

    async def loader() -> int:
        await asyncio.sleep(1000)
        return 1

    flight = flights.begin("key", loader)
    await flights.stop()
    assert flight.cancelled()

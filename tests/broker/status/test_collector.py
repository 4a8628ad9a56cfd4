"""Collecting an answer takes little of the event loop's time, whatever clients ask for."""

import asyncio
from collections.abc import Generator
from functools import partial

import pytest

from tierlog.broker.network.http_endpoint import Answer
from tierlog.broker.network.http_message import Response, plain
from tierlog.broker.status.collector import (
    AHEAD_S,
    SHARE,
    SLICE_S,
    Allowance,
    Collector,
    Key,
    in_slices,
)


def counted(turns: list[str]) -> Generator[None, None, str]:
    """Steps that wait until another task has had its turn, which it gets between slices."""
    while "other" not in turns:
        yield
    return "done"


async def test_other_tasks_get_their_turn_between_slices() -> None:
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "other")
    async with asyncio.timeout(20):
        sliced = await in_slices(counted(turns))
    assert (sliced.result, sliced.busy_s >= SLICE_S) == ("done", True)


def test_what_is_collected_rests_until_its_share_allows_it() -> None:
    allowance = Allowance()
    allowance.spend(AHEAD_S, now=100.0)
    assert allowance.wait_s(100.0) == 0
    allowance.spend(0.010, now=100.0)
    assert allowance.wait_s(100.0) == pytest.approx(0.010 / SHARE)
    assert allowance.wait_s(100.0 + 0.010 / SHARE) == pytest.approx(0, abs=1e-9)
    # What was not used long ago is not saved up without end.
    allowance.spend(AHEAD_S + 0.010, now=1e6)
    assert allowance.wait_s(1e6) == pytest.approx(0.010 / SHARE)


def held(log: list[str], name: str, gate: list[bool]) -> Generator[None, None, Response]:
    """Steps that go on once the gate is open, and note when they begin and end."""
    log.append(f"{name} begins")
    while not gate:
        yield
    log.append(f"{name} ends")
    return plain(200, name)


async def test_different_answers_are_collected_one_after_another_and_equal_ones_once() -> None:
    log: list[str] = []
    gate: list[bool] = []
    begun = asyncio.Event()

    def asked(collector: Collector, key: Key) -> Answer:
        def making() -> Generator[None, None, Response]:
            begun.set()
            return held(log, str(key[0]), gate)

        return collector.answer(key, making, 60)

    collector = Collector()
    pending = [asked(collector, (name,)) for name in "aabbc"]
    await begun.wait()
    await asyncio.sleep(0)
    assert log == ["a begins"]
    gate.append(True)
    async with asyncio.timeout(20):
        answers = [each if isinstance(each, Response) else await each for each in pending]
    assert [each.body for each in answers] == [b"a\n", b"a\n", b"b\n", b"b\n", b"c\n"]
    assert log == [f"{name} {word}" for name in "abc" for word in ("begins", "ends")]
    again = asked(collector, ("a",))
    assert isinstance(again, Response)
    await collector.stop()
    late = asked(collector, ("a",))
    assert isinstance(late, Response)
    assert late.status == 503


async def test_too_many_different_questions_at_once_are_refused() -> None:
    gate: list[bool] = []
    collector = Collector()
    answers = [
        collector.answer((number,), partial(held, [], "x", gate), 60) for number in range(20)
    ]
    refused = [each.status for each in answers if isinstance(each, Response)]
    assert refused == [503] * 12
    await collector.stop()


def counted_up(made: list[int], busy_s: float) -> Generator[None, None, Response]:
    """An answer that says how many were made before, and takes so much processor time."""
    made.append(len(made))
    until = asyncio.get_running_loop().time() + busy_s
    while asyncio.get_running_loop().time() < until:
        yield
    return plain(200, str(made[-1]))


async def test_an_answer_is_shared_only_once_collecting_is_beyond_its_share() -> None:
    """Who asks a quiet broker twice sees what has changed since, however soon."""
    made: list[int] = []
    collector = Collector()

    async def asked(busy_s: float) -> bytes:
        answer = collector.answer(("metrics",), partial(counted_up, made, busy_s), 0)
        return (answer if isinstance(answer, Response) else await answer).body

    async with asyncio.timeout(60):
        answers = [await asked(0), await asked(0)]
        assert answers == [b"0\n", b"1\n"]
        while len(set(answers)) == len(answers):
            answers.append(await asked(0.02))
    await collector.stop()

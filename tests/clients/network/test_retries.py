"""Attempts are repeated while the failure may pass and there is time for another one."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.retries import retry_until
from tierlog.tests.simulation.loop import SimulatedLoop

PASSES = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "It moves.")
STAYS = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "It is not yours.")
MISSING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is none yet.")


pytestmark = pytest.mark.simulated(time_limit_s=600)


def attempts(answers: Iterator[KafkaError | str]) -> Callable[[], Coroutine[Any, Any, str]]:
    async def attempt() -> str:
        answer = next(answers)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    return attempt


async def test_what_passes_is_tried_again_after_pauses_that_grow_to_a_second(
    loop: SimulatedLoop,
) -> None:
    answers: list[KafkaError | str] = [PASSES] * 8
    asked: list[float] = []

    async def attempt() -> str:
        asked.append(loop.time())
        return await attempts(iter([answers.pop(0) if answers else "done"]))()

    assert await retry_until(attempt, loop.time() + 60, Random(1)) == "done"
    pauses = [after - before for before, after in pairwise(asked)]
    for pause, planned in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True):
        assert pause == pytest.approx(planned, rel=0.21)


@pytest.mark.parametrize("error", [STAYS, MISSING], ids=["for good", "for this caller"])
async def test_what_does_not_pass_is_raised_at_once_and_counts_as_no_failure(
    loop: SimulatedLoop, error: KafkaError
) -> None:
    failures: list[None] = []
    began = loop.time()
    with pytest.raises(KafkaError) as refusal:
        await retry_until(
            attempts(iter([error, "never"])),
            loop.time() + 60,
            Random(1),
            on_failure=lambda: failures.append(None),
            except_for=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    assert refusal.value is error
    assert (loop.time(), failures) == (began, [])


async def test_the_last_failure_is_reported_before_it_is_raised_and_no_attempt_begins_too_late(
    loop: SimulatedLoop,
) -> None:
    failures: list[float] = []
    deadline = loop.time() + 1.9
    with pytest.raises(KafkaError) as refusal:
        await retry_until(
            attempts(iter([PASSES] * 9)),
            deadline,
            Random(1),
            on_failure=lambda: failures.append(loop.time()),
        )
    assert refusal.value is PASSES
    assert failures[-1] <= deadline
    assert len(failures) == 5


async def test_who_is_cancelled_in_a_pause_asks_no_more(loop: SimulatedLoop) -> None:
    asked: list[float] = []

    async def attempt() -> None:
        asked.append(loop.time())
        raise PASSES

    asking = asyncio.ensure_future(retry_until(attempt, loop.time() + 60, Random(1)))
    await asyncio.sleep(0.2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    count = len(asked)
    await asyncio.sleep(5)
    assert len(asked) == count


async def test_the_deadline_ends_an_attempt_that_is_under_way(loop: SimulatedLoop) -> None:
    failures: list[float] = []
    attempts_left = [PASSES]

    async def attempt() -> None:
        if attempts_left:
            raise attempts_left.pop()
        await asyncio.sleep(1_000)

    began = loop.time()
    with pytest.raises(KafkaError, match=r"not answered within 5 s\. Before: It moves") as late:
        await retry_until(
            attempt, began + 5, Random(1), on_failure=lambda: failures.append(loop.time())
        )
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert failures == [began, began + 5]

"""How long a broker tries to add partitions to a transaction, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.transaction.addition_retry import AdditionRetry, with_retries
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

E = ErrorCode
RETRY = AdditionRetry(backoff_ms=20, max_ms=100)
Answer = ErrorCode | Coroutine[object, object, ErrorCode]


def ends_after(loop: SimulatedLoop, ending_ms: float, answer_ms: float) -> Callable[[], Answer]:
    """A coordinator whose transaction ends at that time; it answers after `answer_ms`."""

    def answer() -> ErrorCode:
        is_ending = loop.time() * 1_000 < ending_ms
        return E.CONCURRENT_TRANSACTIONS if is_ending else E.NONE

    async def later() -> ErrorCode:
        await asyncio.sleep(answer_ms / 1_000)
        return answer()

    return answer if answer_ms == 0 else later


def tried(ending_ms: float, answer_ms: float = 0, retry: AdditionRetry = RETRY) -> tuple[E, float]:
    """The last error, and the milliseconds that the client has waited for it."""

    async def story(loop: SimulatedLoop) -> tuple[E, float]:
        began_s = loop.time()
        coordinator = ends_after(loop, began_s * 1_000 + ending_ms, answer_ms)
        outcome = with_retries(coordinator, lambda error: [error], retry)
        error = await outcome if isinstance(outcome, Coroutine) else outcome
        return error, round((loop.time() - began_s) * 1_000, 3)

    return simulate(story)


def test_nobody_waits_where_nothing_is_ending() -> None:
    assert tried(0) == (E.NONE, 0)
    assert tried(0, answer_ms=7) == (E.NONE, 7)


@pytest.mark.parametrize(("ending_ms", "waited_ms"), [(1, 20), (21, 40), (99, 100)])
def test_it_is_tried_again_until_the_markers_are_written(ending_ms: int, waited_ms: int) -> None:
    assert tried(ending_ms) == (E.NONE, waited_ms)


def test_a_caller_that_waits_in_vain_gets_a_timeout() -> None:
    assert tried(101) == (E.CONCURRENT_TRANSACTIONS, RETRY.max_ms)


def test_the_time_that_answers_take_counts() -> None:
    assert tried(5_000, answer_ms=45) == (E.CONCURRENT_TRANSACTIONS, 110)
    assert tried(5_000, answer_ms=200) == (E.CONCURRENT_TRANSACTIONS, 200)


def test_without_time_for_it_the_first_answer_is_the_last() -> None:
    assert tried(5_000, retry=AdditionRetry(20, 0)) == (E.CONCURRENT_TRANSACTIONS, 0)


@pytest.mark.parametrize("error", [E.PRODUCER_FENCED, E.NOT_COORDINATOR, E.INVALID_TXN_STATE])
def test_other_errors_are_not_tried_again(error: ErrorCode) -> None:
    def refuse() -> ErrorCode:
        return error

    assert with_retries(refuse, lambda one: [one], RETRY) is error

"""Pacing: a client that pauses when its queue is full gets more, and every other one no less."""

import random

import pytest
from hypothesis import example, given, settings, strategies as st

from tierlog.broker.dispatch.fetch_pacing import PAUSE_S, SMALL_BYTES, FetchPacing, PacingState

from .fetching_clients import PROCESSED_BYTES, batching, hesitating, processing, queueing

_NETWORK = 290e6
"""Measured: a broker and librdkafka's own thread, 100 B records, two cores."""
_MIB = 1 << 20


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("application", [220e6, 150e6, 100e6, 70e6, 50e6, 30e6])
def test_a_client_that_pauses_when_its_queue_is_full_gets_far_more(
    application: float, seed: int
) -> None:
    paced = queueing(application, _NETWORK, 30, is_paced=True, seed=seed)
    unpaced = queueing(application, _NETWORK, 30, is_paced=False, seed=seed)
    assert paced.bytes_a_second > 0.6 * application
    assert paced.bytes_a_second > 1.8 * unpaced.bytes_a_second
    assert paced.pauses < unpaced.pauses / 5


@pytest.mark.parametrize("application", [200e6, 100e6, 20e6])
def test_six_partitions_a_response_are_paced_as_well(application: float) -> None:
    size = 6 * _MIB
    paced = queueing(application, _NETWORK, 20, is_paced=True, response_bytes=size)
    unpaced = queueing(application, _NETWORK, 20, is_paced=False, response_bytes=size)
    assert paced.bytes_a_second > 1.2 * unpaced.bytes_a_second


def test_an_application_that_is_slower_than_its_queue_is_left_alone() -> None:
    # The queue never runs empty in the second of the pause, so there is nothing to gain.
    paced = queueing(5e6, _NETWORK, 60, is_paced=True)
    unpaced = queueing(5e6, _NETWORK, 60, is_paced=False)
    assert paced.bytes_a_second >= 0.98 * unpaced.bytes_a_second
    assert paced.states[-1] is PacingState.RESTING


@given(
    application=st.floats(10e6, 2e9),
    stall_every=st.integers(0, 1000),
    stall_s=st.floats(0, 3) | st.floats(0.9, 1.3),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_a_client_that_fetches_when_it_has_processed_loses_next_to_nothing(
    application: float, stall_every: int, stall_s: float, seed: int
) -> None:
    runs = [
        processing(
            application,
            2e9,
            1_000,
            is_paced=is_paced,
            stall_every=stall_every,
            stall_s=stall_s,
            seed=seed,
        )
        for is_paced in (True, False)
    ]
    paced, unpaced = runs
    # A trial costs some seconds at most, and the next one follows after minutes.
    nbytes = 1_000 * PROCESSED_BYTES
    seconds = [nbytes / run.bytes_a_second for run in (paced, unpaced)]
    assert seconds[0] <= 1.02 * seconds[1] + 3


def test_a_client_that_has_caught_up_may_pause() -> None:
    pacing = FetchPacing()
    now = 0.0
    for _ in range(20):
        for nbytes in (2 * _MIB, 2 * _MIB, 2 * _MIB, SMALL_BYTES - 1):
            pacing.requested(now)
            now += 0.001
            assert pacing.responded(now - 0.001, now, nbytes) == 0
        now += 1
    assert pacing.state is PacingState.FREE


def test_one_response_and_a_pause_are_how_a_slow_client_fetches() -> None:
    pacing = FetchPacing()
    now = 0.0
    for _ in range(20):
        pacing.requested(now)
        assert pacing.responded(now, now + 0.001, _MIB) == 0
        now += 1
    assert pacing.state is PacingState.FREE


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.0, 0.0, 1.0, 1.0, 1e6]) | st.floats(0, 2),
            st.sampled_from([0.0, 0.01]) | st.floats(0, 4),
            st.sampled_from([0, _MIB, 3 * _MIB]) | st.integers(0, 1 << 31),
        ),
        max_size=200,
    )
)
@example([*[(0.0, 0.0, 3 * _MIB)] * 5, *[(1.0, 0.0, 3 * _MIB), (0.0, 0.0, 3 * _MIB)] * 9])
@example([*[(0.0, 0.01, 3 * _MIB)] * 5, (1.0, 0.0, _MIB), *[(0.0, 0.01, 3 * _MIB)] * 190])
def test_no_wait_looks_like_a_pause_whatever_the_client_does(
    steps: list[tuple[float, float, int]],
) -> None:
    pacing = FetchPacing()
    now = 0.0
    for idle_s, busy_s, nbytes in steps:
        now += idle_s
        pacing.requested(now)
        wait_s = pacing.responded(now, now + busy_s, nbytes)
        now += busy_s
        assert 0 <= wait_s < PAUSE_S
        assert not wait_s or pacing.state is PacingState.PACED
        now += wait_s


def test_a_client_whose_pause_was_its_last_is_soon_as_fast_as_before() -> None:
    """Someone stops the application for a second, once, just after it began to read."""
    pattern = [(0.5, 1.0), (18.0, 0.0)]
    run = hesitating(500e6, pattern, 19, is_paced=True)
    free = hesitating(500e6, pattern, 19, is_paced=False)
    assert 100 < len([wait_s for wait_s in run.waits if wait_s]) < 3_000
    assert not any(run.waits[-5_000:])
    assert run.bytes_a_second > 0.95 * free.bytes_a_second


@pytest.mark.parametrize("network", [100e6, 200e6, 500e6])
@pytest.mark.parametrize("small_at", range(5))
def test_batches_that_repeat_as_often_as_the_checks_are_not_slowed_for_ever(
    small_at: int, network: float
) -> None:
    five = [100e6] * 5
    five[small_at] = 4e6
    batches = five * 60
    paced = batching(batches, network, is_paced=True)
    unpaced = batching(batches, network, is_paced=False)
    assert paced.bytes_a_second >= 0.85 * unpaced.bytes_a_second


@pytest.mark.parametrize("batch_bytes", [40e6, 200e6, 400e6])
def test_batches_that_grow_while_pacing_is_tried_are_not_slowed_for_ever(
    batch_bytes: float,
) -> None:
    """The first cycle was a slow one: whatever follows delivers more."""
    batches = [4e6] * 3 + [batch_bytes] * 200
    paced = batching(batches, 500e6, is_paced=True)
    unpaced = batching(batches, 500e6, is_paced=False)
    assert paced.bytes_a_second > 0.98 * unpaced.bytes_a_second


@pytest.mark.parametrize("seed", range(8))
def test_batches_of_any_size_lose_next_to_nothing(seed: int) -> None:
    chance = random.Random(seed)
    batches = [20e6 * chance.lognormvariate(0, 1) for _ in range(300)]
    paced = batching(batches, 500e6, is_paced=True)
    unpaced = batching(batches, 500e6, is_paced=False)
    assert paced.bytes_a_second > 0.97 * unpaced.bytes_a_second


def test_a_client_that_outgrows_its_pacing_is_left_alone_for_a_while() -> None:
    pattern = [(5.0, 0.4), (0.3, 1.0)]
    paced = hesitating(500e6, pattern, 120, is_paced=True)
    unpaced = hesitating(500e6, pattern, 120, is_paced=False)
    assert paced.bytes_a_second > 0.98 * unpaced.bytes_a_second


def test_a_client_that_reads_on_after_its_last_pause_is_soon_unpaced() -> None:
    """It paused often, and then its application became ten times as fast."""
    pattern = [(0.03, 1.0)] * 4 + [(120.0, 0.0)]
    paced = hesitating(500e6, pattern, 124, is_paced=True)
    assert [state for state in paced.states if state is PacingState.PACED]
    assert paced.states[-1] is not PacingState.PACED
    slow = [index for index, wait_s in enumerate(paced.waits) if wait_s]
    assert sum(paced.waits[: slow[-1] + 1]) < 8


def test_no_response_waits_once_the_client_has_outgrown_its_pacing() -> None:
    run = hesitating(500e6, [(0.3, 1.0), (20.0, 0.0)], 20, is_paced=True)
    assert {PacingState.PACED, PacingState.RESTING} <= set(run.states)
    for wait_s, state in zip(run.waits, run.states, strict=True):
        assert not wait_s or state is PacingState.PACED


def test_an_hour_without_a_request_says_nothing_about_the_queue() -> None:
    pacing = FetchPacing()
    now = 0.0
    for pause_s in (1.0, 3600.0):
        for _ in range(10):
            pacing.requested(now)
            now += 0.01
            now += pacing.responded(now - 0.01, now, _MIB)
        rate = pacing.rate
        now += pause_s
    pacing.requested(now)
    assert pacing.state is PacingState.PACED
    assert pacing.rate == rate


def test_a_first_response_proves_nothing_about_what_a_cycle_delivers() -> None:
    """The client has caught up and reads on; no time passes while its response is made."""
    pacing = FetchPacing()
    now = 0.0
    for _ in range(10):
        pacing.requested(now)
        assert pacing.responded(now, now + 0.003, _MIB) == 0
        now += 0.003
    now += 1.0
    pacing.requested(now)
    assert pacing.state is PacingState.PACED
    for _ in range(300):
        pacing.requested(now)
        pacing.responded(now, now, _MIB)
        pacing.responded(now, now, SMALL_BYTES - 1)
        now += 0.1
    assert pacing.state is PacingState.PACED


def _paced_at(rate_bytes: int) -> tuple[FetchPacing, float]:
    """A connection whose pacing has begun, after a burst of ten responses and a pause."""
    pacing = FetchPacing()
    now = 0.0
    for _ in range(10):
        pacing.requested(now)
        now += _MIB / rate_bytes
        assert pacing.responded(now, now, _MIB) == 0
    now += 1.0
    pacing.requested(now)
    assert pacing.state is PacingState.PACED
    return pacing, now


def test_responses_that_take_longer_than_the_longest_wait_leave_no_debt() -> None:
    pacing, now = _paced_at(30 * _MIB)
    for _ in range(15):
        pacing.requested(now)
        now += 0.001
        now += pacing.responded(now - 0.001, now, 50 * _MIB)
    assert pacing.state is PacingState.PACED
    # What follows is small, and half a second later it owes nothing for the time before.
    waits: list[float] = []
    for _ in range(5):
        now += 0.1
        pacing.requested(now)
        waits.append(pacing.responded(now, now, SMALL_BYTES))
    assert waits[-1] == 0


def test_after_minutes_without_a_pause_a_slower_application_is_paced_again() -> None:
    """The rate had grown by a fifth a second, to 10 to the 25th, and halved at each pause."""
    pacing, now = _paced_at(100 * _MIB)
    # Four pauses, an unpaced cycle with the fifth: pacing is proven.
    for responses in (*[100] * 4, 2):
        for _ in range(responses):
            pacing.requested(now)
            now += 0.001
            now += pacing.responded(now - 0.001, now, _MIB)
        now += 1.0
    for _ in range(600 * 50):
        pacing.requested(now)
        now += 0.02
        now += pacing.responded(now - 0.02, now, _MIB)
    now += 1.0
    pacing.requested(now)
    assert pacing.state is PacingState.PACED
    assert pacing.rate <= 100 * _MIB

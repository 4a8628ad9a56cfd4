"""Pacing: a client that pauses when its queue is full gets more, and every other one no less."""

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.broker.dispatch.fetch_pacing import PAUSE_S, SMALL_BYTES, FetchPacing, PacingState

from .fetching_clients import PROCESSED_BYTES, processing, queueing

_NETWORK = 290e6
"""Measured: a broker and librdkafka's own thread, 100 B records, two cores."""
_MIB = 1 << 20


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("application", [220e6, 150e6, 100e6, 70e6, 50e6, 30e6])
def test_a_client_that_pauses_when_its_queue_is_full_gets_twice_as_much(
    application: float, seed: int
) -> None:
    paced = queueing(application, _NETWORK, 20, is_paced=True, seed=seed)
    unpaced = queueing(application, _NETWORK, 20, is_paced=False, seed=seed)
    assert paced.bytes_a_second > 0.6 * application
    assert paced.bytes_a_second > 2 * unpaced.bytes_a_second
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
        st.tuples(st.floats(0, 0.5), st.floats(0, 0.1), st.integers(0, 60 * _MIB)), max_size=200
    )
)
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
    """Someone stops the application for a second, once."""
    run = processing(600e6, 2e9, 6_000, is_paced=True, stall_every=3_000, stall_s=1.0)
    paced = [index for index, wait_s in enumerate(run.waits) if wait_s]
    assert len(paced) < 3_000
    assert run.waits[2_900] == 0
    free = processing(600e6, 2e9, 6_000, is_paced=False, stall_every=3_000, stall_s=1.0)
    assert run.bytes_a_second > 0.85 * free.bytes_a_second

"""Shared by tests: models of how clients fetch, in virtual time.

All speeds are bytes a second. `Delivered.bytes_a_second` is what the application reads from the
first request to its last byte.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from tierlog.broker.dispatch.fetch_pacing import FetchPacing, PacingState

PROCESSED_BYTES = 1_000_000
"""A response of `processing`."""

_REQUEST_S = 0.0002
_TIMER_LATENESS_S = 0.0015


class Delivered(NamedTuple):
    """How a model's run went."""

    bytes_a_second: float
    pauses: int
    waits: list[float]
    states: list[PacingState]


class Run:
    """The clock, and what the broker does, of one model."""

    def __init__(self, *, is_paced: bool, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.total = 0
        self.pauses = 0
        self._pacing = FetchPacing() if is_paced else None
        self._waits: list[float] = []
        self._states: list[PacingState] = []

    def about(self, speed: float) -> float:
        """A speed that is a fifth higher or lower by chance."""
        return speed * self.random.uniform(0.8, 1.2)

    @contextmanager
    def fetch(self, nbytes: int) -> Generator[None]:
        """One response: what the client does with it; then the time when the next may begin."""
        requested_at = self.now
        if self._pacing is not None:
            self._pacing.requested(requested_at)
        self.now += _REQUEST_S
        wait_s = 0.0
        if self._pacing is not None:
            wait_s = self._pacing.responded(requested_at, self.now, nbytes)
            self._waits.append(wait_s)
            self._states.append(self._pacing.state)
        ready_at = self.now + wait_s
        if wait_s:
            ready_at += self.random.uniform(0, _TIMER_LATENESS_S)
        self.total += nbytes
        yield
        self.now = max(self.now, ready_at)

    def delivered(self) -> Delivered:
        return Delivered(self.total / self.now, self.pauses, self._waits, self._states)


def queueing(
    application: float,
    network: float,
    seconds: float,
    *,
    is_paced: bool,
    response_bytes: int = 750_000,
    queue_bytes: int = 11_000_000,
    seed: int = 1,
) -> Delivered:
    """librdkafka: fetches ahead until its queue is full, and then not for a second."""
    run = Run(is_paced=is_paced, seed=seed)
    queued = 0.0
    while run.total < application * seconds:
        began = run.now
        with run.fetch(response_bytes):
            run.now += response_bytes / run.about(network)
            queued = max(0.0, queued - run.about(application) * (run.now - began)) + response_bytes
            began = run.now
            is_full = queued >= queue_bytes
        if is_full:
            run.pauses += 1
            run.now = max(run.now, began + 1.0)
        queued = max(0.0, queued - run.about(application) * (run.now - began))
    return run.delivered()


def processing(
    application: float,
    network: float,
    responses: int,
    *,
    is_paced: bool,
    stall_every: int = 0,
    stall_s: float = 0.0,
    seed: int = 1,
) -> Delivered:
    """Java's consumer with one partition: fetches again when it has processed the last response.

    Every so many responses its application is busy with something else.
    """
    run = Run(is_paced=is_paced, seed=seed)
    for number in range(1, responses + 1):
        with run.fetch(PROCESSED_BYTES):
            run.now += PROCESSED_BYTES / network + PROCESSED_BYTES / run.about(application)
            if stall_every and number % stall_every == 0:
                run.now += stall_s
    return run.delivered()


def batching(batches: list[float], network: float, *, is_paced: bool) -> Delivered:
    """An application that reads a batch of so many bytes, and then writes it for a second."""
    run = Run(is_paced=is_paced, seed=1)
    for nbytes in batches:
        left = nbytes
        while left > 0:
            left -= PROCESSED_BYTES
            with run.fetch(PROCESSED_BYTES):
                run.now += PROCESSED_BYTES / network + (1.0 if left <= 0 else 0.0)
    return run.delivered()


def hesitating(
    network: float, runs_and_pauses_s: list[tuple[float, float]], seconds: float, *, is_paced: bool
) -> Delivered:
    """Reads for so long at full speed, is busy for so long, and so on."""
    run = Run(is_paced=is_paced, seed=1)
    while run.now < seconds:
        for run_s, pause_s in runs_and_pauses_s:
            responses = round(run_s * network / PROCESSED_BYTES)
            for number in range(responses):
                with run.fetch(PROCESSED_BYTES):
                    run.now += PROCESSED_BYTES / network
                    run.now += pause_s if number == responses - 1 else 0.0
    return run.delivered()

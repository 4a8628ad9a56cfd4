"""A loop goes on when one of its things fails, and a person is told once."""

import asyncio
import errno
import logging
from random import Random

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.backoff import Backoff
from tierlog.clients.runtime.supervisor import Supervisor


def fail(
    supervisor: Supervisor, subject: str = "", times: int = 1, error: Exception | None = None
) -> None:
    for _ in range(times):
        with supervisor.attempt("Retention", subject):
            raise error or LookupError("broken")


def test_one_bad_thing_does_not_stop_the_others() -> None:
    supervisor = Supervisor(Random(0))
    done: list[str] = []
    for name in ("a-0", "bad-0", "c-0"):
        with supervisor.attempt("Retention", name) as attempt:
            if name == "bad-0":
                raise AssertionError
            done.append(name)
        assert attempt.has_failed is (name == "bad-0")
    assert done == ["a-0", "c-0"]
    assert supervisor.failures == {"Retention": 1}


def test_a_failure_is_reported_with_its_traceback_once_and_then_at_each_doubling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail(Supervisor(Random(0)), "bad-0", times=9)
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False, False]
    assert "Retention of bad-0 failed" in caplog.messages[0]
    assert "failed 8 times in a row: LookupError: broken" in caplog.messages[3]


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Too many open files in /data."),
        OSError(errno.ENOSPC, "No space left on device", "/data/file"),
    ],
)
def test_what_the_operating_system_has_said_needs_no_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    fail(Supervisor(Random(0)), error=error)
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage() == f"Retention failed: {error}"


def test_what_works_again_is_reported_and_what_always_worked_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    supervisor = Supervisor(Random(0))
    fail(supervisor, "bad-0")
    caplog.clear()
    for name in ("good-0", "bad-0", "bad-0"):
        with supervisor.attempt("Retention", name):
            pass
    assert caplog.messages == ["Retention of bad-0 works again"]


def test_the_pause_grows_with_the_failures_in_a_row_and_ends_with_a_success() -> None:
    supervisor = Supervisor(Random(0), Backoff(100, 1_000))
    pauses: list[float] = []
    for _ in range(3):
        fail(supervisor)
        pauses.append(supervisor.pause_seconds("Retention"))
    assert pauses == [pytest.approx(s, rel=0.2) for s in (0.1, 0.2, 0.4)]
    with supervisor.attempt("Retention"):
        pass
    assert supervisor.pause_seconds("Retention") == 0
    assert not supervisor.has_failed("Retention")


def test_a_cancellation_passes() -> None:
    supervisor = Supervisor(Random(0))
    with pytest.raises(asyncio.CancelledError), supervisor.attempt("Retention"):
        raise asyncio.CancelledError
    assert not supervisor.failures


def test_things_that_fail_and_never_come_back_take_a_bounded_memory() -> None:
    supervisor = Supervisor(Random(0))
    logging.disable()
    try:
        for each in range(10_001):
            fail(supervisor, f"t-{each}")
    finally:
        logging.disable(logging.NOTSET)
    assert not supervisor.has_failed("Retention", "t-0")
    assert supervisor.has_failed("Retention", "t-1")
    supervisor.forget("Retention", "t-1")
    assert not supervisor.has_failed("Retention", "t-1")

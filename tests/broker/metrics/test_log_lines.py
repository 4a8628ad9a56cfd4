"""The log: nothing in it that a client forged, and no flood of one kind."""

import asyncio
import errno
import logging
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from tierlog.broker.metrics.log_lines import (
    LINE_MAX,
    LineFormatter,
    LineHandler,
    LineLimit,
    log_loop_exception,
    printable,
)


def record(message: str, *arguments: object, line: int = 1, at: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord("x", logging.WARNING, "file.py", line, message, arguments, None)
    made.created = at
    return made


def test_what_a_client_sends_cannot_begin_a_line_of_its_own() -> None:
    forged = "group\n2026-01-01 00:00:00,000 INFO The broker is healthy\r\x1b[2J\u2028end"
    line = LineFormatter().format(record("Group %s was refused", forged))
    assert line.endswith(
        r"Group group\n2026-01-01 00:00:00,000 INFO The broker is healthy\r\x1b[2J\u2028end was "
        "refused"
    )
    assert len(line.splitlines()) == 1


def test_a_line_names_its_level_and_its_logger() -> None:
    line = LineFormatter().format(record("It is so"))
    assert line.endswith(" WARNING x: It is so")


def test_a_long_name_is_cut() -> None:
    line = LineFormatter().format(record("Topic %s", "t" * 1_000_000))
    assert len(line) < LINE_MAX + 100
    assert "more characters" in line


@given(st.text())
def test_every_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    assert printable("Größe: 3 µs – ok…") == "Größe: 3 µs – ok…"


def test_the_message_of_an_error_cannot_forge_a_line_behind_its_trace() -> None:
    failed = record("It failed")
    try:
        raise ValueError("no\n2026-01-01 00:00:00,000 INFO All is well")
    except ValueError as error:
        failed.exc_info = (ValueError, error, error.__traceback__)
    first, *rest = LineFormatter().format(failed).splitlines()
    assert first.endswith("It failed")
    assert all(line.startswith("    ") for line in rest)


def test_a_flood_of_one_cause_is_cut_and_reported_and_others_are_logged() -> None:
    limit, formatter = LineLimit(), LineFormatter()
    written = [each for at in range(400_000) if limit.filter(each := record("f", at=at / 100_000))]
    assert 1_000 <= len(written) < 1_500
    assert limit.filter(record("another cause", line=2, at=4.0))
    later = record("f", at=10.0)
    assert limit.filter(later)
    assert formatter.format(later).endswith("similar lines suppressed)")
    # None is told twice, and none is forgotten.
    suppressed = sum(each.__dict__["suppressed"] for each in [*written, later])
    assert suppressed == 400_000 - len(written)


def test_a_clock_that_is_set_back_ends_no_log() -> None:
    limit = LineLimit()
    assert limit.filter(record("f", at=1_000.0))
    assert limit.filter(record("f", at=10.0))


def test_a_line_that_a_full_disk_does_not_take_makes_no_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # What is left of the line is tried once more when the stream is closed.
    with suppress(OSError), open("/dev/full", "w", encoding="utf-8") as stream:
        handler = LineHandler(stream)
        handler.handle(record("lost"))
        assert capsys.readouterr().err == ""
        # What is wrong in this program is told.
        handler.handle(record("%d", "no number"))
        assert "no number" in capsys.readouterr().err


async def test_a_callback_that_the_machine_fails_is_reported_in_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(error: Exception) -> None:
        raise error

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_exception)
    loop.call_soon(fail, OSError(errno.EMFILE, "Too many open files"))
    loop.call_soon(fail, LookupError("an error of ours"))
    await asyncio.sleep(0)
    machine, ours = caplog.records
    assert machine.exc_info is None
    assert "Too many open files" in machine.getMessage()
    assert ours.exc_info

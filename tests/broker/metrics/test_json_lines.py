"""The log as JSON: whatever is logged, each line is one object with the four names."""

import json
import logging
from typing import cast

from hypothesis import given, strategies as st

from tierlog.broker.metrics.json_lines import TRACE_MAX, JsonFormatter
from tierlog.broker.metrics.log_lines import LINE_MAX


def record(message: str, **fields: object) -> logging.LogRecord:
    base = {"name": "tierlog.x", "levelname": "WARNING", "created": 0.25, "msg": message}
    return logging.makeLogRecord({**base, **fields})


def parsed(text: str) -> dict[str, object]:
    assert len(text.splitlines()) == 1
    return cast("dict[str, object]", json.loads(text))


def test_a_line_has_time_level_logger_and_message() -> None:
    assert parsed(JsonFormatter().format(record("Rolled %s", args=("orders-0",)))) == {
        "ts": "1970-01-01T00:00:00.250Z",
        "level": "WARNING",
        "logger": "tierlog.x",
        "msg": "Rolled orders-0",
    }


@given(st.text())
def test_every_text_comes_back_from_one_line(text: str) -> None:
    line = JsonFormatter().format(record("%s", args=(text,)))
    assert parsed(line)["msg"] == text
    assert line.isascii()


def test_a_trace_and_stacks_are_inside_the_line_and_bounded() -> None:
    failed = record("It failed", suppressed=3, stack_info="Thread a:\n  file.py:1 run")
    try:
        raise ValueError("no\n" * TRACE_MAX)
    except ValueError as error:
        failed.exc_info = (ValueError, error, error.__traceback__)
    line = parsed(JsonFormatter().format(failed))
    assert len(cast("str", line["trace"])) == TRACE_MAX
    assert line["stacks"] == "Thread a:\n  file.py:1 run"
    assert line["suppressed"] == 3
    assert (
        len(cast("str", parsed(JsonFormatter().format(record("x" * 10_000)))["msg"])) < 2 * LINE_MAX
    )


def test_what_ends_the_broker_is_a_line_like_the_others() -> None:
    line = parsed(JsonFormatter().problem("The port is taken"))
    assert (line["level"], line["logger"], line["msg"]) == (
        "CRITICAL",
        "tierlog",
        "The port is taken",
    )

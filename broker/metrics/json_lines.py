"""Formats log lines as JSON objects, one a line, for what collects logs.

`ts` is the time in UTC, `level`, `logger` and `msg` are those of the line. A stack trace is `trace`
of the same object, the stacks that SIGUSR1 asks for are `stacks`; `suppressed` counts the similar
lines that were left out before this one. JSON escapes what could begin a new line.
"""

import json
import logging
from datetime import UTC, datetime

from .log_lines import LineFormatter, shorten, suppressed_before

TRACE_MAX = 64_000
"""The most characters of a stack trace, or of all stacks; of a longer one the end is kept."""


class JsonFormatter(LineFormatter):
    """Formats a record as one JSON object in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        written = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, str | int] = {
            "ts": written.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "msg": shorten(record.getMessage()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["trace"] = logging.Formatter.formatException(self, record.exc_info)[-TRACE_MAX:]
        if record.stack_info:
            line["stacks"] = record.stack_info[-TRACE_MAX:]
        if suppressed := suppressed_before(record):
            line["suppressed"] = suppressed
        return json.dumps(line)

    def problem(self, message: str) -> str:
        level = logging.getLevelName(logging.CRITICAL)
        return self.format(
            logging.makeLogRecord({"name": "tierlog", "levelname": level, "msg": message})
        )

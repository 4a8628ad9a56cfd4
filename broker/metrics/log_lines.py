"""Formats log lines so that clients cannot forge them, and limits floods of similar lines.

Log lines contain names and ids from clients. Here, where all lines are written, any character that
could begin a new line or move a terminal's cursor is escaped, and a long message is cut. The lines
of a stack trace are indented, so that none of them looks like a log line. `json_lines.py` has the
same lines as JSON.

The lines of one cause, which is a place in the code, are limited to `_BURST` at once and
`_PER_SECOND` in the long run; the next line written reports how many were suppressed.
"""

import asyncio
import logging
import sys
from types import TracebackType
from typing import Any, NamedTuple

from ...clients.runtime.supervisor import is_answer_of_system

_log = logging.getLogger(__name__)

LINE_MAX = 4_000
"""The most characters of a message; a longer one is cut."""

_BURST = 1_000
_PER_SECOND = 50.0
_LINES_OF_A_TRACE = 50
_INDENT = "    "
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SUPPRESSED = "suppressed"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def shorten(text: str) -> str:
    """The text, of which `LINE_MAX` characters at most are shown."""
    if len(text) <= LINE_MAX:
        return text
    return f"{text[:LINE_MAX]}… ({len(text) - LINE_MAX} more characters)"


def suppressed_before(record: logging.LogRecord) -> int:
    """How many similar lines were suppressed since the last one that was written."""
    return int(record.__dict__.get(_SUPPRESSED, 0))


def printable(text: str) -> str:
    """The text on one line, without control characters, and cut if it is too long."""
    text = shorten(text)
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "replace").decode()
        for each in text
    )


class LineFormatter(logging.Formatter):
    """Formats a record as one line, and its stack trace as indented lines after it."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line itself. `format` has set `record.message`."""
        record.message = printable(record.message)
        suppressed = suppressed_before(record)
        line = super().formatMessage(record)
        return f"{line} ({suppressed} similar lines suppressed)" if suppressed else line

    def formatException(self, ei: object) -> str:
        """The indented stack trace; its messages may contain text from a client."""
        text = super().formatException(ei)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        return self.formatStack(text)

    def formatStack(self, stack_info: str) -> str:
        """The lines of a stack, indented."""
        return "\n".join(_INDENT + printable(line) for line in stack_info.splitlines())

    def problem(self, message: str) -> str:
        """The line for what keeps the broker from starting, or ends it."""
        return f"tierlog: {message}"


class _Cause(NamedTuple):
    """How many lines a cause could still write at the time `at`, and how many were suppressed."""

    left: float
    at: float
    suppressed: int


class LineLimit(logging.Filter):
    """Limits the lines of each cause."""

    def __init__(self) -> None:
        super().__init__()
        # Bounded by the number of places in the code that write lines.
        self._causes: dict[tuple[str, int], _Cause] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record against its cause; returns whether to write it."""
        key = record.pathname, record.lineno
        now = record.created
        cause = self._causes.get(key, _Cause(_BURST, now, 0))
        left = min(_BURST, cause.left + max(0.0, now - cause.at) * _PER_SECOND)
        lines = _LINES_OF_A_TRACE if record.exc_info else 1
        if left < lines:
            self._causes[key] = _Cause(left, now, cause.suppressed + 1)
            return False
        self._causes[key] = _Cause(left - lines, now, 0)
        record.__dict__[_SUPPRESSED] = cause.suppressed
        return True


class LineHandler(logging.StreamHandler[Any]):
    """Writes lines. A line that cannot be written, as on a full disk, is dropped."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Report errors other than OSError. Called while the error is handled."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def log_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `set_exception_handler`: log errors of the operating system without a stack trace."""
    error = context.get("exception")
    if isinstance(error, Exception) and is_answer_of_system(error):
        _log.error("Error in the event loop: %s: %s", context["message"].partition(" <")[0], error)
    else:
        loop.default_exception_handler(context)

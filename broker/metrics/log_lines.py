"""What the log lets through: no line that a client has forged, and no flood of one kind.

Names and ids of clients stand in log lines. Here, at the one place where lines are written,
whatever could begin a new line or move a terminal's cursor is escaped, and what is too long is cut.
The lines of a stack trace are indented, so that none of them can be taken for a line of ours.

Lines of one cause, by the place in the code that writes them, are limited to `_BURST` at once and
`_PER_SECOND` in the long run; the next one that is let through says how many were not.
"""

import asyncio
import logging
import sys
from types import TracebackType
from typing import Any, NamedTuple

from ...clients.supervisor import is_answer_of_system

_log = logging.getLogger(__name__)

LINE_MAX = 4_000
"""Characters of a message; what is longer is cut."""

_BURST = 1_000
_PER_SECOND = 50.0
_LINES_OF_A_TRACE = 50
_INDENT = "    "
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_SUPPRESSED = "suppressed"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def printable(text: str) -> str:
    """The same text on one line, without anything that a terminal would obey, not too long."""
    if len(text) > LINE_MAX:
        text = f"{text[:LINE_MAX]}… ({len(text) - LINE_MAX} more characters)"
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "replace").decode()
        for each in text
    )


class LineFormatter(logging.Formatter):
    """A record as one line; a stack trace as indented lines behind it."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line itself. `record.message` was made by `format`."""
        record.message = printable(record.message)
        suppressed = record.__dict__.get(_SUPPRESSED, 0)
        line = super().formatMessage(record)
        return f"{line} ({suppressed} more like it suppressed)" if suppressed else line

    def formatException(self, ei: object) -> str:
        """A stack trace whose messages may hold what a client has sent."""
        text = super().formatException(ei)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        return "\n".join(_INDENT + printable(line) for line in text.splitlines())


class _Cause(NamedTuple):
    """What a cause may still write, when that was counted, and how much was suppressed since."""

    left: float
    at: float
    suppressed: int


class LineLimit(logging.Filter):
    """Lets a cause write so many lines and no more."""

    def __init__(self) -> None:
        super().__init__()
        # Bounded by the number of places in the code that write lines.
        self._causes: dict[tuple[str, int], _Cause] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written."""
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
    """Writes lines. One that the machine does not take, as on a full disk, is lost, no more."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Called while the error is handled."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def tell_what_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `set_exception_handler`: what the operating system has refused needs no trace."""
    error = context.get("exception")
    if isinstance(error, Exception) and is_answer_of_system(error):
        _log.error("%s: %s", context["message"].partition(" <")[0], error)
    else:
        loop.default_exception_handler(context)

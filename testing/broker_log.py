"""What the broker of a test session logs: kept for reports, and out of the logs of its tests.

The broker logs from a thread of its own, at any moment. A test that compares `caplog.records`, or
what its application's handlers have written, is to find there what the application has logged. So
the lines of all loggers below `tierlog` come here, and go no further.

They would go on to the parent, which is taken away. `propagate = False` would say the same, but
pytest then hands them to `caplog` all the same, since version 9. The event loop of the broker logs
as any other, below `asyncio`: its lines are recognised by their thread.
"""

import logging
from collections import deque
from typing import Final, Self

from ..broker.metrics.log_lines import LineFormatter

LINES_MAX: Final = 1_000
"""Lines that are kept of one test."""

THREADS: Final = "tierlog-"
"""How the names of threads with the event loop of a broker begin."""

_TIERLOG: Final = "tierlog"


class BrokerLog(logging.Handler):
    """A context in which the logger `tierlog` has this handler alone."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._logger = logging.getLogger(_TIERLOG)
        self._asyncio = logging.getLogger("asyncio")
        self._level, self._parent = self._logger.level, self._logger.parent

    def __enter__(self) -> Self:
        self._level, self._parent = self._logger.level, self._logger.parent
        self._logger.setLevel(logging.INFO)
        self._logger.parent = None
        self._logger.addHandler(self)
        self._asyncio.addFilter(self._is_of_the_tests)
        return self

    def __exit__(self, *_: object) -> None:
        self._asyncio.removeFilter(self._is_of_the_tests)
        self._logger.removeHandler(self)
        self._logger.parent = self._parent
        self._logger.setLevel(self._level)

    def _is_of_the_tests(self, record: logging.LogRecord) -> bool:
        if not (record.threadName or "").startswith(THREADS):
            return True
        if record.levelno >= logging.INFO:
            self.handle(record)
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        try:
            self._lines.append(self.format(record))
        except Exception:
            # As all handlers do: a line that cannot be formatted is no failure of who logs it.
            self.handleError(record)

    def begin_test(self) -> None:
        """Forget the lines of the test before, and undo what `logging.config` did in it.

        That disables all loggers which a configuration does not name.
        """
        self._lines.clear()
        self._logger.addHandler(self)
        for name, logger in logging.root.manager.loggerDict.items():
            if isinstance(logger, logging.Logger) and name.partition(".")[0] == _TIERLOG:
                logger.disabled = False

    def tail(self, nbytes: int) -> str:
        """The last lines since the test began, of about `nbytes` at most."""
        return "\n".join(self._lines)[-nbytes:]

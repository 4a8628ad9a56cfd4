"""The lines of the audit: who was denied what, and who changed what, at most so many a second.

The logger of denials is Kafka's, so that its level is set by Kafka's name (`kafka-configs.sh
--entity-type broker-loggers`). Names come from clients and may hold anything: whatever is not
printable is escaped, and a long name is cut, so that no client can write a line of its own.
"""

import asyncio
import logging

LINES_A_SECOND_MAX = 100
"""More are counted, and the count is logged as soon as the second is over."""

LINES_OF_ONE_MAX = LINES_A_SECOND_MAX // 2
"""Lines a second for one principal, so that its denials cannot crowd out those of others."""

_SHOWN_CHARACTERS_MAX = 300
"""A longer name is cut: Kafka's own limit for names of topics is 249."""


class Audit:
    """Writes what fits into each second."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._second = -1
        self._written = 0
        self._dropped = 0
        # Of this second, so that there are no more of them than lines.
        self._written_of: dict[str, int] = {}

    def wants(self, allowed: bool) -> bool:
        """Whether the level of the logger lets such a decision through."""
        return self._logger.isEnabledFor(logging.DEBUG if allowed else logging.INFO)

    def write(self, allowed: bool, message: str, principal: str) -> None:
        """Log a decision about a principal, or count it if this second is full."""
        loop = asyncio.get_running_loop()
        second = int(loop.time())
        if second != self._second:
            self._log_dropped()
            self._second, self._written = second, 0
            self._written_of.clear()
        written = self._written_of.get(principal, 0)
        if self._written == LINES_A_SECOND_MAX or written == LINES_OF_ONE_MAX:
            if not self._dropped:
                loop.call_at(second + 1.0, self._log_dropped)
            self._dropped += 1
            return
        self._written += 1
        self._written_of[principal] = written + 1
        self._logger.log(logging.DEBUG if allowed else logging.INFO, "%s", message)

    def _log_dropped(self) -> None:
        if self._dropped:
            self._logger.info("The audit left out %d lines", self._dropped)
            self._dropped = 0


AUDIT = Audit(logging.getLogger("kafka.authorizer.logger"))
"""The denials of this process, and at DEBUG its permissions."""

ACTS_AUDIT = Audit(logging.getLogger("tierlog.audit"))
"""The administrative acts that this process has decided (`acts.py`)."""


def escape(text: str) -> str:
    """A name on one line: what is not printable is escaped, and the end of a long one is cut."""
    cut = text[:_SHOWN_CHARACTERS_MAX]
    if cut.isprintable() and "\\" not in cut:
        return cut
    return "".join(
        each if each.isprintable() and each != "\\" else ascii(each)[1:-1] for each in cut
    )

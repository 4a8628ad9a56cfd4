"""Reports records of an internal topic that are skipped because they cannot be decoded or applied.

A client with write access may write anything to the topic, and a disk may return anything. A
record that cannot be decoded, or cannot be applied for an unforeseen reason, must not keep the
other records from being read, and many such records must not flood the log. Every skipped record is
counted; the first few of each partition are logged, and after that one whenever the count has
doubled.
"""

import logging
from collections import Counter

_log = logging.getLogger(__name__)

_LOGGED_EACH = 10
_REASON_CHARACTERS_MAX = 500


class SkippedRecords:
    """The records skipped by one reader of a topic.

    `cost` is the clause of the log message that says what is lost with a skipped record.
    """

    def __init__(self, topic: str, cost: str) -> None:
        self._topic = topic
        self._cost = cost
        self._skipped: Counter[int] = Counter()
        self._ends: dict[int, int] = {}
        """By partition, one past the last skipped offset."""

    @property
    def count(self) -> int:
        """How many records were skipped; each offset counts once."""
        return self._skipped.total()

    def skip(
        self, partition: int, offset: int, reason: str, failure: BaseException | None = None
    ) -> None:
        """Report the record at an offset as skipped, unless it was reported before.

        `failure` is an unexpected exception; its traceback is logged.
        """
        if offset < self._ends.get(partition, 0):
            return
        self._ends[partition] = offset + 1
        self._skipped[partition] += 1
        skipped = self._skipped[partition]
        if skipped > _LOGGED_EACH and skipped & (skipped - 1):
            return
        _log.error(
            "Skipped the record at offset %d of %s-%d: %s %s; the other records are read. %d "
            "skipped in this partition so far",
            offset,
            self._topic,
            partition,
            repr(reason[:_REASON_CHARACTERS_MAX])[1:-1],
            self._cost,
            skipped,
            exc_info=failure,
        )

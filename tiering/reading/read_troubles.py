"""What readers of the tier meet: damaged or missing objects, which no look at the store shows.

A store may answer well while each read of a segment fails. Of each partition the last failure is
kept, until a read gets past that offset or nobody has met it for some time.
"""

from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition

KEPT_SECONDS = 600.0
"""How long a failure counts after it was last met."""

PARTITIONS_MAX = 1000
"""The oldest failures of more partitions are forgotten."""


class _Failure(NamedTuple):
    offset: int
    message: str
    times: int
    at: float


class ReadTroubles:
    """The partitions whose reads from the tier fail. Times are those of the event loop."""

    def __init__(self) -> None:
        self._failures: dict[TopicIdPartition, _Failure] = {}

    def failed(self, partition: TopicIdPartition, offset: int, message: str, now: float) -> None:
        """Record a failed read of an offset; the message is a sentence."""
        before = self._failures.pop(partition, None)
        times = 1 + (before.times if before is not None and before.offset == offset else 0)
        self._failures[partition] = _Failure(offset, message, times, now)
        if len(self._failures) > PARTITIONS_MAX:
            del self._failures[next(iter(self._failures))]

    def worked(self, partition: TopicIdPartition, offset: int) -> None:
        """Record a successful read: it ends the trouble at its offset."""
        failure = self._failures.get(partition)
        if failure is not None and failure.offset == offset:
            del self._failures[partition]

    def forget(self, partition: TopicIdPartition) -> None:
        """Drop what is known of a partition that has left this broker."""
        self._failures.pop(partition, None)

    def message(self, now: float) -> str:
        """What fails at present, for a person; empty if nothing does."""
        for partition in [
            each for each, failure in self._failures.items() if now - failure.at > KEPT_SECONDS
        ]:
            del self._failures[partition]
        if not self._failures:
            return ""
        *others, last = self._failures.values()
        how_often = "once" if last.times == 1 else f"{last.times} times in a row"
        more = f" Reads of {len(others)} more partitions fail." if others else ""
        if len(others) == 1:
            more = " Reads of another partition fail."
        return f"{last.message} ({how_often}).{more}"

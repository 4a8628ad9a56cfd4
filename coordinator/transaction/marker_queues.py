"""Markers on their way to the brokers that lead their partitions: a state machine without I/O.

A marker for one partition is in one of these states:

    WAITING ──take──> SENT ──settling error──> gone: reported, the partition needs no more
       ^                │
       └──requeue── APART <── any other error, or no response

Each broker has a queue and at most one request in flight. After an error the marker is set apart,
and `requeue` looks its leader up again: so it follows the partition, for as long as needed. A
partition without a leader is set apart at once. Only this broker's own metadata can end the wait
for a deleted partition: another broker may not have learned of a new one yet (Kafka's
TransactionMarkerChannelManager).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.topic_partition import TopicPartition
from .transaction_markers import Marker, MarkerErrors

BATCH_MAX = 10_000
"""Markers in one request, counted by partition."""

NO_LEADER = -1
"""The partition exists, but no broker can be reached that leads it."""

SETTLING = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Outcomes after which a marker is not sent again: it is written, or somebody newer has ended the
transaction. After any other, even an unexpected one, it is."""


class Parcel(NamedTuple):
    """The marker of one transaction for some partitions. `number` identifies the transaction."""

    number: int
    marker: Marker
    partitions: tuple[TopicPartition, ...]


class Settled(NamedTuple):
    """All partitions of a transaction are settled."""

    number: int
    errors: MarkerErrors


class _Work:
    __slots__ = ("errors", "marker", "remaining")

    def __init__(self, marker: Marker, remaining: Iterable[TopicPartition]) -> None:
        self.marker = marker
        self.remaining = set(remaining)
        self.errors: MarkerErrors = {}


_Item = tuple[int, TopicPartition]


class MarkerQueues:
    """See the top of this file.

    `leader_of` returns the broker to send to, `NO_LEADER`, or None for a deleted partition.
    """

    def __init__(self, leader_of: Callable[[TopicPartition], int | None]) -> None:
        self._leader_of = leader_of
        self._work: dict[int, _Work] = {}
        # The items of each queue are in order; the values mean nothing.
        self._waiting: dict[int, dict[_Item, None]] = {}
        self._sent: dict[int, list[_Item]] = {}
        self._apart: dict[_Item, None] = {}

    def __len__(self) -> int:
        """How many transactions have markers here."""
        return len(self._work)

    @property
    def has_apart(self) -> bool:
        """Whether `requeue` has anything to do."""
        return bool(self._apart)

    def add(
        self, number: int, marker: Marker, partitions: Iterable[TopicPartition]
    ) -> list[Settled]:
        """Queue a transaction's markers; its number must be new."""
        work = self._work[number] = _Work(marker, partitions)
        return self._queue([(number, partition) for partition in sorted(work.remaining)])

    def drop(self, number: int) -> None:
        """Forget a transaction that is not this coordinator's any more."""
        work = self._work.pop(number, None)
        if work is None:
            return
        for partition in work.remaining:
            item = (number, partition)
            self._apart.pop(item, None)
            for queue in self._waiting.values():
                queue.pop(item, None)

    def ready(self) -> list[int]:
        """The brokers that have markers to be sent, and no request in flight."""
        return [each for each, queue in self._waiting.items() if queue and each not in self._sent]

    def take(self, broker_id: int) -> list[Parcel]:
        """The markers to send to a broker that is `ready`; call `answered` after that."""
        assert broker_id not in self._sent, "One request is in flight."
        queue = self._waiting[broker_id]
        items = [item for _, item in zip(range(BATCH_MAX), queue, strict=False)]
        for item in items:
            del queue[item]
        if not queue:
            del self._waiting[broker_id]
        self._sent[broker_id] = items
        by_number: dict[int, list[TopicPartition]] = {}
        for number, partition in items:
            by_number.setdefault(number, []).append(partition)
        return [
            Parcel(number, self._work[number].marker, tuple(partitions))
            for number, partitions in by_number.items()
        ]

    def answered(
        self, broker_id: int, errors: Mapping[tuple[int, TopicPartition], ErrorCode]
    ) -> list[Settled]:
        """Apply a response; markers without a result in it, or without a response, are kept."""
        settled: list[Settled] = []
        for item in self._sent.pop(broker_id):
            error = errors.get(item, ErrorCode.NETWORK_EXCEPTION)
            if item[0] not in self._work:
                continue  # Dropped while the request was in flight.
            if error in SETTLING:
                settled += self._settle(item, error)
            else:
                self._apart[item] = None
        return settled

    def requeue(self) -> list[Settled]:
        """Look up the leaders of the markers set apart, and queue them again."""
        items, self._apart = list(self._apart), {}
        return self._queue(items)

    def _queue(self, items: Iterable[_Item]) -> list[Settled]:
        settled: list[Settled] = []
        for item in items:
            leader = self._leader_of(item[1])
            if leader is None:
                settled += self._settle(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader == NO_LEADER:
                self._apart[item] = None
            else:
                self._waiting.setdefault(leader, {})[item] = None
        return settled

    def _settle(self, item: _Item, error: ErrorCode) -> list[Settled]:
        number, partition = item
        work = self._work[number]
        work.remaining.discard(partition)
        work.errors[partition] = error
        if work.remaining:
            return []
        del self._work[number]
        return [Settled(number, work.errors)]

"""Partitions to add to transactions, or to verify, on their way to coordinators on other brokers.

A state machine without I/O (Kafka's AddPartitionsToTxnManager). Each coordinator's broker has a
queue and at most one request in flight. A transactional id has one entry in a queue:

- partitions of the same producer and epoch join the entry;
- a newer epoch replaces it, which gets INVALID_PRODUCER_EPOCH; an older one gets that itself;
- the same epoch with the other operation replaces it, which gets NETWORK_EXCEPTION, on which
  clients retry.

An entry that was sent is not changed any more: later partitions get a new one. So an answer is
always about a question that was put after the call.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.topic_partition import TopicPartition
from .transaction_markers import MarkerErrors
from .transaction_shard import Addition

ENTRIES_MAX = 10_000
"""Transactional ids in all queues; another one gets COORDINATOR_NOT_AVAILABLE, and retries."""
BATCH_MAX = 1_000
"""Transactional ids in one request."""


class Question(NamedTuple):
    """Partitions of one transaction, and whether they are only verified."""

    addition: Addition
    verify_only: bool


class Entry:
    """A question that is asked for all who wait for `answer`."""

    __slots__ = ("answer", "question")

    def __init__(self, question: Question, answer: asyncio.Future[MarkerErrors]) -> None:
        self.question = question
        self.answer = answer

    def settle(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """Answer; a partition without a result gets NETWORK_EXCEPTION."""
        if not self.answer.done():
            lost = ErrorCode.NETWORK_EXCEPTION
            partitions = self.question.addition.partitions
            self.answer.set_result(
                {partition: errors.get(partition, lost) for partition in partitions}
            )

    def refuse(self, error: ErrorCode) -> None:
        """Answer with one error for all partitions."""
        self.settle(dict.fromkeys(self.question.addition.partitions, error))


class VerificationQueue:
    """The queues to all brokers. The caller makes the futures, and sends what `take` returns."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[str, Entry]] = {}
        self._in_flight: set[int] = set()

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def add(
        self, broker_id: int, question: Question, new: asyncio.Future[MarkerErrors]
    ) -> asyncio.Future[MarkerErrors]:
        """Queue a question; returns `new`, or the future of an entry that it has joined."""
        queue = self._waiting.setdefault(broker_id, {})
        transactional_id = question.addition.transactional_id
        entry = Entry(question, new)
        waiting = queue.get(transactional_id)
        if waiting is None:
            if len(self) >= ENTRIES_MAX:
                entry.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                queue[transactional_id] = entry
            return new
        earlier = waiting.question
        if _joins(earlier, question):
            union = earlier.addition.partitions | question.addition.partitions
            addition = earlier.addition._replace(partitions=union)
            waiting.question = earlier._replace(addition=addition)
            return waiting.answer
        if question.addition.producer_epoch < earlier.addition.producer_epoch:
            entry.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
            return new
        is_newer = question.addition.producer_epoch > earlier.addition.producer_epoch
        is_fenced = ErrorCode.INVALID_PRODUCER_EPOCH
        waiting.refuse(is_fenced if is_newer else ErrorCode.NETWORK_EXCEPTION)
        queue[transactional_id] = entry
        return new

    def ready(self) -> list[int]:
        """The brokers with questions and no request in flight."""
        return [
            each for each, queue in self._waiting.items() if queue and each not in self._in_flight
        ]

    def take(self, broker_id: int) -> list[Entry]:
        """The entries of the next request to a broker that is `ready`; call `answered` later."""
        queue = self._waiting[broker_id]
        ids = [each for _, each in zip(range(BATCH_MAX), queue, strict=False)]
        entries = [queue.pop(each) for each in ids]
        if not queue:
            del self._waiting[broker_id]
        self._in_flight.add(broker_id)
        return entries

    def answered(self, broker_id: int) -> None:
        """The request to the broker has ended."""
        self._in_flight.discard(broker_id)

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer everything that waits."""
        for queue in self._waiting.values():
            for entry in queue.values():
                entry.refuse(error)
        self._waiting.clear()


def _joins(earlier: Question, later: Question) -> bool:
    return (
        earlier._replace(addition=earlier.addition._replace(partitions=later.addition.partitions))
        == later
    )

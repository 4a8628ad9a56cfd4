"""The logs of all partitions, put together from what clients sent and read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from .history import Outcome, Polled, Read, Sent, Transaction


@dataclass(slots=True)
class PartitionLog:
    """What is certain about one partition.

    A value is certain to be in the log if its transaction was committed, or if it was read, or if
    another value of its transaction was, for those are committed together.
    """

    values: dict[int, dict[int, None]] = field(default_factory=dict[int, dict[int, None]])
    """The values that are certain, by offset: more than one where observers contradict."""
    offsets: dict[int, dict[int, None]] = field(default_factory=dict[int, dict[int, None]])
    """The offsets of each certain value."""
    acknowledged: dict[int, dict[int, None]] = field(default_factory=dict[int, dict[int, None]])
    """The values of all acknowledged sends by offset, those of aborted transactions too."""
    writers: dict[int, int] = field(default_factory=dict[int, int])
    """The place in the history of the transaction that sent each value."""
    committed: dict[int, None] = field(default_factory=dict[int, None])
    """The values of transactions that are certainly committed."""
    read: dict[int, None] = field(default_factory=dict[int, None])
    """The values that were read."""
    highest_read: int = -1
    ranks: dict[int, int] = field(default_factory=dict[int, int])
    """Each certain offset's place among them, without the gaps of markers and aborted records."""

    def place(self, offset: int, value: int) -> None:
        """Note that the value is at the offset."""
        self.values.setdefault(offset, {})[value] = None
        self.offsets.setdefault(value, {})[offset] = None

    def rank_of(self, value: int) -> int | None:
        """The rank of a value's first offset; None if it is not certain where it is."""
        offsets = self.offsets.get(value)
        return None if not offsets else self.ranks[next(iter(offsets))]

    def order(self) -> Iterator[tuple[int, int]]:
        """The offsets in their order, each with its first value."""
        for offset in self.ranks:
            yield offset, next(iter(self.values[offset]))


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs by partition, and which transactions are certainly committed."""

    partitions: dict[str, PartitionLog]
    committed: list[bool]

    def of(self, partition: str) -> PartitionLog:
        """The log of a partition, empty if nobody did anything there."""
        log = self.partitions.get(partition)
        if log is None:
            log = self.partitions[partition] = PartitionLog()
        return log


def reads_of(transaction: Transaction) -> Iterator[Read]:
    """All records that a transaction has polled."""
    for step in transaction.steps:
        if isinstance(step, Polled):
            yield from step.reads


def sends_of(transaction: Transaction) -> Iterator[Sent]:
    """All that a transaction has sent."""
    for step in transaction.steps:
        if isinstance(step, Sent):
            yield step


def logs_of(history: Sequence[Transaction]) -> Logs:
    """Put the logs together."""
    logs = Logs({}, [entry.outcome is Outcome.COMMITTED for entry in history])
    _note_sends(history, logs)
    _note_reads(history, logs)
    for transaction, is_committed in zip(history, logs.committed, strict=True):
        if is_committed:
            for partition, value, offset in sends_of(transaction):
                log = logs.of(partition)
                log.committed[value] = None
                if offset is not None:
                    log.place(offset, value)
    for log in logs.partitions.values():
        log.ranks.update((offset, rank) for rank, offset in enumerate(sorted(log.values)))
    return logs


def _note_sends(history: Sequence[Transaction], logs: Logs) -> None:
    for index, transaction in enumerate(history):
        for partition, value, offset in sends_of(transaction):
            log = logs.of(partition)
            log.writers[value] = index
            if offset is not None:
                log.acknowledged.setdefault(offset, {})[value] = None


def _note_reads(history: Sequence[Transaction], logs: Logs) -> None:
    """Place what was read; a transaction of unknown outcome of which it is was committed."""
    for partition, offset, value in chain.from_iterable(map(reads_of, history)):
        log = logs.of(partition)
        log.place(offset, value)
        log.read[value] = None
        log.highest_read = max(log.highest_read, offset)
        writer = log.writers.get(value)
        if writer is not None and history[writer].outcome is Outcome.UNKNOWN:
            logs.committed[writer] = True

"""Finds the anomalies of a history, in a time that is linear in its length but for sorting.

    judged = judge(transactions(events))
    assert not judged.illegal

The names and their meaning are those of jepsen.tests.kafka; the logs that the history is held
against are put together from the history itself (`version_order.py`).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from .anomalies import LEGAL, Anomaly, Case
from .cycles import cycles
from .history import Assigned, Outcome, Polled, Read, Sent, Transaction
from .version_order import Logs, PartitionLog, logs_of, reads_of, sends_of

_SHOWN_MEMBERS = 8


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a history shows."""

    cases: Sequence[Case]
    illegal: Sequence[Case]
    """Those that Kafka does not allow."""
    worst_realtime_lag_s: float
    """The longest time for which a poll had certainly lagged behind what was committed."""

    @property
    def counts(self) -> Mapping[Anomaly, int]:
        """The number of cases of each anomaly."""
        return Counter(case.anomaly for case in self.cases)


def judge(history: Sequence[Transaction]) -> Judgement:
    """Find every anomaly of a history, whose transactions are in the order of their begins."""
    logs = logs_of(history)
    cases = [
        *_wrong_logs(logs),
        *_wrong_reads(history, logs),
        *chain.from_iterable(_wrong_sends(entry, logs) for entry in history),
        *_wrong_order_of_sends(history, logs),
        *_Positions(logs).cases(history),
        *_cyclic(history, logs),
    ]
    illegal = [case for case in cases if case.anomaly not in LEGAL]
    return Judgement(cases, illegal, worst_realtime_lag_s(history, logs))


def _wrong_logs(logs: Logs) -> Iterator[Case]:
    """What can be said of each partition alone."""
    for partition, log in logs.partitions.items():
        for offset in {**log.values, **log.acknowledged}:
            values = {**log.values.get(offset, {}), **log.acknowledged.get(offset, {})}
            if len(values) > 1:
                text = f"{partition} has {sorted(values)} at offset {offset}"
                yield Case(Anomaly.INCONSISTENT_OFFSETS, text)
        for value, offsets in log.offsets.items():
            if len(offsets) > 1:
                text = f"{partition} has {value} at offsets {sorted(offsets)}"
                yield Case(Anomaly.DUPLICATE, text)
        for value in log.committed:
            if value in log.read:
                continue
            yield Case(Anomaly.UNSEEN, f"{value} of {partition} is committed and was never read")
            last = max(log.offsets.get(value, ()), default=None)
            if last is not None and last < log.highest_read:
                text = (
                    f"{value} of {partition} was committed at offset {last} and never read, but "
                    f"offset {log.highest_read} was"
                )
                yield Case(Anomaly.LOST_WRITE, text)


def _wrong_reads(history: Sequence[Transaction], logs: Logs) -> Iterator[Case]:
    """Reads of what was aborted, never sent, or sent by the reader itself."""
    for index, transaction in enumerate(history):
        for partition, offset, value in reads_of(transaction):
            writer = logs.of(partition).writers.get(value)
            what = f"process {transaction.process} read {value} at offset {offset} of {partition}"
            if writer is None:
                yield Case(Anomaly.G1A, f"{what}, which nobody sent")
            elif history[writer].outcome is Outcome.ABORTED:
                yield Case(Anomaly.G1A, f"{what}, which was aborted")
            elif writer == index:
                yield Case(Anomaly.PRECOMMITTED_READ, f"{what}, in the transaction that sent it")


def _wrong_sends(transaction: Transaction, logs: Logs) -> Iterator[Case]:
    """The order of what one transaction sent to each partition."""
    last: dict[str, tuple[int, int]] = {}
    for sent in sends_of(transaction):
        rank = logs.of(sent.partition).rank_of(sent.value)
        if rank is None:
            continue
        before = last.get(sent.partition)
        last[sent.partition] = rank, sent.value
        if before is None or rank == before[0] + 1:
            continue
        is_back = rank <= before[0]
        anomaly = Anomaly.INT_NONMONOTONIC_SEND if is_back else Anomaly.INT_SEND_SKIP
        text = f"process {transaction.process} sent {before[1]}, then {sent.value}"
        yield Case(anomaly, f"{text} to {sent.partition}: places {before[0]} and {rank}")


def _offset_of(sent: Sent, log: PartitionLog) -> int | None:
    """Where a value is, by its acknowledgement or by a reader."""
    if sent.offset is not None:
        return sent.offset
    return next(iter(log.offsets.get(sent.value, ())), None)


def _wrong_order_of_sends(history: Sequence[Transaction], logs: Logs) -> Iterator[Case]:
    """What a process sent in one transaction, and before it in another."""
    last: dict[tuple[int, str], int] = {}
    for transaction in history:
        firsts: set[str] = set()
        for sent in sends_of(transaction):
            offset = _offset_of(sent, logs.of(sent.partition))
            if offset is None:
                continue
            place = transaction.process, sent.partition
            before = last.get(place, -1)
            last[place] = offset
            if sent.partition not in firsts and offset <= before:
                text = f"process {place[0]} sent {sent.value} to offset {offset} of {place[1]}"
                yield Case(Anomaly.NONMONOTONIC_SEND, f"{text} after offset {before}")
            firsts.add(sent.partition)


class _Positions:
    """Where each process is in each partition that it polls."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._of: dict[int, dict[str, int]] = {}

    def cases(self, history: Sequence[Transaction]) -> Iterator[Case]:
        for transaction in history:
            yield from self._follow(transaction)

    def _follow(self, transaction: Transaction) -> Iterator[Case]:
        """Compare a transaction with where the process was, and note where it is afterwards."""
        before = self._of.get(transaction.process, {})
        within: dict[str, int] = {}
        for step in transaction.steps:
            if isinstance(step, Assigned):
                before = {each: before[each] for each in before if each in step.partitions}
                within = {each: within[each] for each in within if each in step.partitions}
            elif isinstance(step, Polled):
                for read in step.reads:
                    yield from self._compare(transaction.process, read, before, within)
                    within[read.partition] = read.offset
        if transaction.outcome is Outcome.COMMITTED:
            before = {**before, **within}
        elif transaction.outcome is Outcome.UNKNOWN:
            before = {each: before[each] for each in before if each not in within}
        self._of[transaction.process] = before

    def _compare(
        self, process: int, read: Read, before: Mapping[str, int], within: Mapping[str, int]
    ) -> Iterator[Case]:
        partition = read.partition
        last = within.get(partition, before.get(partition))
        if last is None:
            return
        is_within = partition in within
        ranks = self._logs.of(partition).ranks
        text = f"process {process} read offset {last} of {partition}, then {read.offset}"
        if read.offset <= last:
            back = Anomaly.INT_NONMONOTONIC_POLL if is_within else Anomaly.NONMONOTONIC_POLL
            yield Case(back, text)
        elif ranks[read.offset] > ranks[last] + 1:
            skip = Anomaly.INT_POLL_SKIP if is_within else Anomaly.POLL_SKIP
            yield Case(skip, f"{text}: {ranks[read.offset] - ranks[last] - 1} records are between")


def _cyclic(history: Sequence[Transaction], logs: Logs) -> Iterator[Case]:
    """Cycles of the order of writes, of reads, of both, and of reads and time."""
    writes, reads = _edges_of_writes(history, logs), _edges_of_reads(history, logs)
    both = [[*one, *other] for one, other in zip(writes, reads, strict=True)]
    shown: set[tuple[int, ...]] = set()
    for anomaly, edges in (
        (Anomaly.G0, writes),
        (Anomaly.G1C, reads),
        (Anomaly.G1C_WITH_WRITES, both),
        (Anomaly.G1C_REALTIME, _with_time(history, reads, logs)),
    ):
        for cycle in cycles(edges):
            members = tuple(node for node in cycle if node < len(history))
            if members in shown:
                continue
            shown.add(members)
            first = [history[node] for node in members[:_SHOWN_MEMBERS]]
            names = ", ".join(
                f"process {transaction.process} at {transaction.invoked:g}" for transaction in first
            )
            yield Case(anomaly, f"{len(members)} transactions in a cycle, first {names}")


def _edges_of_writes(history: Sequence[Transaction], logs: Logs) -> list[list[int]]:
    edges: list[list[int]] = [[] for _ in history]
    for log in logs.partitions.values():
        writers = [log.writers.get(value, -1) for _, value in log.order()]
        for before, after in pairwise(writer for writer in writers if writer >= 0):
            if before != after:
                edges[before].append(after)
    return edges


def _edges_of_reads(history: Sequence[Transaction], logs: Logs) -> list[list[int]]:
    edges: list[list[int]] = [[] for _ in history]
    for reader, transaction in enumerate(history):
        if not logs.committed[reader]:
            continue
        for read in reads_of(transaction):
            writer = logs.of(read.partition).writers.get(read.value, reader)
            if writer != reader:
                edges[writer].append(reader)
    return edges


def _with_time(
    history: Sequence[Transaction], edges: Sequence[Sequence[int]], logs: Logs
) -> list[list[int]]:
    """The edges, and for each transaction one to those that began after it was completed.

    A chain of extra nodes, one a completion, stands for them: so there are few.
    """
    ordered = [list(edge) for edge in edges]
    moments: list[tuple[float, bool, int]] = []
    for index, transaction in enumerate(history):
        moments.append((transaction.invoked, False, index))
        if logs.committed[index] and transaction.outcome is Outcome.COMMITTED:
            moments.append((transaction.completed, True, index))
    last = -1
    # At equal times begins come first: such transactions were side by side.
    for _, is_end, index in sorted(moments):
        if is_end:
            ordered.append([])
            here = len(ordered) - 1
            if last >= 0:
                ordered[last].append(here)
            ordered[index].append(here)
            last = here
        elif last >= 0:
            ordered[last].append(index)
    return ordered


def worst_realtime_lag_s(history: Sequence[Transaction], logs: Logs) -> float:
    """The longest time between the moment when a next record was certainly committed and the begin
    of a poll that, however early it was served, had not come to it."""
    expiries = {partition: _expiry(log) for partition, log in _stamped(history, logs).items()}
    positions: dict[int, dict[str, int]] = {}
    worst = 0.0
    for transaction in history:
        position = positions.setdefault(transaction.process, {})
        is_poll = False
        for step in transaction.steps:
            if isinstance(step, Assigned):
                position = {each: position.get(each, -1) for each in step.partitions}
                positions[transaction.process] = position
            elif isinstance(step, Polled):
                is_poll = True
                for partition, offset, _ in step.reads:
                    position[partition] = max(position.get(partition, -1), offset)
        if not is_poll or transaction.outcome is not Outcome.COMMITTED:
            continue
        for partition, offset in position.items():
            offsets, times = expiries.get(partition, ([], []))
            following = bisect_right(offsets, offset)
            if following < len(offsets):
                worst = max(worst, transaction.invoked - times[following])
    return worst


def _stamped(history: Sequence[Transaction], logs: Logs) -> dict[str, dict[int, float]]:
    """When each offset of each partition was certainly there: at the first end that shows it."""
    stamps: dict[str, dict[int, float]] = {}
    for index, transaction in enumerate(history):
        seen = [(read.partition, read.offset) for read in reads_of(transaction)]
        if logs.committed[index] and transaction.outcome is Outcome.COMMITTED:
            sends = sends_of(transaction)
            seen += [(each.partition, each.offset) for each in sends if each.offset is not None]
        for partition, offset in seen:
            times = stamps.setdefault(partition, {})
            times[offset] = min(times.get(offset, transaction.completed), transaction.completed)
    return stamps


def _expiry(stamps: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """All offsets in their order, and when each or a later one was there first."""
    offsets = sorted(stamps)
    times = [stamps[offset] for offset in offsets]
    for at in range(len(times) - 2, -1, -1):
        times[at] = min(times[at], times[at + 1])
    return offsets, times

"""What clients did to a cluster, as a history that `checker.py` can judge.

Each client process writes an event when it begins an act and another when it knows the outcome; an
act that never ends has only the first. `transactions` folds the events of all processes into
transactions, in the model of Jepsen's workload for Kafka (jepsen.tests.kafka): a send or a poll
outside of a transaction is one by itself. Values are unique within a partition, and all processes
share one clock.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple


class Act(StrEnum):
    """What a process does."""

    SEND = "send"
    POLL = "poll"
    COMMIT = "commit"
    ABORT = "abort"
    ASSIGN = "assign"
    CRASH = "crash"


class Phase(StrEnum):
    """What an event says of an act: Jepsen's invoke, ok, fail and info."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    """It did not take place, and never will."""
    INFO = "info"
    """It may have taken place, or may yet."""


class Read(NamedTuple):
    """One record that a poll returned."""

    partition: str
    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class Event:
    """The begin or the end of an act.

    `transaction` is 0 outside of one, and otherwise unique within its process. A completed send has
    an offset if the broker said it; a completed poll has `reads`, in the order in which they came.
    After an assignment a process goes on where it was in `partitions`, and anywhere in all others.
    """

    at: float
    process: int
    act: Act
    phase: Phase
    transaction: int = 0
    partition: str = ""
    value: int = -1
    offset: int = -1
    reads: tuple[Read, ...] = ()
    partitions: tuple[str, ...] = ()

    def encoded(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decode_event(line: str) -> Event:
    """The event of a line that `encoded` made. Raises ValueError for one that is torn."""
    fields = json.loads(line)
    reads = tuple(Read(*each) for each in fields.pop("reads"))
    partitions = tuple(fields.pop("partitions"))
    act, phase = Act(fields.pop("act")), Phase(fields.pop("phase"))
    return Event(act=act, phase=phase, reads=reads, partitions=partitions, **fields)


class Outcome(StrEnum):
    """What became of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """It is not, and never will be, in the log of a read_committed consumer."""
    UNKNOWN = "unknown"


class Sent(NamedTuple):
    """One send: the offset is None unless it was acknowledged with one."""

    partition: str
    value: int
    offset: int | None


class Polled(NamedTuple):
    """One poll."""

    reads: tuple[Read, ...]


class Assigned(NamedTuple):
    """The partitions in which a process goes on where it was; elsewhere it begins again."""

    partitions: frozenset[str]


Step = Sent | Polled | Assigned


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one process did at once, and what became of it; times are seconds of one clock."""

    process: int
    outcome: Outcome
    invoked: float
    completed: float
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Open:
    """A transaction that is not completed."""

    begin: int
    process: int
    invoked: float
    steps: list[Step]
    sends: dict[tuple[str, int], int]
    """The place in `steps` of each send."""
    outcome: Outcome

    def send(self, partition: str, value: int) -> None:
        self.sends[partition, value] = len(self.steps)
        self.steps.append(Sent(partition, value, None))

    def acknowledge(self, event: Event) -> None:
        at = self.sends[event.partition, event.value]
        offset = None if event.offset < 0 else event.offset
        self.steps[at] = Sent(event.partition, event.value, offset)


_ENDS = {Phase.OK: Outcome.COMMITTED, Phase.FAIL: Outcome.ABORTED, Phase.INFO: Outcome.UNKNOWN}
"""The outcome of a send, a poll or a commit."""

_Key = tuple[int, int] | tuple[int, str, int]


class _Folding:
    """Folds events into transactions."""

    def __init__(self) -> None:
        self._begun = 0
        self.closed: list[tuple[int, Transaction]] = []
        """Each with the number of transactions that began before it."""
        self._open: dict[_Key, _Open] = {}
        self._of_process: dict[int, dict[_Key, None]] = {}

    def apply(self, event: Event) -> None:
        match event.act:
            case Act.SEND:
                self._send(event)
            case Act.POLL:
                self._poll(event)
            case Act.ASSIGN:
                self._assign(event, frozenset(event.partitions))
            case Act.COMMIT | Act.ABORT:
                self._end(event)
            case Act.CRASH:
                self.crash(event.process, event.at)
                self._assign(event, frozenset())

    def crash(self, process: int, at: float) -> None:
        """End what the process has open: without a commit or an acknowledgement nobody knows."""
        for key in list(self._of_process.get(process, {})):
            self._close(key, at)

    def crash_all(self, at: float) -> None:
        for process in list(self._of_process):
            self.crash(process, at)

    def _begin(self, key: _Key, event: Event, outcome: Outcome) -> _Open:
        begun = self._open.get(key)
        if begun is None:
            begun = self._made(event, outcome)
            self._open[key] = begun
            self._of_process.setdefault(event.process, {})[key] = None
        return begun

    def _made(self, event: Event, outcome: Outcome) -> _Open:
        self._begun += 1
        return _Open(self._begun, event.process, event.at, [], {}, outcome)

    def _close(self, key: _Key, at: float) -> None:
        done = self._open.pop(key)
        del self._of_process[done.process][key]
        self._complete(done, at)

    def _complete(self, done: _Open, at: float) -> None:
        steps = tuple(done.steps)
        made = Transaction(done.process, done.outcome, done.invoked, at, steps)
        self.closed.append((done.begin, made))

    def _send(self, event: Event) -> None:
        alone = event.transaction == 0
        key: _Key = (event.process, event.transaction)
        if alone:
            key = (event.process, event.partition, event.value)
        if event.phase is not Phase.INVOKE and not self._is_open(key, event):
            return  # an answer that came after a crash or an abort changes nothing
        # What a transaction has sent is aborted unless it is committed later.
        begun = self._begin(key, event, Outcome.UNKNOWN if alone else Outcome.ABORTED)
        if event.phase is Phase.INVOKE:
            begun.send(event.partition, event.value)
            return
        if event.phase is Phase.OK:
            begun.acknowledge(event)
        if alone:
            begun.outcome = _ENDS[event.phase]
            self._close(key, event.at)

    def _is_open(self, key: _Key, event: Event) -> bool:
        begun = self._open.get(key)
        return begun is not None and (event.partition, event.value) in begun.sends

    def _poll(self, event: Event) -> None:
        key: _Key = (event.process, event.transaction)
        alone = event.transaction == 0
        begun = self._begin(key, event, Outcome.UNKNOWN if alone else Outcome.ABORTED)
        if event.phase is Phase.INVOKE:
            return
        if event.phase is Phase.OK:
            begun.steps.append(Polled(event.reads))
        if alone:
            begun.outcome = _ENDS[event.phase]
            self._close(key, event.at)

    def _assign(self, event: Event, partitions: frozenset[str]) -> None:
        if event.phase is Phase.INVOKE:
            return
        step = Assigned(partitions)
        key: _Key = (event.process, event.transaction)
        if event.transaction and event.act is Act.ASSIGN:
            self._begin(key, event, Outcome.ABORTED).steps.append(step)
        else:
            alone = self._made(event, Outcome.COMMITTED)
            alone.steps.append(step)
            self._complete(alone, event.at)

    def _end(self, event: Event) -> None:
        key: _Key = (event.process, event.transaction)
        begun = self._begin(key, event, Outcome.ABORTED)
        if event.act is Act.COMMIT:
            # From here on the coordinator may have the request, whatever response the client gets.
            is_begin = event.phase is Phase.INVOKE
            begun.outcome = Outcome.UNKNOWN if is_begin else _ENDS[event.phase]
        if event.phase is Phase.OK:
            self._close(key, event.at)


def transactions(events: Iterable[Event]) -> list[Transaction]:
    """Fold events, in the order of their times, into transactions, in the order of their begins.

    What is open when a process crashes, or at the end, is aborted if it is a transaction that was
    not about to commit, and otherwise unknown. A commit that failed may be followed by an abort.
    """
    folding = _Folding()
    at = 0.0
    for event in events:
        at = event.at
        folding.apply(event)
    folding.crash_all(at)
    folding.closed.sort(key=lambda closed: closed[0])
    return [transaction for _, transaction in folding.closed]

"""A model of Kafka's log with transactions, and processes that send and poll in it as allowed.

What they do is drawn from outside, a number at a time, so that a test can shrink it. Their history
must not show anything that Kafka does not allow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tierlog.bench.harness.checker.history import Act, Event, Phase, Read

PARTITIONS = ("p-0", "p-1", "p-2")
_POLLED_MAX = 3


@dataclass(slots=True)
class _Record:
    """A record or, with a value of -1, a marker; `is_open` and then perhaps `is_aborted`."""

    value: int
    is_open: bool = False
    is_aborted: bool = False


@dataclass(slots=True)
class _Process:
    """A client with a producer and a consumer of its own."""

    number: int
    transaction: int = 0
    records: list[tuple[str, _Record]] = field(default_factory=list[tuple[str, _Record]])
    positions: dict[str, int] = field(default_factory=dict[str, int])
    committed: dict[str, int] = field(default_factory=dict[str, int])


class ModelLog:
    """Draws what processes do next until it is told to end, and writes their history."""

    def __init__(self, draw: Callable[[int], int], processes: int = 3) -> None:
        """`draw(n)` gives a number below n."""
        self._draw = draw
        self._logs: dict[str, list[_Record]] = {each: [] for each in PARTITIONS}
        self._processes = [_Process(number) for number in range(processes)]
        self._value = 0
        self._transactions = 0
        self._now = 0.0
        self.events: list[Event] = []

    def act(self) -> None:
        """One act of one process."""
        process = self._processes[self._draw(len(self._processes))]
        match self._draw(8):
            case 0 | 1 | 2:
                self._send(process)
            case 3 | 4:
                self._poll(process, PARTITIONS[self._draw(len(PARTITIONS))], _POLLED_MAX)
            case 5:
                self._end(process, is_commit=True)
            case 6:
                self._end(process, is_commit=self._draw(2) == 0)
            case _:
                self._fail(process)

    def end(self) -> None:
        """End what is open, and let a last process read everything."""
        for process in self._processes:
            self._end(process, is_commit=True)
        reader = self._replaced(len(self._processes) - 1)
        for partition in PARTITIONS:
            self._poll(reader, partition, len(self._logs[partition]))

    def _note(self, process: _Process, act: Act, phase: Phase, **more: object) -> None:
        self._now += 1
        number, transaction = process.number, process.transaction
        event = Event(self._now, number, act, phase, transaction, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # fields by name
        self.events.append(event)

    def _begin_perhaps(self, process: _Process) -> None:
        if process.transaction == 0 and self._draw(2):
            self._transactions += 1
            process.transaction = self._transactions

    def _send(self, process: _Process) -> None:
        self._begin_perhaps(process)
        partition = PARTITIONS[self._draw(len(PARTITIONS))]
        self._value += 1
        self._note(process, Act.SEND, Phase.INVOKE, partition=partition, value=self._value)
        record = _Record(self._value, is_open=process.transaction != 0)
        self._logs[partition].append(record)
        if process.transaction:
            process.records.append((partition, record))
        # The broker may have lost the offset of a batch that was sent again.
        offset = len(self._logs[partition]) - 1 if self._draw(5) else -1
        self._note(
            process, Act.SEND, Phase.OK, partition=partition, value=self._value, offset=offset
        )

    def _poll(self, process: _Process, partition: str, at_most: int) -> None:
        self._note(process, Act.POLL, Phase.INVOKE)
        position = process.positions.get(partition, 0)
        reads: list[Read] = []
        log = self._logs[partition]
        while position < len(log) and not log[position].is_open and len(reads) < at_most:
            record = log[position]
            if not record.is_aborted and record.value >= 0:
                reads.append(Read(partition, position, record.value))
            position += 1
        process.positions[partition] = position
        if process.transaction == 0:
            process.committed = dict(process.positions)
        self._note(process, Act.POLL, Phase.OK, reads=tuple(reads))

    def _decide(self, process: _Process, is_commit: bool) -> None:
        """What the coordinator does."""
        for _, record in process.records:
            record.is_open, record.is_aborted = False, not is_commit
        for partition in {partition for partition, _ in process.records}:
            self._logs[partition].append(_Record(-1))
        process.records = []
        if is_commit:
            process.committed = dict(process.positions)
        else:
            process.positions = dict(process.committed)

    def _end(self, process: _Process, is_commit: bool) -> None:
        if process.transaction == 0:
            return
        act = Act.COMMIT if is_commit else Act.ABORT
        self._note(process, act, Phase.INVOKE)
        self._decide(process, is_commit)
        self._note(process, act, Phase.OK)
        process.transaction = 0

    def _fail(self, process: _Process) -> None:
        """It crashes, perhaps while it commits; another one takes over what it has committed."""
        if process.transaction:
            is_committing = self._draw(2) == 0
            if is_committing:
                self._note(process, Act.COMMIT, Phase.INVOKE)
                if self._draw(2):
                    self._note(process, Act.COMMIT, Phase.INFO)
            self._decide(process, is_committing and self._draw(2) == 0)
            process.transaction = 0
        self._note(process, Act.CRASH, Phase.INFO)
        successor = self._replaced(self._processes.index(process))
        successor.positions = dict(process.committed)
        successor.committed = dict(process.committed)

    def _replaced(self, at: int) -> _Process:
        new = _Process(self._processes[at].number + len(self._processes))
        self._processes[at] = new
        return new

"""Histories that a test writes by hand, act by act; each act takes one second."""

from tierlog.bench.harness.checker.history import Act, Event, Phase, Read, Transaction, transactions

PLACE = "p-0"
OTHER = "p-1"


class Written:
    """A history in the making. Transactions are numbered by whoever writes; 0 is none."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._now = 0.0

    def _note(self, act: Act, process: int, transaction: int, phase: Phase) -> None:
        """An act without anything more to say."""
        self._now += 0.5
        self.events.append(Event(self._now, process, act, Phase.INVOKE, transaction))
        self._now += 0.5
        self.events.append(Event(self._now, process, act, phase, transaction))

    def send(
        self,
        process: int,
        value: int,
        offset: int = -1,
        transaction: int = 0,
        partition: str = PLACE,
        phase: Phase = Phase.OK,
    ) -> "Written":
        """A send, acknowledged with an offset unless `phase` says something else."""
        for each, at in ((Phase.INVOKE, -1), (phase, offset)):
            self._now += 0.5
            self.events.append(
                Event(self._now, process, Act.SEND, each, transaction, partition, value, at)
            )
        return self

    def poll(
        self, process: int, *reads: tuple[int, int], transaction: int = 0, partition: str = PLACE
    ) -> "Written":
        """A poll that returned these pairs of offset and value."""
        made = tuple(Read(partition, offset, value) for offset, value in reads)
        self._now += 0.5
        self.events.append(Event(self._now, process, Act.POLL, Phase.INVOKE, transaction))
        self._now += 0.5
        self.events.append(Event(self._now, process, Act.POLL, Phase.OK, transaction, reads=made))
        return self

    def commit(self, process: int, transaction: int, phase: Phase = Phase.OK) -> "Written":
        self._note(Act.COMMIT, process, transaction, phase)
        return self

    def abort(self, process: int, transaction: int, phase: Phase = Phase.OK) -> "Written":
        self._note(Act.ABORT, process, transaction, phase)
        return self

    def assign(self, process: int, *partitions: str, transaction: int = 0) -> "Written":
        """The process goes on in these partitions, and begins anew in all others."""
        self._now += 1
        self.events.append(
            Event(self._now, process, Act.ASSIGN, Phase.OK, transaction, partitions=partitions)
        )
        return self

    def crash(self, process: int) -> "Written":
        self._now += 1
        self.events.append(Event(self._now, process, Act.CRASH, Phase.INFO))
        return self

    def passes(self, seconds: float) -> "Written":
        """Nothing happens for a while."""
        self._now += seconds
        return self

    @property
    def transactions(self) -> list[Transaction]:
        return transactions(self.events)

"""Processes that send and poll in transactions, and leave a history for the checker.

    python -m …acknowledged.history_client BOOTSTRAP TOPIC PARTITIONS PROCESSES ACTS SEED

Each process has a producer and a consumer of its own, in a thread; now and then one crashes, and
its successor has another number and the same transactional id. One process does without
transactions. After so many acts a last process reads every partition to its end. The history is on
the standard output, one event a line.
"""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, NoReturn, cast

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from ...checker.history import Act, Event, Phase, Read
from .copier import AbortError, HungError, persist, send_offsets

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_TRANSACTION_MS = 60_000
_CALL_S = 60.0
_POLL_S = 0.05
_POLLED_MAX = 20
_STEPS_MAX = 5
_ABORTS = 0.1
_CRASHES = 0.03
_READ_WITHIN_S = 180.0
_ABANDONED: list[object] = []
_PLAIN = 0
"""The place of the process without transactions."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What the processes work on."""

    bootstrap: str
    topic: str
    partitions: int
    processes: int
    acts: int
    seed: int

    def place(self, partition: int) -> str:
        """The name of a partition in the history."""
        return f"{self.topic}-{partition}"


class Journal:
    """The history in the making, which all processes write."""

    def __init__(self, stated: Stated) -> None:
        self._lock = threading.Lock()
        self._stated = stated
        self.process_numbers, self.values, self.transactions = count(1), count(1), count(1)
        self.acts = 0
        self.events: list[Event] = []

    def note(
        self, process: int, act: Act, phase: Phase, transaction: int = 0, event: Event | None = None
    ) -> None:
        """Write an event with the time of now; `event` has what more there is to say."""
        with self._lock:
            self.acts += phase is Phase.INVOKE
            now = Event(time.monotonic(), process, act, phase, transaction)
            if event is not None:
                now = replace(event, at=now.at, process=process, transaction=transaction)
            self.events.append(now)

    @property
    def is_full(self) -> bool:
        return self.acts >= self._stated.acts


class _CrashError(Exception):
    """The process is given up, as if it had crashed."""


class _Process:
    """One producer and one consumer with a number of their own."""

    def __init__(
        self, stated: Stated, journal: Journal, place: int, positions: Sequence[int], seed: str
    ) -> None:
        self._stated = stated
        self._journal = journal
        self._chance = random.Random(seed)
        self._number = next(journal.process_numbers)
        self._transaction = 0
        self._is_plain = place == _PLAIN
        name = f"{stated.topic}-{place}"
        transactional: dict[str, object] = {
            "transactional.id": name,
            "transaction.timeout.ms": _TRANSACTION_MS,
        }
        server: dict[str, object] = {"bootstrap.servers": stated.bootstrap, "log_level": 2}
        self._server = server
        plain: dict[str, object] = {"enable.idempotence": True}
        self._producer = Producer({**server, **(plain if self._is_plain else transactional)})
        self._consumer = Consumer(
            {
                **server,
                "group.id": name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            }
        )
        self.positions = list(positions)
        """Where it goes on: what is committed, for a process with transactions."""

    def start(self) -> None:
        """Take over from a predecessor. Raises KafkaException."""
        if not self._is_plain:
            persist(lambda: self._producer.init_transactions(_CALL_S))
        self._seek(is_first=True)

    def _places(self) -> list[TopicPartition]:
        partitions = range(self._stated.partitions)
        return [TopicPartition(self._stated.topic, partition) for partition in partitions]

    def _seek(self, is_first: bool) -> None:
        """Go to where the process goes on, which a first one asks the group's coordinator.

        Later it remembers that: a coordinator that was paused may answer with older offsets until
        it hears that another broker has taken over, as Kafka's may.
        """
        places = self._places()
        if is_first and not self._is_plain:
            committed = self._consumer.committed(places, timeout=_CALL_S)
            self.positions = [max(0, partition.offset) for partition in committed]
        for place, offset in zip(places, self.positions, strict=True):
            place.offset = offset
            if not is_first:
                self._consumer.seek(place)
        if is_first:
            self._consumer.assign(places)

    def close(self) -> None:
        """Leave without a word to anybody but the consumer's sockets."""
        self._consumer.close()

    def _note(self, act: Act, phase: Phase, event: Event | None = None) -> None:
        self._journal.note(self._number, act, phase, self._transaction, event)

    def crash(self) -> None:
        self._note(Act.CRASH, Phase.INFO)

    def send(self) -> None:
        """Send one value, which is acknowledged in a later call of the producer."""
        partition = self._chance.randrange(self._stated.partitions)
        value = next(self._journal.values)
        transaction, place = self._transaction, self._stated.place(partition)

        def note(phase: Phase, offset: int = -1) -> None:
            said = Event(0, 0, Act.SEND, phase, 0, place, value, offset)
            self._journal.note(self._number, Act.SEND, phase, transaction, said)

        def answered(error: "KafkaError | None", message: Message) -> None:
            offset = message.offset()
            if error is None:
                note(Phase.OK, -1 if offset is None else offset)
            else:
                note(Phase.INFO)

        note(Phase.INVOKE)
        self._producer.produce(
            self._stated.topic, str(value).encode(), partition=partition, on_delivery=answered
        )
        self._producer.poll(0)

    def poll(self) -> bool:
        """Poll once; whether something was read. Raises _CrashError if its position is lost."""
        self._note(Act.POLL, Phase.INVOKE)
        reads: list[Read] = []
        for message in self._consumer.consume(_POLLED_MAX, _POLL_S):
            error = message.error()
            if error is not None:
                if error.retriable() or error.name().startswith("_"):
                    continue
                raise _CrashError(error.str())
            partition, offset = cast("int", message.partition()), cast("int", message.offset())
            value = int(message.value() or b"")
            reads.append(Read(self._stated.place(partition), offset, value))
        self._note(Act.POLL, Phase.OK, Event(0, 0, Act.POLL, Phase.OK, reads=tuple(reads)))
        if self._is_plain:
            self.positions = self._positions()
        return bool(reads)

    def _positions(self) -> list[int]:
        positions = self._consumer.position(self._places())
        return [max(0, position.offset) for position in positions]

    def work(self) -> None:
        """Some sends and polls, in one transaction or in none. Raises _CrashError."""
        if self._is_plain:
            self._steps()
            self._producer.flush(_CALL_S)
            return
        self._transaction = next(self._journal.transactions)
        try:
            self._producer.begin_transaction()
            self._steps()
            if self._chance.random() < _ABORTS:
                raise AbortError
            places = [
                partition
                for partition in self._consumer.position(self._places())
                if partition.offset >= 0
            ]
            if places:
                member = self._consumer.consumer_group_metadata()
                send_offsets(self._producer, places, member)
            self._commit()
            for place in places:
                self.positions[place.partition] = place.offset
        except AbortError:
            # librdkafka gives the sequence numbers of records that it purges at an abort to the
            # next ones, which the broker takes for retries if the former had reached it.
            self._producer.flush(_CALL_S)
            self._note(Act.ABORT, Phase.INVOKE)
            persist(lambda: self._producer.abort_transaction(_CALL_S))
            self._note(Act.ABORT, Phase.OK)
            self._transaction = 0
            self._seek(is_first=False)
        self._transaction = 0

    def _commit(self) -> None:
        self._note(Act.COMMIT, Phase.INVOKE)
        try:
            persist(lambda: self._producer.commit_transaction(_CALL_S))
        except AbortError:
            self._note(Act.COMMIT, Phase.FAIL)
            raise
        except KafkaException:
            self._note(Act.COMMIT, Phase.INFO)
            raise
        self._note(Act.COMMIT, Phase.OK)

    def _steps(self) -> None:
        for _ in range(self._chance.randint(1, _STEPS_MAX)):
            if self._chance.random() < _CRASHES:
                raise _CrashError
            if self._chance.random() < 0.6:
                self.send()
            else:
                self.poll()

    def read_to_end(self) -> None:
        """Poll until every partition is read to its end. Raises TimeoutError."""
        deadline = time.monotonic() + _READ_WITHIN_S
        # Where the ends are is a question to brokers that may be down: only after the last record.
        while self.poll() or not self._is_at_end():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._stated.topic} is not read: {self._positions()}.")

    def _is_at_end(self) -> bool:
        """Whether nothing is left to read; no, if a broker does not say so.

        The end is that of everything: a transaction of a process that has crashed may still be
        open, and what was committed behind it can only be read when its time is over.
        """
        # To a reader of committed records the end is where the first open transaction begins.
        of_all = {"group.id": "ends", "isolation.level": "read_uncommitted"}
        asking = Consumer({**self._server, **of_all})
        try:
            ends = [
                asking.get_watermark_offsets(place, timeout=_CALL_S)[1] for place in self._places()
            ]
        except KafkaException:
            return False
        finally:
            asking.close()
        return all(at >= end for at, end in zip(self._positions(), ends, strict=True))


def _run(stated: Stated, journal: Journal, place: int, errors: list[str]) -> None:
    """One process after the other in the same place, until the history is long enough."""
    chance = random.Random(f"{stated.seed} {place}")
    positions: Sequence[int] = [0] * stated.partitions
    abandoned: list[_Process] = []  # a client that hangs would hang the thread that frees it
    while not journal.is_full:
        process = _Process(stated, journal, place, positions, str(chance.random()))
        try:
            process.start()
            while not journal.is_full:
                process.work()
        except HungError:
            process.crash()
            abandoned.append(process)
        except (KafkaException, AbortError, _CrashError) as error:
            process.crash()
            if error.args:
                errors.append(f"{type(error).__name__}: {error}")
        positions = process.positions
        if process not in abandoned:
            process.close()
    _ABANDONED.extend(abandoned)


def run(stated: Stated) -> Journal:
    """Work with all processes until there are enough acts, and read everything at the end."""
    journal, errors, threads = Journal(stated), list[str](), list[threading.Thread]()
    work: Callable[..., None] = _run
    for place in range(stated.processes):
        arguments = (stated, journal, place, errors)
        threads.append(threading.Thread(target=work, args=arguments, name=f"process-{place}"))
        threads[-1].start()
    for thread in threads:
        thread.join()
    read_everything(stated, journal)
    for error in errors:
        print(error, file=sys.stderr)
    return journal


def read_everything(stated: Stated, journal: Journal) -> None:
    """Read every partition to its end, as one more process. Raises TimeoutError."""
    reader = _Process(stated, journal, _PLAIN, [0] * stated.partitions, "reader")
    reader.start()
    reader.read_to_end()
    reader.close()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    bootstrap, topic, *numbers = sys.argv[1:] if arguments is None else arguments
    journal = run(Stated(bootstrap, topic, *(int(number) for number in numbers)))
    for event in journal.events:
        print(event.encoded())
    sys.stdout.flush()
    # Clients that hang do not close.
    os._exit(0)


if __name__ == "__main__":
    main()

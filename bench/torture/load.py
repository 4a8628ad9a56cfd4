"""The clients of a torture run: producers of every library, copiers, and histories.

Each works on topics of its own until it is stopped. A client that ends by itself is started again:
a producer on a new topic, because it counts its records from 0.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from ..harness.checker.acknowledged import Acknowledged
from ..harness.cluster_runs.exactly_once import (
    Copier,
    JudgedHistory,
    create_under_faults,
    judged_history,
)
from ..harness.loads.acknowledged.producers import JAVA, SteadyProducer
from ..harness.loads.acknowledged.steady_producers import LIBRDKAFKA, Stated
from ..harness.measurement_error import MeasurementError

if TYPE_CHECKING:
    import subprocess

PARTITIONS = 3
RATE = 100
RECORD_BYTES = 512
COPIED_RATE = 30
COPIED_BYTES = 100
SOURCE = "torture-source"
"""The topic that copiers read."""

_TEND_S = 1.0
_STARTS_MAX = 50
_JOIN_S = 900.0


class Answered(NamedTuple):
    """What was acknowledged of one topic."""

    client: str
    topic: str
    acknowledged: Acknowledged


class _Tail:
    """Counts the acknowledgements in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._count = 0

    def count(self) -> int:
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        self._count += whole.count(b"\na ") + whole.startswith(b"a ")
        return self._count


class Producing:
    """One library's producer, which is started again on a new topic when it ends by itself."""

    def __init__(
        self, client: str, name: str, stated: Stated, directory: Path, config: Mapping[str, str]
    ) -> None:
        """`stated.topic` is the first one, which must exist; `config` is that of later ones."""
        self.client = client
        self.name = name
        self._stated = stated
        self._directory = directory
        self._config = config
        self._producers = [SteadyProducer(client, stated, directory)]
        self._tails = [_Tail(self._producers[0].output)]
        self.ended_by_itself: list[str] = []
        """What it said each time."""

    def records(self) -> int:
        """How many records were acknowledged so far."""
        return sum(tail.count() for tail in self._tails)

    def tend(self) -> None:
        """Start it again if it has ended. Raises MeasurementError if no topic can be created."""
        if not self._producers[-1].has_ended() or len(self._producers) >= _STARTS_MAX:
            return
        self.ended_by_itself.append(f"{self.name}: {self._producers[-1].said()}")
        old = self._stated
        topic = f"{old.topic}-{len(self._producers) + 1}"
        create_under_faults(old.bootstrap, topic, self._config)
        stated = Stated(old.bootstrap, topic, old.partitions, old.rate, old.record_bytes)
        producer = SteadyProducer(self.client, stated, self._directory)
        self._tails.append(_Tail(producer.output))
        self._producers.append(producer)

    def stop(self) -> str | None:
        """End it, and wait until all is answered; returns what went wrong."""
        last = self._producers[-1]
        if last.has_ended():
            return None
        try:
            last.stop()
        except MeasurementError as error:
            return str(error)
        return None

    def kill(self) -> None:
        for producer in self._producers:
            producer.kill()

    def answered(self) -> list[Callable[[], Answered]]:
        """What was acknowledged of each of its topics, read when it is called."""
        return [
            lambda producer=each: Answered(  # type: ignore[misc]  # bound now
                self.name, producer.stated.topic, producer.acknowledged()
            )
            for each in self._producers
        ]


@dataclass(slots=True)
class Histories:
    """The histories of a run so far."""

    judged: dict[str, JudgedHistory] = field(default_factory=dict[str, JudgedHistory])
    """By topic."""
    inconclusive: list[str] = field(default_factory=list[str])
    """Why a history did not come to its end."""


@dataclass(frozen=True, slots=True)
class Stress:
    """Which clients work, and on what."""

    producers: Sequence[str]
    copiers: Sequence[str]
    """Each copies `SOURCE` to a topic of its own, in transactions."""
    acts: int
    """Of each history; 0 for no histories."""
    config: Mapping[str, str]
    """Of untiered topics."""
    tiered_config: Mapping[str, str] | None = None
    """Of every other producer's topic; None if there is no tier."""

    def config_of(self, place: int) -> Mapping[str, str]:
        """The configuration of the topics of a producer."""
        is_tiered = self.tiered_config is not None and place % 2 == 0
        return (self.tiered_config or {}) if is_tiered else self.config


class Pulse:
    """Whether work goes on: something was acknowledged since it last did."""

    def __init__(self, records: Callable[[], int]) -> None:
        self._records = records
        self._before = 0
        self._lock = threading.Lock()

    def beats(self) -> bool:
        """Whether there are more records than when this was last true."""
        with self._lock:
            now = self._records()
            has_moved = now > self._before
            if has_moved:
                self._before = now
            return has_moved


class Load:
    """All clients of a run. Use as a context manager, which ends them at once at the end."""

    def __init__(self, bootstrap: str, directory: Path, stress: Stress, seed: int) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._stress = stress
        self._seed = seed
        self._ends = threading.Event()
        self._count_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._stack = ExitStack()
        self.producing: list[Producing] = []
        self.copiers: dict[str, Copier] = {}
        self.histories = Histories()
        self.errors: list[str] = []
        self._history: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._stack.close()
        for each in self.producing:
            each.kill()
        if self._history is not None:
            self._history.kill()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _start(self) -> None:
        for place, client in enumerate(self._stress.producers):
            config = self._stress.config_of(place)
            stated = Stated(self._bootstrap, f"torture-{client}", PARTITIONS, RATE, RECORD_BYTES)
            self._produce(client, client, stated, config)
        if self._stress.copiers:
            stated = Stated(self._bootstrap, SOURCE, PARTITIONS, COPIED_RATE, COPIED_BYTES)
            self._produce(LIBRDKAFKA, "source of copies", stated, self._stress.config)
        for client in self._stress.copiers:
            target = f"torture-copy-{client}"
            create_under_faults(self._bootstrap, target, self._stress.config)
            log = self._directory / f"copier-{client}.log"
            log.touch()
            copier = Copier(client, self._bootstrap, SOURCE, target, log)
            self.copiers[client] = self._stack.enter_context(copier)
        if self._stress.acts:
            self._run(self._make_histories, "histories")

    def _produce(self, client: str, name: str, stated: Stated, config: Mapping[str, str]) -> None:
        create_under_faults(self._bootstrap, stated.topic, config)
        each = Producing(client, name, stated, self._directory, config)
        self.producing.append(each)
        self._run(lambda: self._tend(each), name)

    def _run(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name)
        self._threads.append(thread)
        thread.start()

    def _tend(self, producing: Producing) -> None:
        while not self._ends.wait(_TEND_S):
            try:
                producing.tend()
            except MeasurementError as error:
                self.errors.append(str(error))

    def _make_histories(self) -> None:
        number = 0
        while not self._ends.is_set():
            topic, number = f"torture-history-{number}", number + 1
            try:
                judged = judged_history(
                    self._bootstrap,
                    self._directory,
                    topic,
                    self._stress.acts,
                    self._seed + number,
                    self._note_history,
                )
            except MeasurementError as error:
                self.histories.inconclusive.append(str(error))
            else:
                self.histories.judged[topic] = judged

    def _note_history(self, process: "subprocess.Popen[bytes]") -> None:
        self._history = process

    def records(self) -> int:
        """How many records were acknowledged to producers so far."""
        with self._count_lock:
            return sum(each.records() for each in self.producing)

    def stop(self) -> list[str]:
        """End producers and histories, and wait until all is answered; returns what went wrong.

        Copiers go on, until this context ends.
        """
        self._ends.set()
        with ThreadPoolExecutor(max(1, len(self.producing))) as threads:
            wrong = list(threads.map(Producing.stop, self.producing))
        for thread in self._threads:
            thread.join(_JOIN_S)
        return [*self.errors, *(each for each in wrong if each is not None)]


def copiers_of(clients: Sequence[str]) -> list[str]:
    """Those of the clients for which there is a copier."""
    return [client for client in (LIBRDKAFKA, JAVA) if client in clients]

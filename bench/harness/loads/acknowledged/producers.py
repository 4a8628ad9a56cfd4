"""The producers of a chaos run, one process for each client library, and what they have printed."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...checker.acknowledged import Acknowledged, parse_answers
from ...measurement_error import MeasurementError
from ...processes.kafka_peer import KAFKA_VERSION, RECIPE, kafka_jars
from ..defaults.programs import built_from
from .steady_producers import AIOKAFKA, LIBRDKAFKA, Stated

_HERE = Path(__file__).resolve().parent
_FLUSHED_WITHIN_S = 300.0
_HEAP = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

JAVA = "Java"
FRANZ_GO = "franz-go"


def java_classes() -> str:
    """The class path of the programs of `java/`, compiled if necessary."""
    sources = sorted(path.name for path in (_HERE / "java").glob("*.java"))
    command = ("javac", "-d", ".", "-cp", f"{kafka_jars()}/*", *sources)
    folder = built_from(_HERE / "java", "chaos-java", command)
    return f"{kafka_jars()}/kafka-clients-{KAFKA_VERSION}.jar:{folder}:{kafka_jars()}/*"


def java_program(main_class: str) -> list[str]:
    """The command that runs one of them."""
    logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
    return ["java", *_HEAP, logging, "-cp", java_classes(), main_class]


def _java() -> list[str]:
    return java_program("SteadyProducer")


def _franz_go() -> list[str]:
    folder = built_from(_HERE / "go", "chaos-go", ("go", "build", "-o", "steady", "."))
    return [str(folder / "steady")]


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"{__package__}.steady_producers", name]


_PROGRAMS: dict[str, tuple[tuple[str, ...], Callable[[], list[str]]]] = {
    JAVA: (("java", "javac", "mvn"), _java),
    LIBRDKAFKA: ((), _python(LIBRDKAFKA)),
    FRANZ_GO: (("go",), _franz_go),
    AIOKAFKA: ((), _python(AIOKAFKA)),
}
"""What each client needs on the PATH, and the command that it runs with."""


def missing_of(name: str) -> list[str]:
    """The programs that a client needs and this machine does not have."""
    needs, _ = _PROGRAMS[name]
    return [each for each in needs if shutil.which(each) is None]


CLIENTS = tuple(_PROGRAMS)
"""The names of all clients."""


def clients_here() -> list[str]:
    """The names of the clients that this machine can run."""
    return [name for name in CLIENTS if not missing_of(name)]


class SteadyProducer:
    """A client that produces until it is stopped."""

    def __init__(self, name: str, stated: Stated, directory: Path) -> None:
        self.name = name
        self.stated = stated
        self._output = directory / f"{stated.topic}.acknowledged"
        self._errors = directory / f"{stated.topic}.errors"
        _, command = _PROGRAMS[name]
        words = (stated.bootstrap, stated.topic, stated.partitions, stated.rate)
        arguments = [*command(), *map(str, words), str(stated.record_bytes)]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=output, stderr=errors
            )

    def stop(self) -> Acknowledged:
        """End the input, and wait until all that was sent is answered.

        Raises MeasurementError if the client fails.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(_FLUSHED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MeasurementError(
                f"{self.name} still waited for answers {_FLUSHED_WITHIN_S:g} s after the last fault"
            ) from None
        if code:
            raise MeasurementError(f"{self.name} ended with exit code {code}:\n{self.said()}")
        return self.acknowledged()

    def has_begun(self) -> bool:
        """Whether it has printed an acknowledgement: a JVM takes seconds to begin."""
        return self._output.stat().st_size > 0

    def has_ended(self) -> bool:
        """Whether the client has ended by itself, or was stopped."""
        return self._process.poll() is not None

    def said(self) -> str:
        """The end of what it has printed about its errors."""
        return self._errors.read_text(errors="replace")[-2_000:]

    def acknowledged(self) -> Acknowledged:
        """What it has printed so far about answers, but for a line that it is writing."""
        with self._output.open() as lines:
            return parse_answers(line for line in lines if line.endswith("\n"))

    @property
    def output(self) -> Path:
        """Where it prints them."""
        return self._output

    def kill(self) -> None:
        """End it at once, if it has not ended; nothing of it stays open."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


@contextmanager
def producing(
    clients: Sequence[tuple[str, Stated]], directory: Path
) -> Generator[list[SteadyProducer], None, None]:
    """All clients at once, which are killed if they still run at the end."""
    producers: list[SteadyProducer] = []
    try:
        for name, stated in clients:
            producers.append(SteadyProducer(name, stated, directory))
        yield producers
    finally:
        for producer in producers:
            producer.kill()

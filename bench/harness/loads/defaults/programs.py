"""The clients in other languages: what each needs, how it is built, and how it is run.

Each has a folder next to this one with its source and, if it has dependencies, the file that pins
them. It is built once and kept under `~/.cache/tierlog` (or `$XDG_CACHE_HOME`), named by a hash of
the folder's contents and of the build command, so that it is rebuilt after a change.

Every program takes the same arguments, in this order: `produce` or `consume`, HOST:PORT, topic,
group, number of records, record size, number of partitions. It prints one JSON object: `seconds`
and `records` of its rate, and `first_record_s`.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from ...measurement_error import MeasurementError
from ...processes.kafka_peer import KAFKA_VERSION, RECIPE, kafka_jars

_HERE = Path(__file__).resolve().parent
_BUILT_WITHIN_S = 500


@dataclass(frozen=True, slots=True)
class Program:
    """A client program: its folder, the commands that it needs, and how to build and run it."""

    folder: str
    needs: tuple[str, ...]
    build: Callable[[], tuple[str, ...]]
    run: Callable[[Path], tuple[str, ...]]


def _javac() -> tuple[str, ...]:
    return ("javac", "-d", ".", "-cp", f"{kafka_jars()}/*", "DefaultLoad.java")


def _java(folder: Path) -> tuple[str, ...]:
    logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
    classes = f"{kafka_jars()}/kafka-clients-{KAFKA_VERSION}.jar:{folder}:{kafka_jars()}/*"
    return ("java", logging, "-cp", classes, "DefaultLoad")


def _go_build() -> tuple[str, ...]:
    return ("go", "build", "-o", "load", ".")


def _go(client: str) -> Callable[[Path], tuple[str, ...]]:
    return lambda folder: (str(folder / "load"), client)


def _npm() -> tuple[str, ...]:
    return ("npm", "ci", "--no-audit", "--no-fund")


def _node(folder: Path) -> tuple[str, ...]:
    return ("node", str(folder / "load.mjs"))


def _librdkafka() -> Path | None:
    """The library in confluent-kafka's wheel."""
    spec = find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parents[1] / "confluent_kafka.libs"
    return next(folder.glob("librdkafka-*.so*"), None)


def _cc() -> tuple[str, ...]:
    library = _librdkafka()
    assert library is not None, "missing() checks this"
    return ("cc", "-O2", "-o", "load", "load.c", str(library), f"-Wl,-rpath,{library.parent}")


def _c(folder: Path) -> tuple[str, ...]:
    return (str(folder / "load"),)


LIBRDKAFKA = "librdkafka in C"

PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        LIBRDKAFKA: Program("c", ("cc",), _cc, _c),
        "Java": Program("java", ("java", "javac", "mvn"), _javac, _java),
        "franz-go": Program("go", ("go",), _go_build, _go("franz-go")),
        "sarama": Program("go", ("go",), _go_build, _go("sarama")),
        "kafkajs": Program("node", ("node", "npm"), _npm, _node),
    }
)


def missing(name: str) -> str | None:
    """A sentence on what this machine lacks for the program; None if it has everything."""
    lacking = [each for each in PROGRAMS[name].needs if shutil.which(each) is None]
    if lacking:
        return f"the client {name} needs {' and '.join(lacking)} on the PATH"
    if name == LIBRDKAFKA and _librdkafka() is None:
        return f"the client {name} needs the library in confluent-kafka's wheel for Linux"
    return None


def built(name: str) -> Path:
    """The folder with the program, built if necessary. Raises MeasurementError if that fails."""
    program = PROGRAMS[name]
    return built_from(_HERE / program.folder, f"bench-{program.folder}", program.build())


def built_from(source: Path, name: str, command: tuple[str, ...]) -> Path:
    """The folder with what a command makes of a folder's files, named by a hash of both.

    Raises MeasurementError if the command fails.
    """
    files = sorted(path for path in source.iterdir() if path.is_file())
    contents = b"".join(path.name.encode() + path.read_bytes() for path in files)
    digest = hashlib.sha256(contents + "\0".join(command).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierlog"
    folder = home / f"{name}-{digest}"
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        _build(command, files, folder)
    return folder


def _build(command: Sequence[str], files: Sequence[Path], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as directory:
        made = Path(directory) / "made"
        made.mkdir()
        for path in files:
            shutil.copy(path, made)
        done = subprocess.run(
            command, cwd=made, capture_output=True, text=True, timeout=_BUILT_WITHIN_S, check=False
        )
        if done.returncode:
            raise MeasurementError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
        # Another process may have built it meanwhile.
        if not folder.exists():
            made.rename(folder)


def program_command(name: str) -> tuple[str, ...]:
    """The command that runs the program, without arguments; builds the program if necessary."""
    return PROGRAMS[name].run(built(name))

"""Fetches the jars that Spark needs besides its own, in matching versions.

Spark's Kafka connector, like Apache Iceberg and Delta Lake, matches one minor version of Spark
("4.1"). The connector is published for each patch version, but later than PySpark: a PySpark that
is newer than every connector of its minor version gets the newest one. The connector depends on a
token provider of the same version, which is not published, so Spark's `--packages` cannot resolve
the connector. So this module lists every jar itself, with the newest published token provider, and
fetches no transitive dependencies. The extra `spark` in pyproject.toml allows exactly the minor
versions in `LINES`; a test checks this.

PySpark includes Apache Ivy, which fetches from Maven Central, so only Java is needed. The jars are
kept in `~/.cache/tierlog/spark-jars` (or below `$XDG_CACHE_HOME`), and get their final names only
after their SHA-256 matches the one here. `TIERLOG_IVY_SETTINGS` may name an Ivy settings file, for
example for a mirror.

No other module of the Spark clients writes to a folder of its own or starts a process.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from ...clients.errors import ErrorCode, KafkaError

FETCH_TIMEOUT_S = 900

_log = logging.getLogger(__name__)


class Jar(NamedTuple):
    """One jar on Maven Central, and the SHA-256 of the file."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"


LINES = ("4.1",)
"""The supported minor versions of Spark."""

_CONNECTORS = {
    "4.1.0": "a335b885043bbe0d553ab70738418a45eb4cda94a28718e4b62a347046c03723",
    "4.1.1": "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
    "4.1.2": "1dce8c690aea67bba8942eaa0280aa5dbc16e0c7c64bd0b1777b919b36d7ab2e",
    "4.1.3": "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
}
_CONNECTOR_NEEDS = (
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
)
_ICEBERG = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.11.0",
        "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    ),
)
_DELTA = (
    Jar(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.4.0",
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)

KAFKA, ICEBERG, DELTA = KINDS = "kafka", "iceberg", "delta"


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def unknown_kind(kind: str) -> KafkaError:
    """The error for a kind of jars that does not exist."""
    return _refusal(f"no jars are known for {kind!r}; there are kafka, iceberg and delta")


def pyspark_version() -> str:
    """The version of the installed PySpark. Raises KafkaError(INVALID_CONFIG) if there is none."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise _refusal("PySpark is not installed: pip install 'tierlog[spark]'") from None


def jars_of(kind: str, spark_version: str) -> tuple[Jar, ...]:
    """The jars of the Kafka connector, of Iceberg or of Delta for a version of Spark.

    Raises KafkaError(INVALID_CONFIG), which lists the supported versions, for any other version.
    """
    line = ".".join(spark_version.split(".")[:2])
    if line not in LINES:
        raise _refusal(
            f"no jars are known for PySpark {spark_version}, only for {', '.join(LINES)}:"
            f" pip install 'pyspark~={LINES[-1]}.0'"
        )
    if kind == KAFKA:
        newest = [each for each in _CONNECTORS if each.startswith(f"{line}.")][-1]
        version = spark_version if spark_version in _CONNECTORS else newest
        name = "spark-sql-kafka-0-10_2.13"
        connector = Jar("org.apache.spark", name, version, _CONNECTORS[version])
        return (connector, *_CONNECTOR_NEEDS)
    jars_by_kind = {ICEBERG: _ICEBERG, DELTA: _DELTA}
    if kind not in jars_by_kind:
        raise unknown_kind(kind)
    return jars_by_kind[kind]


def jar_paths(kinds: Iterable[str]) -> list[str]:
    """The jar files of these kinds for the installed PySpark; fetches the missing ones."""
    spark_version = pyspark_version()
    jars = [jar for kind in kinds for jar in jars_of(kind, spark_version)]
    folder = _cache()
    if _missing(jars, folder):
        with _exclusively(folder / "fetch.lock"):
            missing = _missing(jars, folder)
            if missing:
                _fetch(missing, folder)
    return [str(folder / jar.file_name) for jar in jars]


def _cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "tierlog" / "spark-jars"


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).is_file()]


@contextmanager
def _exclusively(path: Path) -> Generator[None]:
    """Hold a lock against this machine's other processes, so that only one of them fetches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    names = ", ".join(jar.file_name for jar in jars)
    with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch:
        recipe = Path(scratch) / "ivy.xml"
        recipe.write_text(_recipe(jars))
        answer = _run_ivy(recipe, Path(scratch))
        arrived = [(jar, Path(scratch) / jar.file_name) for jar in jars]
        if answer.returncode != 0 or not all(path.is_file() for _, path in arrived):
            output = (answer.stdout + answer.stderr).strip()[-2000:]
            raise _refusal(f"Maven Central did not give {names}:\n{output}")
        for jar, path in arrived:
            if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
                raise _refusal(f"{jar.file_name} has a wrong checksum")
            path.replace(folder / jar.file_name)


def _recipe(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on exactly these jars, without their dependencies."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.name)} "
        f'rev={quoteattr(jar.version)} transitive="false" conf="default->master(*)"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="tierlog" module="spark-jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _run_ivy(recipe: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    spec = find_spec("pyspark")
    assert spec is not None, "its version was just read"
    assert spec.origin is not None, "PySpark is a package with an __init__.py"
    paths = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not paths:
        raise _refusal("this PySpark comes without Apache Ivy, which is needed to fetch jars")
    command = [java_command(), "-cp", str(paths[-1]), "org.apache.ivy.Main", "-warn"]
    settings = os.environ.get("TIERLOG_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    command += ["-ivy", str(recipe), "-cache", str(scratch / "ivy")]
    command += ["-retrieve", str(scratch / "[artifact]-[revision].[ext]")]
    _log.info("fetching jars for Spark from Maven Central, once")
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _refusal(f"Maven Central did not answer within {FETCH_TIMEOUT_S} s") from None


def java_command() -> str:
    """The path of the java command that Spark will use, from JAVA_HOME or the PATH."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    executable = shutil.which(command)
    if executable is None:
        raise _refusal("Spark needs Java 17 or newer: java is not on the PATH")
    return executable

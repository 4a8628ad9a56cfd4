"""Fetches the jars that Spark needs besides its own: those that `known_jars.py` lists.

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
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from .known_jars import Jar, check_together, jars_of, refusal

FETCH_TIMEOUT_S = 900

_log = logging.getLogger(__name__)


def pyspark_version() -> str:
    """The version of the installed PySpark. Raises KafkaError(INVALID_CONFIG) if there is none."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise refusal("PySpark is not installed: pip install 'tierlog[spark]'") from None


def jar_paths(kinds: Collection[str]) -> list[str]:
    """The jar files of these kinds for the installed PySpark; fetches the missing ones.

    Raises KafkaError(INVALID_CONFIG) if one cannot be had or kept, or two kinds do not go together.
    """
    check_together(kinds)
    spark_version = pyspark_version()
    jars = [jar for kind in kinds for jar in jars_of(kind, spark_version)]
    folder = _cache()
    try:
        if _missing(jars, folder):
            with _exclusively(folder / "fetch.lock"):
                missing = _missing(jars, folder)
                if missing:
                    _fetch(missing, folder)
    except OSError as error:
        raise refusal(
            f"the jars cannot be kept in {folder} ({error.strerror or error}): "
            "name a folder that can be written in XDG_CACHE_HOME"
        ) from None
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
            raise refusal(f"Maven Central did not give {names}:\n{output}")
        for jar, path in arrived:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 != jar.sha256:
                raise refusal(f"{jar.file_name} has a wrong checksum")
            path.replace(folder / jar.file_name)


def _recipe(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on exactly these jars, without their dependencies."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.name)} "
        f'rev={quoteattr(jar.version)} transitive="false" conf="default->master(*)">'
        f"{_variant(jar)}</dependency>"
        for jar in jars
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tierlog" module="spark-jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _variant(jar: Jar) -> str:
    if not jar.classifier:
        return ""
    return f"<artifact name={quoteattr(jar.name)} m:classifier={quoteattr(jar.classifier)}/>"


def _run_ivy(recipe: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    spec = find_spec("pyspark")
    assert spec is not None, "its version was just read"
    assert spec.origin is not None, "PySpark is a package with an __init__.py"
    paths = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not paths:
        raise refusal("this PySpark comes without Apache Ivy, which is needed to fetch jars")
    command = [java_command(), "-cp", str(paths[-1]), "org.apache.ivy.Main", "-warn"]
    settings = os.environ.get("TIERLOG_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    command += ["-ivy", str(recipe), "-cache", str(scratch / "ivy")]
    command += ["-retrieve", str(scratch / "[artifact]-[revision](-[classifier]).[ext]")]
    _log.info("fetching jars for Spark from Maven Central, once")
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise refusal(f"Maven Central did not answer within {FETCH_TIMEOUT_S} s") from None


def java_command() -> str:
    """The path of the java command that Spark will use, from JAVA_HOME or the PATH."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    executable = shutil.which(command)
    if executable is None:
        raise refusal("Spark needs Java 17 or newer: java is not on the PATH")
    return executable

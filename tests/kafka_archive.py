"""An archive of Kafka's classes, as Java has loaded them once: every further Java begins with it.

A Kafka node of a test then starts with a third of the CPU seconds, and a tool with two thirds. Java
writes the archive when a node that was started for it ends (application class data sharing, JEP
350), and does without it where it does not fit. `make test-kafka` and `make test-long` say

    TIERLOG_TEST_KAFKA_FLAGS="$(python -m tierlog.tests.kafka_archive)"

so that figures of `tierlog-bench` come from a Kafka that is started as Kafka's own scripts do.
"""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import (
    KafkaNode,
    KafkaUnavailableError,
    exclusively,
    kafka_jars,
    run_tool,
)

# Tests are over before Java's second compiler has paid for itself.
QUICK = "-XX:TieredStopAtLevel=1"
READY_WITHIN_S = 180
STOPPED_WITHIN_S = 120


class _Rehearsal(KafkaNode):
    """A node that writes down the classes that it has loaded when it ends."""

    def __init__(self, directory: Path, archive: Path) -> None:
        super().__init__(directory, tiered=True, heap="512m")
        self._archive = archive

    def command(self, configuration: Path) -> list[str]:
        java, *rest = super().command(configuration)
        return [java, QUICK, f"-XX:ArchiveClassesAtExit={self._archive}", *rest]


def archive() -> Path:
    """The archive for this machine's Java, made if missing. Raises KafkaUnavailableError."""
    jars = kafka_jars()
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    path = jars.with_name(f"{jars.name}-{hashlib.sha256(version).hexdigest()[:16]}.jsa")
    if not path.exists():
        with exclusively(jars.with_name("archive.lock")):
            if not path.exists():
                _make(path)
    return path


def _make(path: Path) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        node = _Rehearsal(Path(directory), unfinished)
        try:
            node.start(READY_WITHIN_S)
            server = ("--bootstrap-server", node.bootstrap)
            run_tool("kafka-topics", *server, "--create", "--topic", "a")
        finally:
            node.stop(STOPPED_WITHIN_S)
    unfinished.rename(path)


def main() -> None:
    """Print the flags; nothing where there is no Kafka on this machine."""
    try:
        print(f"{QUICK} -XX:SharedArchiveFile={archive()}")
    except KafkaUnavailableError:
        return


if __name__ == "__main__":
    main()

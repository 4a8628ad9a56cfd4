"""Apache Kafka, started on one directory after another in one Java: `java/Starts.java`.

A start of a virtual machine takes longer than a start of Kafka in one that runs. Where Kafka
refuses a start its machine ends, and the next start has a new one.
"""

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tierlog.bench.harness.processes.kafka_peer import RECIPE, kafka_jars, node_properties
from tierlog.bench.harness.requests.probe import free_port

_PROGRAM = Path(__file__).parent / "java" / "Starts.java"
_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
_TIMEOUT_S = 60


class KafkaAgain:
    """A Java that is there while it is needed. `said` is where Kafka's log lines go."""

    def __init__(self, said: Path) -> None:
        self._said = said
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, directory: Path, stated: Mapping[str, str]) -> int | None:
        """Start on `<directory>/logs`; the port, or None where Kafka does not start."""
        port = free_port()
        properties = {**node_properties(directory, port, free_port(), tiered=False), **stated}
        file = directory / "kafka.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return port if self._ask(str(file)) == "up" else None

    def stop(self) -> None:
        """Stop what was started; a Kafka that has ended by itself is gone already."""
        self._ask("stop")

    def _ask(self, line: str) -> str:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline().decode().strip()
        except BrokenPipeError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer:
            self._end()
        return answer

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
            with self._said.open("ab") as said:
                self._process = subprocess.Popen(
                    ["java", *_FLAGS, logging, "-cp", f"{kafka_jars()}/*", str(_PROGRAM)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

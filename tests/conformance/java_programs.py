"""Shared by tests: programs in `java/` that answer with Kafka's own classes."""

import subprocess
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import kafka_jars
from tierlog.tests.recordings.printed_lines import printed_lines

JAVA = Path(__file__).parent / "java"


def answers_of(program: str, lines: list[str]) -> list[str]:
    """What one of the programs in `java/` answers to each line; from the recording, or by Java."""
    asked = [f"{program} {line!r}" for line in lines] or [program]
    return printed_lines(asked, lambda: run_java(program, lines))


def run_java(program: str, lines: list[str]) -> list[str]:
    """Run one of the programs in `java/` beside Kafka's jars; its answer to each line."""
    flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
    command = ["java", *flags, "-cp", f"{kafka_jars()}/*", str(JAVA / program)]
    answer = subprocess.run(
        command,
        input="\n".join([*lines, ""]),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split("\n")[:-1]

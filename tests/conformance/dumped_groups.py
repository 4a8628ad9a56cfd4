"""Shared by tests: the records of groups as Kafka's dump tool prints them."""

import re
from itertools import groupby
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import run_tool

# What each cluster draws or measures for itself.
OWN = re.compile(
    r'"(commitTimestamp|assignmentTimestamp|timestamp|version|topicId|metadataHash)"'
    r':("[^"]*"|-?\d+)'
)


def dumped(directory: Path) -> list[str]:
    """Key and value of every record, as Kafka's dump tool prints them."""
    file = directory / "__consumer_offsets-0" / "00000000000000000000.log"
    printed = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(file)).stdout
    return [
        line[line.index(" key: ") :]
        for line in printed.splitlines()
        if line.startswith("| offset:")
    ]


def comparable(log: list[str]) -> list[str]:
    """Without what is each cluster's own; neighbours of one type in the order of their text."""
    lines = [OWN.sub(r'"\1":…', line) for line in log]
    runs = (sorted(run) for _, run in groupby(lines, key=lambda line: line.split(",")[0]))
    return [line for run in runs for line in run]

"""Shared by tests: two log directories and Kafka's tools on them."""

import json
from pathlib import Path

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from ..broker_process import RawClient

TOPIC = "orders"
DIRECTORIES = ("logs", "second")


def properties(directory: Path) -> dict[str, str]:
    paths = ",".join(str(directory / name) for name in DIRECTORIES)
    return {"log.dirs": paths, "node.id": "1", "offsets.topic.num.partitions": "1"}


def tool(node: BrokerNode, name: str, *arguments: str) -> str:
    server = ("--bootstrap-server", node.bootstrap)
    answer = run_tool(name, *server, *arguments, check=False)
    errors = [line for line in answer.stderr.splitlines() if not line.startswith("\tat ")]
    return "\n".join([answer.stdout, *errors])


def is_log(directory: Path) -> bool:
    """Whether the partition's log is in this log directory."""
    return (directory / f"{TOPIC}-0").is_dir()


def home(directory: Path) -> str:
    """The log directory that has the partition's log."""
    (found,) = [name for name in DIRECTORIES if is_log(directory / name)]
    return found


def other(name: str) -> str:
    return DIRECTORIES[1 - DIRECTORIES.index(name)]


class Plan:
    """A file for kafka-reassign-partitions that moves the partition to a directory."""

    def __init__(self, node: BrokerNode, path: Path) -> None:
        self._node = node
        self._file = node.directory / "plan.json"
        move = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [str(path)]}
        self._file.write_text(json.dumps({"version": 1, "partitions": [move]}))

    def __call__(self, *arguments: str) -> str:
        plan = ("--reassignment-json-file", str(self._file))
        return tool(self._node, "kafka-reassign-partitions", *plan, *arguments)

    def is_done(self) -> bool:
        return "completed successfully" in self("--verify")


def described(node: BrokerNode) -> dict[tuple[str, bool], tuple[int, int]]:
    """Size and lag of the partition's logs, by directory and whether it is a future one."""
    with RawClient(node.port) as client:
        answer = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    return {
        (Path(result.log_dir).name, log.is_future_key): (log.partition_size, log.offset_lag)
        for result in answer.results
        for topic in result.topics
        if topic.name == TOPIC
        for log in topic.partitions
    }

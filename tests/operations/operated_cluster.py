"""Three processes as the three machines of docs/operations.md, and its commands run on them.

What stands on the page for a machine is replaced: addresses, paths of files and directories.
`systemctl` starts and ends processes here; `curl` is a request of Python's. All else runs as it is.
"""

import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.cluster import Cluster, combined
from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.waiting import wait_until

NODES = (1, 2, 3)
TOPIC = "orders"
WITHIN_S = 120.0
PROPERTIES: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "tierlog.broker.death.hint": "true",
    "tierlog.broker.clean.restart": "true",
    # Short, so that a story about the tier is short.
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
}
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
_TOOL_S = 120.0


class OperatedCluster:
    """See the top of this file."""

    def __init__(self, directory: Path, tier: Mapping[str, str]) -> None:
        self.directory = directory
        self.cluster = Cluster(
            directory, combined("tierlog", "tierlog", "tierlog"), {**PROPERTIES, **tier}
        )
        self._metrics = {node_id: free_port() for node_id in NODES}
        self.variables: dict[str, str] = {}
        for node_id, port in self._metrics.items():
            self.cluster.nodes[node_id].state({"tierlog.metrics.port": str(port)})

    def _replaced(self, line: str) -> str:
        """A line of the page with what this cluster has in the places of its machines."""
        for node_id, node in self.cluster.nodes.items():
            port = 9092 + 100 * (node_id - 1)
            line = line.replace(f"127.0.0.1:{port}", node.bootstrap)
            line = line.replace(
                f"127.0.0.1:{9404 + 100 * (node_id - 1)}", f"127.0.0.1:{self._metrics[node_id]}"
            )
            line = line.replace(
                f"/etc/tierlog/node{node_id}.properties", str(node.directory / "server.properties")
            )
            line = line.replace(f"/var/lib/tierlog/node{node_id}", str(node.log_directory))
        for name, value in self.variables.items():
            line = line.replace(f"${name}", value)
        return line

    def run(self, line: str, expected_code: int = 0) -> str:
        """Run a command line of the page; what it prints."""
        words = shlex.split(self._replaced(line))
        assert not any(word.startswith("$") for word in words), line
        if words[0] == "systemctl":
            self._systemctl(words[1:])
            return ""
        if words[0] == "curl":
            return self._curl(words[-1], is_patient="--retry" in words)
        if words[0].startswith("kafka-"):
            files = [str(self.directory / w) if w.endswith(".json") else w for w in words[1:]]
            return run_tool(words[0].removesuffix(".sh"), *files, timeout_s=_TOOL_S).stdout
        if words[0] == "tierlog":
            words[0] = str(Path(sys.executable).with_name("tierlog"))
        done = subprocess.run(
            words, cwd=self.directory, capture_output=True, text=True, timeout=_TOOL_S, check=False
        )
        assert done.returncode == expected_code, f"{line}: {done.stdout}{done.stderr}"
        if words[1] == "info":
            (self.variables["ID"],) = re.findall(r"cluster\.id=([\w-]{22})", done.stdout)
        return done.stdout

    def run_all(self, lines: list[str]) -> None:
        for line in lines:
            self.run(line)

    def until_empty(self, line: str) -> None:
        """Repeat a command until it prints nothing."""
        seen = ""

        def is_empty() -> bool:
            nonlocal seen
            seen = self.run(line).strip()
            return not seen

        wait_until(is_empty, WITHIN_S, lambda: f"{line}: {seen}")

    def _systemctl(self, words: list[str]) -> None:
        act, name = words[0], words[-1]
        node = self.cluster.nodes[int(name.removeprefix("tierlog@node"))]
        match act:
            case "start":
                if not node.is_alive():
                    node.spawn()
            case "stop":
                node.stop(WITHIN_S)
            case "kill":
                assert words[1:-1] == ["--signal", "SIGKILL"]
                node.kill()
            case _:
                raise AssertionError(f"systemctl {act} is not on the page")

    def _curl(self, url: str, *, is_patient: bool) -> str:
        """What the address answers, with the status before it unless that is 200."""
        answer = _answer(url)
        if is_patient:

            def is_served() -> bool:
                nonlocal answer
                answer = _answer(url)
                return answer is not None and not answer.startswith("503 ")

            wait_until(is_served, WITHIN_S, lambda: f"{url}: {answer}")
        assert answer is not None, f"{url} does not answer"
        return answer

    def metric(self, node_id: int, name: str, attribute: str = "Value") -> float:
        """A metric of a node, by the last property of its name."""
        page = self._curl(f"http://127.0.0.1:{self._metrics[node_id]}/metrics", is_patient=True)
        (value,) = re.findall(rf'^\w+_{attribute}\{{name="{name}"\}} (\S+)$', page, re.MULTILINE)
        return float(value)

    def log(self, node_id: int) -> str:
        return self.cluster.nodes[node_id].output

    def wait_for_log(self, node_ids: tuple[int, ...], line: str) -> None:
        """Wait until one of these nodes has logged a line."""
        wait_until(
            lambda: any(line in self.log(each) for each in node_ids),
            WITHIN_S,
            lambda: f"{line}\n{self.cluster.log_tails()}",
        )

    def lose_the_disk(self, *node_ids: int) -> None:
        """The machine ends, and its directory is gone."""
        for node_id in node_ids:
            node = self.cluster.nodes[node_id]
            node.kill()
            shutil.rmtree(node.log_directory)

    def create_topic(self, config: Mapping[str, str] | None = None) -> None:
        create_topic(self.cluster.bootstrap, TOPIC, config, replication_factor=len(NODES))

    def every_partition(self) -> list[tuple[str, int]]:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        topics = admin.list_topics(timeout=60).topics
        return [(name, at) for name, topic in topics.items() for at in topic.partitions]

    def end(self) -> int:
        """The high watermark of the topic's partition."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "ends"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)[1]
        finally:
            consumer.close()


def _answer(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            body: str = answer.read().decode()
            return body
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"
    except OSError:
        return None


@contextmanager
def operated(
    directory: Path, tier: Mapping[str, str] | None = None
) -> Generator[OperatedCluster, None, None]:
    """The cluster, up; its tier is a folder unless another is stated."""
    folder = {"rsm.config.url": (directory / "tier").as_uri()}
    operated_cluster = OperatedCluster(directory, folder if tier is None else tier)
    with operated_cluster.cluster:
        operated_cluster.cluster.wait_until_caught_up()
        yield operated_cluster

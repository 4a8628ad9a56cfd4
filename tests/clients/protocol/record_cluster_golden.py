"""Records in `tests/golden/protocol` what the nodes of a real Kafka cluster say to each other.

    python -m tierlog.tests.clients.protocol.record_cluster_golden

Starts three combined nodes of Apache Kafka (needs Java and Maven), each with a recording proxy
before its controller listener: the voters are configured, and the controllers advertised, at the
proxies. A topic is created and written, a node is killed and comes back with an empty disk, voters
are added in vain, and the cluster stops node by node. Takes some minutes, as a metadata log drops
its old snapshots once a minute.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.clients.protocol.api import APIS, SERVED, ApiKey
from tierlog.clients.runtime.environment import SystemEnvironment

from ...waiting import wait_until
from .golden import Golden
from .record_golden import Recorder

NODE = "java-4.3.1-node"
"""Who speaks in these recordings."""
KEPT = {**{key: api for key, api in APIS.items() if key not in SERVED}, 1: APIS[ApiKey.FETCH]}
"""What nodes say to controllers only, and the Fetch of the metadata log."""
TOPIC = "golden-cluster"
TIMEOUT_S = 300


class Cluster:
    """Three nodes of Kafka, whose controllers are reached through recorders."""

    def __init__(self, directory: Path) -> None:
        ids = (1, 2, 3)
        self._cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
        controllers = {node_id: free_port() for node_id in ids}
        self.proxies = {node_id: free_port() for node_id in ids}
        self.recorders = {n: Recorder(self.proxies[n], controllers[n], KEPT) for n in ids}
        for recorder in self.recorders.values():
            recorder.client = NODE
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in self.proxies.items())
        self.nodes: dict[int, KafkaNode] = {}
        for n in ids:
            port = free_port()
            folder = directory / f"node{n}"
            (folder / "logs").mkdir(parents=True)
            stated = {
                "node.id": str(n),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[n]}",
                "advertised.listeners": (
                    f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self.proxies[n]}"
                ),
                "controller.quorum.voters": voters,
                "log.dirs": f"{folder / 'logs'},{folder / 'more'}",
                "replica.lag.time.max.ms": "5000",
                "replica.fetch.wait.max.ms": "200",
                "metadata.log.max.record.bytes.between.snapshots": "1000",
                "metadata.max.retention.bytes": "1000",
            }
            self.nodes[n] = KafkaNode(folder, properties=stated, port=port, heap="300m")

    @property
    def server(self) -> tuple[str, str]:
        return "--bootstrap-server", self.nodes[1].bootstrap

    @property
    def controllers(self) -> tuple[str, str]:
        return "--bootstrap-controller", f"127.0.0.1:{self.proxies[1]}"

    def start(self, *node_ids: int) -> None:
        """Format the nodes that are new, and start them all at a time."""
        for n in node_ids:
            folder = self.nodes[n].directory
            if not (folder / "logs" / "meta.properties").exists():
                stated = self.nodes[n].properties().items()
                (folder / "format.properties").write_text("".join(f"{k}={v}\n" for k, v in stated))
                cluster = ("-t", self._cluster_id, "-c", str(folder / "format.properties"))
                run_tool("kafka-storage", "format", *cluster)
        with ThreadPoolExecutor() as starting:
            for started in [starting.submit(self.nodes[n].start, 180) for n in node_ids]:
                started.result()

    def snapshots(self) -> list[str]:
        """The snapshots of the metadata log that the first node keeps, the oldest first."""
        log = self.nodes[1].directory / "logs" / "__cluster_metadata-0"
        return sorted(path.name for path in log.glob("*.checkpoint"))

    def asked(self) -> set[int]:
        """The keys of the APIs that were recorded."""
        return {key for recorder in self.recorders.values() for key, *_ in list(recorder.kept)}

    def kept(self) -> dict[tuple[int, int, str, str], bytes]:
        """The longest frame of each kind that is not long, from all recorders."""
        best: dict[tuple[int, int, str, str], bytes] = {}
        for recorder in self.recorders.values():
            for place, frame in recorder.kept.items():
                best[place] = max(best.get(place, b""), frame, key=len)
        return best


def voters(cluster: Cluster) -> None:
    """A change of voters, which a cluster with static voters refuses."""
    configuration = cluster.nodes[2].directory / "server.properties"
    quorum = ("kafka-metadata-quorum", *cluster.controllers)
    run_tool(*quorum, "--command-config", str(configuration), "add-controller", check=False)
    voter = ("--controller-id", "9", "--controller-directory-id", "uWc6mPqJT3-2Gc1lCZQCFg")
    run_tool(*quorum, "remove-controller", *voter, check=False)


def live(cluster: Cluster, say: Callable[[str], None]) -> None:
    say("starting three nodes")
    cluster.start(1, 2, 3)
    say("a topic and a producer")
    topic = ("--topic", TOPIC)
    size = ("--partitions", "3", "--replication-factor", "3")
    run_tool("kafka-topics", *cluster.server, "--create", *topic, *size)
    run_tool("kafka-console-producer", *cluster.server, *topic, stdin="one\ntwo\nthree\n")
    voters(cluster)
    say("a node dies, and the log is cleaned meanwhile")
    cluster.nodes[3].kill()
    shutil.rmtree(cluster.nodes[3].directory / "logs")
    shutil.rmtree(cluster.nodes[3].directory / "more")
    (cluster.nodes[3].directory / "logs").mkdir()
    first = cluster.snapshots()[0]
    wait_until(lambda: first not in cluster.snapshots(), TIMEOUT_S, "no snapshot was dropped")
    say("it comes back empty")
    cluster.start(3)
    wait_until(
        lambda: ApiKey.FETCH_SNAPSHOT in cluster.asked(), TIMEOUT_S, "no snapshot is fetched"
    )
    say("all stop")
    for node in cluster.nodes.values():
        node.stop()


def record() -> None:
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(Path(directory))
        try:
            live(cluster, lambda what: print(what, file=sys.stderr))
        finally:
            for node in cluster.nodes.values():
                if node.is_alive():
                    node.kill()
            print(sorted({(APIS[k].name, v, d) for k, v, d, _ in cluster.kept()}))
        for (key, version, direction, client), frame in sorted(cluster.kept().items()):
            Golden(key, version, direction == "request", client, frame).write()


if __name__ == "__main__":
    record()

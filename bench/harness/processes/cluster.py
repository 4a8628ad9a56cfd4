"""A cluster of several processes, each of either kind, from the same properties files.

The files are Kafka's own for KRaft: what Apache Kafka reads is what `tierlog serve` reads, and both
are formatted with the same arguments. So a test or a scenario tells one story, and starts it with
three nodes of Kafka, with three of ours, or with some of each:

    with Cluster(directory, combined("kafka", "kafka", "tierlog")) as cluster:
        leader = cluster.wait_for_leader()
        cluster.nodes[leader].kill()
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeVar

from ....clients.kafka_uuid import uuid_to_string
from ....clients.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
)
from ....clients.protocol.messages.describe_quorum_request import (
    PartitionData as AskedPartition,
    TopicData as AskedTopic,
)
from ....clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ....clients.runtime.environment import SystemEnvironment
from ..requests.probe import NotUpError, answers_api_versions, free_port
from ..requests.wire import Wire, WireError
from .broker_node import BrokerNode
from .kafka_peer import run_tool, server_command
from .tierlog_node import tierlog_command, user_environment

T = TypeVar("T")
Kind = Literal["kafka", "tierlog"]

METADATA_LOG = "__cluster_metadata-0"
_METADATA_TOPIC = "__cluster_metadata"
_ASK_S = 5.0
_POLL_S = 0.01
_UP_WITHIN_S = 300.0
_DOWN_WITHIN_S = 60.0
_FORMAT_S = 120.0
_METADATA_VERSION = 9
_QUORUM_VERSION = 2
_HEAP = "512m"
_WITHOUT_KAFKAS_OWN = tuple(
    word
    for feature in ("share.version", "streams.version")
    for word in ("--feature", f"{feature}=0")
)
"""What formats a node of Kafka for a cluster in which brokers of ours can register."""


class Seat(NamedTuple):
    """A node of a cluster that is to be: which software, and `process.roles`."""

    kind: Kind
    roles: str


def _stop(node: "ClusterNode") -> None:
    node.stop(_DOWN_WITHIN_S)


def kind_of(name: str) -> Kind:
    """The kind of a target of that name, which must be one of the two."""
    return "kafka" if name == "kafka" else "tierlog"


def combined(*kinds: Kind) -> dict[int, Seat]:
    """Nodes that are controller and broker at once, from id 1 on."""
    return {at: Seat(kind, "broker,controller") for at, kind in enumerate(kinds, 1)}


def separate(controllers: Sequence[Kind], brokers: Sequence[Kind]) -> dict[int, Seat]:
    """Controllers from id 1 on, and brokers from id 11 on."""
    seats = {at: Seat(kind, "controller") for at, kind in enumerate(controllers, 1)}
    return seats | {at: Seat(kind, "broker") for at, kind in enumerate(brokers, 11)}


class ClusterNode(BrokerNode):
    """One process of a cluster."""

    def __init__(
        self, node_id: int, seat: Seat, directory: Path, cluster_id: str, stated: Mapping[str, str]
    ) -> None:
        """`stated` are its properties but for listeners, roles and directories."""
        super().__init__(directory, 0)
        self.node_id = node_id
        self.kind = seat.kind
        self.is_broker = "broker" in seat.roles
        self.is_controller = "controller" in seat.roles
        self.controller_port = free_port()
        self.features_of_kafka: Sequence[str] = ()
        """What `kafka-storage format` gets about features; by default all are on."""
        self.java_options = ""
        """More flags for Kafka's JVM."""
        self.extra_environment: dict[str, str] = {}
        """More environment variables of its process, from its next start on."""
        self.program = tuple(tierlog_command())
        """What a command line of `tierlog` begins with: another release's, for an upgrade."""
        self._cluster_id = cluster_id
        self._roles = seat.roles
        self._stated = dict(stated)

    def state(self, properties: Mapping[str, str]) -> None:
        """Add properties before the next start."""
        self._stated |= properties

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def properties(self) -> Mapping[str, str]:
        client = f"PLAINTEXT://127.0.0.1:{self.port}"
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        listeners = {"broker": [client], "controller": [controller]}
        stated = {
            "process.roles": self._roles,
            "node.id": str(self.node_id),
            "listeners": ",".join(
                listener for role in self._roles.split(",") for listener in listeners[role]
            ),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_directory),
        }
        if self.is_broker:
            stated |= {"advertised.listeners": client, "inter.broker.listener.name": "PLAINTEXT"}
        return stated | self._stated

    def prepare(self, configuration: Path) -> None:
        """Format new storage."""
        if (self.log_directory / "meta.properties").exists():
            return
        arguments = ("format", "-t", self._cluster_id, "-c", str(configuration))
        if self.kind == "kafka":
            self.log_directory.mkdir(exist_ok=True)
            run_tool("kafka-storage", *arguments, *self.features_of_kafka)
            return
        answer = subprocess.run(
            [*self.program, *arguments],
            capture_output=True,
            text=True,
            env=user_environment(),
            timeout=_FORMAT_S,
            check=False,
        )
        if answer.returncode != 0:
            raise NotUpError(f"tierlog format failed: {answer.stdout}{answer.stderr}")

    def command(self, configuration: Path) -> list[str]:
        if self.kind == "kafka":
            return server_command(configuration, _HEAP)
        return [*self.program, "serve", "--config", str(configuration)]

    def environment(self) -> Mapping[str, str] | None:
        if self.kind == "tierlog":
            return user_environment() | self.extra_environment
        options = {"JDK_JAVA_OPTIONS": self.java_options} if self.java_options else {}
        return {**os.environ, **options, **self.extra_environment}

    def up(self, timeout_s: float) -> float:
        """A broker is up when it is among those of its own Metadata: registered and unfenced.

        A controller alone is up when its listener answers.
        """
        began = time.monotonic()
        is_up = self._lists_itself if self.is_broker else self._answers
        while not is_up():
            if not self.is_alive():
                raise NotUpError(f"Node {self.node_id} has ended.")
            if time.monotonic() - began > timeout_s:
                raise NotUpError(f"Node {self.node_id} was not up within {timeout_s:g} s.")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def _answers(self) -> bool:
        return answers_api_versions("127.0.0.1", self.controller_port)

    def _lists_itself(self) -> bool:
        return self.node_id in self.unfenced()

    def unfenced(self) -> frozenset[int]:
        """The brokers that this broker's Metadata lists; none if it does not answer."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        try:
            with Wire(self.bootstrap, _ASK_S) as wire:
                answer = wire.ask(request, _METADATA_VERSION, MetadataResponse)
        except WireError:
            return frozenset()
        return frozenset(broker.node_id for broker in answer.brokers)

    def quorum(self) -> PartitionData | None:
        """The quorum as this controller describes it; None unless it leads and answers."""
        topic = AskedTopic(topic_name=_METADATA_TOPIC, partitions=[AskedPartition()])
        request = DescribeQuorumRequest(topics=[topic])
        try:
            with Wire(f"127.0.0.1:{self.controller_port}", _ASK_S) as wire:
                answer = wire.ask(request, _QUORUM_VERSION, DescribeQuorumResponse)
        except WireError:
            return None
        described = [partition for one in answer.topics for partition in one.partitions]
        if answer.error_code or not described or described[0].error_code:
            return None
        return described[0] if described[0].leader_id == self.node_id else None


@dataclass(frozen=True, slots=True)
class Lead:
    """Who leads the quorum, and since which epoch."""

    node_id: int
    epoch: int


class Cluster:
    """All nodes of one cluster, each with a directory of its own below `directory`."""

    def __init__(
        self,
        directory: Path,
        seats: Mapping[int, Seat],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
        stated = {**SHARED_PROPERTIES, **(properties or {})}
        self.nodes = {
            node_id: ClusterNode(
                node_id, seat, directory / f"node-{node_id}", self.cluster_id, stated
            )
            for node_id, seat in seats.items()
        }
        voters = ",".join(f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in self.controllers)
        is_mixed = len({seat.kind for seat in seats.values()}) > 1
        for node in self.nodes.values():
            node.state({"controller.quorum.voters": voters})
            # A broker may only register if it supports all features of the cluster.
            node.features_of_kafka = _WITHOUT_KAFKAS_OWN if is_mixed else ()

    @property
    def controllers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def brokers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.bootstrap for node in self.brokers)

    def format(self) -> None:
        """Format the storage of all nodes, which does not count as a part of the start."""
        for node in self.nodes.values():
            node.prepare(node.write_properties())

    def start(self, timeout_s: float = _UP_WITHIN_S) -> dict[int, float]:
        """Start all at once; seconds until each is up, counted from the first process.

        Raises NotUpError.
        """
        self.format()
        began = time.monotonic()
        for node in self.nodes.values():
            node.spawn()
        try:
            with ThreadPoolExecutor(len(self.nodes)) as threads:
                waits = {
                    node_id: threads.submit(_seconds_until_up, node, began, timeout_s)
                    for node_id, node in self.nodes.items()
                }
            return {node_id: wait.result() for node_id, wait in waits.items()}
        except BaseException:
            self.kill()
            raise

    def leader(self) -> Lead | None:
        """The active controller, as it says itself; None if none says so."""
        leads: list[Lead] = []
        for node in self.controllers:
            described = node.quorum() if node.is_alive() else None
            if described is not None:
                leads.append(Lead(node.node_id, described.leader_epoch))
        return max(leads, key=lambda lead: lead.epoch, default=None)

    def wait_for_leader(self, timeout_s: float = 60, after_epoch: int = -1) -> Lead:
        """Wait for an active controller of a later epoch. Raises NotUpError."""

        def lead() -> Lead | None:
            now = self.leader()
            return now if now is not None and now.epoch > after_epoch else None

        return self.until(lead, timeout_s, f"no leader after epoch {after_epoch}")

    def wait_until_caught_up(self, timeout_s: float = _UP_WITHIN_S) -> None:
        """Wait until all brokers that run are unfenced in the eyes of all, and all voters that run
        have fetched up to the high watermark. Raises NotUpError."""
        running = [node for node in self.nodes.values() if node.is_alive()]
        brokers = frozenset(node.node_id for node in running if node.is_broker)
        voters = {node.node_id for node in running if node.is_controller}

        def is_so() -> bool | None:
            lead = self.leader()
            described = None if lead is None else self.nodes[lead.node_id].quorum()
            if described is None:
                return None
            ends = {voter.replica_id: voter.log_end_offset for voter in described.current_voters}
            # The leader itself says that its end is known; a voter that never fetched says -1.
            if any(ends.get(voter, -1) < described.high_watermark - 1 for voter in voters):
                return None
            if all(node.unfenced() >= brokers for node in running if node.is_broker):
                return True
            return None

        self.until(is_so, timeout_s, "some nodes have not caught up")

    def until(
        self,
        value: Callable[[], T | None],
        timeout_s: float,
        otherwise: str,
        poll_s: float = _POLL_S * 2,
    ) -> T:
        """Wait for a value, asked for every `poll_s`. Raises NotUpError, with the ends of logs."""
        deadline = time.monotonic() + timeout_s
        while (result := value()) is None:
            if time.monotonic() > deadline:
                error = NotUpError(f"Within {timeout_s:g} s: {otherwise}.")
                error.add_note(self.log_tails())
                raise error
            time.sleep(poll_s)
        return result

    def log_tails(self, lines: int = 15) -> str:
        """The last lines that each node has printed."""
        return "\n".join(
            f"--- node {node.node_id} ({node.kind})\n{node.log_tail(lines)}"
            for node in self.nodes.values()
            if (node.directory / "server.log").exists()
        )

    def stop(self) -> None:
        """Stop all cleanly, brokers before controllers: they need them for it."""
        brokers = [node for node in self.nodes.values() if not node.is_controller]
        for nodes in (brokers, self.controllers):
            if nodes:
                with ThreadPoolExecutor(len(nodes)) as threads:
                    list(threads.map(_stop, nodes))

    def kill(self) -> None:
        """End all at once."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _seconds_until_up(node: ClusterNode, began: float, timeout_s: float) -> float:
    node.wait_until_up(timeout_s)
    return time.monotonic() - began


SHARED_PROPERTIES: Mapping[str, str] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # A node of the other kind may start much more slowly on a busy machine.
    "initial.broker.registration.timeout.ms": "300000",
    "remote.log.storage.system.enable": "false",
}
"""What every node of a cluster has, of either kind."""

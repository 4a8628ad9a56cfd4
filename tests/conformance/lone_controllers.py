"""A real Apache Kafka controller and one of ours, without brokers: a test plays those to both.

What each decides is compared by its answers and by the records in its metadata log.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig as AlterableValue,
    AlterConfigsRequest,
    AlterConfigsResource as ReplacedResource,
)
from tierlog.clients.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
)
from tierlog.clients.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData as AssignedPartition,
    TopicData as AssignedTopic,
)
from tierlog.clients.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tierlog.clients.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tierlog.clients.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import batches
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_records import (
    NoOpRecord,
    PartitionChangeRecord,
    RegisterControllerRecord,
    decode_record,
)

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import OUR_OWN, Plain, plain

OF_ONE_CLUSTER = OUR_OWN | {"broker_epoch", "topic_id"}
FEATURES = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
"""What a broker of Kafka 4.3.1 supports."""

MIN_ISR = "min.insync.replicas"
HAS_READ_ALL = 1_000_000
_METADATA_LOG = "__cluster_metadata-0"
UNKNOWN_TOPIC = Uuid(b"u" * 16)
_NO_BROKER = 1_000


def controller_properties(port: int, directory: Path, **stated: str) -> dict[str, str]:
    """The file of a node that is the only voter, and no broker."""
    return {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "log.dirs": str(directory / "logs"),
        **{name.replace("_", "."): value for name, value in stated.items()},
    }


class LoneController:
    """One such node, formatted by Kafka's tool, whichever program runs it."""

    def __init__(self, node: BrokerNode, properties: Mapping[str, str]) -> None:
        self._node = node
        self._properties = properties
        self._process: subprocess.Popen[bytes] | None = None
        self.port = node.port
        self.cluster_id = uuid_to_string(SystemEnvironment().random_uuid())

    def start(self) -> None:
        """Start it; returns when it is the active controller."""
        directory = self._node.directory
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "server.properties"
        file.write_text("".join(f"{name}={each}\n" for name, each in self._properties.items()))
        run_tool("kafka-storage", "format", "-t", self.cluster_id, "-c", str(file))
        with (directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._node.command(file),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._node.environment(),
            )
        wait_until(self._is_active, 120, self._node.log_tail)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_active(self) -> bool:
        # It leads the quorum a moment before it decides: only then has it read what it leads.
        nobody = UnregisterBrokerRequest(broker_id=_NO_BROKER)
        try:
            with RawClient(self.port) as client:
                answer = client.ask(nobody, 0, UnregisterBrokerResponse)
        except (OSError, EOFError):
            return False
        return answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    def records(self) -> Iterator[Message]:
        """What stands in its metadata log, without what says nothing of brokers."""
        for file in sorted((self._node.directory / "logs" / _METADATA_LOG).glob("*.log")):
            for batch in batches(file.read_bytes()):
                for record in () if batch.is_control else batch.records():
                    message = decode_record(record.value or b"")
                    if not isinstance(message, NoOpRecord | RegisterControllerRecord):
                        yield message


def both_controllers(
    directory: Path, ports: tuple[int, int], **stated: str
) -> list[LoneController]:
    """Kafka's and ours, not started yet."""
    places = [directory / "kafka", directory / "ours"]
    files = [
        controller_properties(port, place, **stated)
        for port, place in zip(ports, places, strict=True)
    ]
    nodes: list[BrokerNode] = [
        KafkaNode(places[0], port=ports[0], heap="256m"),
        TierlogNode(places[1], port=ports[1]),
    ]
    return [LoneController(*each) for each in zip(nodes, files, strict=True)]


class ActiveController(Protocol):
    """A controller that brokers are played to."""

    port: int
    cluster_id: str

    def records(self) -> Iterator[Message]: ...


class PlayedBrokers:
    """The brokers of one controller, and all that it has answered to them."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller = controller
        self._client = RawClient(controller.port)
        self.epochs: dict[int, int] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.answers: list[tuple[str, Plain]] = []
        self._written_before = 0

    def close(self) -> None:
        self._client.socket.close()

    def ask(self, request: Message, version: int) -> Message:
        """Send a request, and note its answer."""
        answer = self._client.receive(self._client.send(request, version))
        asked = f"{type(request).__name__} {version} {plain(request, OF_ONE_CLUSTER)!r:.300}"
        self.answers.append((asked, plain(answer, OF_ONE_CLUSTER)))
        return answer

    def register(
        self,
        broker_id: int,
        incarnation: int = 1,
        *,
        version: int = 4,
        directories: Sequence[Uuid] | None = None,
        **changes: object,
    ) -> int:
        """Register a broker; returns the error."""
        own = [directory_id(broker_id)] if directories is None else directories
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self._controller.cluster_id,
            incarnation_id=Uuid(bytes([broker_id, incarnation]) * 8),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9_000 + broker_id)],
            features=features(FEATURES),
            rack=None,
            log_dirs=list(own),
        )
        for name, value in changes.items():
            setattr(request, name, value)
        answer = self.ask(request, version)
        assert isinstance(answer, BrokerRegistrationResponse)
        if answer.error_code == 0:
            self.epochs[broker_id] = answer.broker_epoch
        return answer.error_code

    def beat(
        self,
        broker_id: int,
        *,
        read: int = HAS_READ_ALL,
        fence: bool = False,
        shut_down: bool = False,
        epoch: int | None = None,
        offline: Sequence[Uuid] = (),
    ) -> BrokerHeartbeatResponse:
        """A heartbeat in the broker's last epoch."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs.get(broker_id, 0) if epoch is None else epoch,
            current_metadata_offset=read,
            want_fence=fence,
            want_shut_down=shut_down,
            offline_log_dirs=list(offline),
        )
        answer = self.ask(request, 1)
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    def alter_min_isr(
        self, kind: int, name: str, value: str | None, *, replace: bool = False
    ) -> None:
        """Set `min.insync.replicas` of a topic, a broker or all brokers, or remove it."""
        operation = 1 if value is None else 0
        if replace:
            stated = [] if value is None else [AlterableValue(name=MIN_ISR, value=value)]
            whole = ReplacedResource(resource_type=kind, resource_name=name, configs=stated)
            self.ask(AlterConfigsRequest(resources=[whole]), 2)
            return
        config = AlterableConfig(name=MIN_ISR, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def set_level(
        self, feature: str, level: int, kind: int, *, only_validate: bool = False
    ) -> None:
        """Finalise a level of a feature; kind 1 raises it, 2 and 3 lower it."""
        change = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[change], validate_only=only_validate)
        self.ask(request, 2)

    def cordon(self, broker_id: int, directories: Sequence[Uuid] | None) -> None:
        """A heartbeat of the version that says which directories get no new replicas."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs.get(broker_id, 0),
            current_metadata_offset=HAS_READ_ALL,
            cordoned_log_dirs=None if directories is None else list(directories),
        )
        assert isinstance(self.ask(request, 2), BrokerHeartbeatResponse)

    def create_topic(self, name: str, *replicas: Sequence[int], min_isr: str | None = None) -> None:
        """A topic with one partition for each list of replicas."""
        assignments = [
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(each))
            for number, each in enumerate(replicas)
        ]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        if min_isr is not None:
            topic.configs = [CreatableTopicConfig(name=MIN_ISR, value=min_isr)]
        answer = self.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer
        self.topic_ids[name] = answer.topics[0].topic_id

    def assign(self, broker_id: int, directory: Uuid, topic: str, *partitions: int) -> None:
        """Say in which directory replicas are."""
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs.get(broker_id, 0),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        AssignedTopic(
                            topic_id=self.topic_ids.get(topic, UNKNOWN_TOPIC),
                            partitions=[AssignedPartition(partition_index=n) for n in partitions],
                        )
                    ],
                )
            ],
        )
        assert isinstance(self.ask(request, 0), AssignReplicasToDirsResponse)

    def begin(self) -> None:
        """Begin a story: what was answered and written before counts no more."""
        self.answers.clear()
        self._written_before = len(list(self._controller.records()))

    def records(self) -> list[str]:
        """The records that the story has written; broker epochs by order of appearance.

        Changes of partitions that follow each other are sorted: Kafka writes them in the order of
        a hash table.
        """
        nth: dict[int, int] = {}
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        all_lines: list[str] = []
        for kind, run in groupby(
            list(self._controller.records())[self._written_before :], lambda each: type(each)
        ):
            lines: list[str] = []
            for record in run:
                epoch = getattr(record, "broker_epoch", None)
                ordinal = None if epoch is None else nth.setdefault(epoch, len(nth))
                topic = names.get(getattr(record, "topic_id", UNKNOWN_TOPIC))
                lines.append(f"{topic!r} {ordinal} {plain(record, OF_ONE_CLUSTER)!r}")
            is_change = kind is PartitionChangeRecord
            all_lines += [
                f"{kind.__name__} {each}" for each in (sorted(lines) if is_change else lines)
            ]
        return all_lines


def features(levels: Mapping[str, tuple[int, int]]) -> list[Feature]:
    """Features as a registration has them."""
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in levels.items()
    ]


def directory_id(broker_id: int, number: int = 0) -> Uuid:
    return Uuid(bytes([100 + broker_id, number]) * 8)

"""The listener for controllers, beside that of Apache Kafka: requests, tools, what is refused."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.cluster import ClusterNode, Seat
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import (
    APIS,
    SERVED_ON,
    Api,
    ApiKey,
    ListenerKind,
    request_class,
)
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.describe_cluster import DescribeClusterRequest
from tierlog.clients.protocol.messages.describe_quorum import DescribeQuorumRequest
from tierlog.clients.protocol.messages.describe_quorum_request import PartitionData, TopicData
from tierlog.clients.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker.config.node_files import BY_ROLE, REFUSED, changed
from ..broker_process import RawClient
from .java_programs import answers_of
from .many_tools import ManyTools, Said
from .meaningful_requests import ENTRIES
from .side_by_side import SideBySide, at
from .twins import Twins, create_topic

pytestmark = pytest.mark.recorded

# Importing it fills the table.
import_module(f"{__package__}.requests_of_administration")

KAFKAS_OWN = {"share.version", "streams.version"}
"""Features that we do not have. Only a part of a cluster has `kraft.version`."""
SETTINGS = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}


class Ports(NamedTuple):
    """The ports of one node's two listeners."""

    broker: int
    controller: int


class Both(NamedTuple):
    """The listeners of a Kafka and of ours."""

    kafka: Ports
    ours: Ports

    def controllers(self) -> SideBySide:
        return SideBySide(self.kafka.controller, self.ours.controller)

    def brokers(self) -> SideBySide:
        return SideBySide(self.kafka.broker, self.ours.broker)


def with_controllers(port: int, controller_port: int) -> dict[str, str]:
    return SETTINGS | {
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    our_ports = Ports(free_port(), free_port())
    kafka = kafka_node(tmp_path_factory.mktemp("kafka"), properties=SETTINGS)
    kafka_ports = Ports(kafka.port, kafka.controller_port)
    ours = TierlogNode(
        tmp_path_factory.mktemp("ours"),
        properties=with_controllers(*our_ports) | {"remote.log.storage.system.enable": "false"},
        port=our_ports.broker,
    )
    with kafka, ours:
        for ports in (kafka_ports, our_ports):
            with RawClient(ports.broker) as client:
                create_topic(client)
        yield Both(kafka_ports, our_ports)


@pytest.fixture(scope="module")
def tools() -> Iterator[ManyTools]:
    with ManyTools() as started:
        yield started


@pytest.mark.parametrize("version", range(5))
def test_what_a_controller_announces_is_what_kafkas_announces(both: Both, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    with both.controllers() as controllers:
        kafka, ours = controllers.ask(request, version)
    assert isinstance(kafka, ApiVersionsResponse)
    assert isinstance(ours, ApiVersionsResponse)
    announced = {each.api_key: each for each in kafka.api_keys}
    assert [announced[each.api_key] for each in ours.api_keys] == ours.api_keys
    assert_same_features(kafka, ours, KAFKAS_OWN | {"kraft.version"})


def assert_same_features(
    kafka: ApiVersionsResponse, ours: ApiVersionsResponse, kafkas_own: set[str]
) -> None:
    for expected, found in (
        (kafka.supported_features, ours.supported_features),
        (kafka.finalized_features, ours.finalized_features),
    ):
        assert {each.name: each for each in found} == {
            each.name: each for each in expected if each.name not in kafkas_own
        }


@pytest.mark.parametrize("endpoint_type", [0, 1, 2, 3])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", ListenerKind)
def test_a_cluster_is_described_by_the_listener_of_the_right_kind(
    both: Both, kind: ListenerKind, version: int, endpoint_type: int
) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    if version >= 1:
        request.endpoint_type = endpoint_type
    asked = both.controllers() if kind is ListenerKind.CONTROLLER else both.brokers()
    with asked as nodes:
        response = nodes.same(request, version)
    is_right = kind is (ListenerKind.CONTROLLER if endpoint_type == 2 else ListenerKind.BROKER)
    if version and endpoint_type in {1, 2}:
        assert at(response, "error_code") == (0 if is_right else 114)
    if version and endpoint_type in {0, 3}:
        assert at(response, "error_code") == 115


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_quorum_is_described_with_the_address_of_its_voter(both: Both, version: int) -> None:
    metadata_topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    measured = frozenset(
        {
            "leader_epoch",
            "high_watermark",
            "log_end_offset",
            "last_fetch_timestamp",
            "last_caught_up_timestamp",
        }
    )
    request = DescribeQuorumRequest(topics=[metadata_topic])
    for asked in (both.controllers(), both.brokers()):
        with asked as nodes:
            response = nodes.same(request, version, ignoring=measured)
    if version == 2:
        assert at(response, "nodes", 0, "listeners", 0, "name") == "CONTROLLER"


# Levels of kraft.version and kinds of change. From 0 to 1 only Kafka goes.
QUORUM_LEVELS = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 1), (-1, 1), (0, 4), (1, 3)]


@pytest.fixture(scope="module")
def member(both: Both, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The same Kafka, and the only voter of a quorum of ours that others may join."""
    seat, cluster_id = Seat("tierlog", "broker,controller"), "A" * 21 + "w"
    node = ClusterNode(1, seat, tmp_path_factory.mktemp("member"), cluster_id, SETTINGS)
    node.state(
        {
            "controller.quorum.voters": f"1@127.0.0.1:{node.controller_port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{free_port()}",
        }
    )
    with node:
        yield Both(both.kafka, Ports(node.port, node.controller_port))


@pytest.mark.parametrize("kind", ListenerKind)
def test_a_part_of_a_cluster_announces_the_feature_of_its_quorum(
    member: Both, kind: ListenerKind
) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    with member.controllers() if kind is ListenerKind.CONTROLLER else member.brokers() as nodes:
        kafka, ours = nodes.ask(request, 4)
    assert isinstance(kafka, ApiVersionsResponse)
    assert isinstance(ours, ApiVersionsResponse)
    assert_same_features(kafka, ours, KAFKAS_OWN)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ListenerKind)
def test_the_level_of_the_quorum_is_kept_and_refused_as_by_kafka(
    member: Both, kind: ListenerKind, version: int
) -> None:
    with member.controllers() if kind is ListenerKind.CONTROLLER else member.brokers() as nodes:
        for level, upgrade in QUORUM_LEVELS:
            update = FeatureUpdateKey(
                feature="kraft.version", max_version_level=level, upgrade_type=upgrade
            )
            nodes.same(UpdateFeaturesRequest(feature_updates=[update]), version)
        raised = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
        response = nodes.ours.ask(
            UpdateFeaturesRequest(feature_updates=[raised]), version, UpdateFeaturesResponse
        )
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "tierlog cannot make the static voters" in (response.error_message or "")


@pytest.fixture
def twins(both: Both) -> Iterator[Twins]:
    twins = Twins(both.kafka.broker, both.ours.broker)
    yield twins
    twins.close()


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api in SERVED_ON[ListenerKind.CONTROLLER].values()
        for version in range(api.lowest_version, api.highest_version + 1)
    ],
    ids=lambda each: each.name if isinstance(each, Api) else f"v{each}",
)
def test_a_controller_answers_every_version_as_kafkas(
    both: Both, twins: Twins, api: Api, version: int
) -> None:
    entry = ENTRIES[api.key]
    # What the request is about is prepared through the broker.
    asking = entry.story(twins, version)
    kafka, ours = (asking(side) for side in twins.sides)
    with both.controllers() as controllers:
        answers = (
            controllers.kafka.receive(controllers.kafka.send(kafka, version)),
            controllers.ours.receive(controllers.ours.send(ours, version)),
        )
        controllers.same_of(*answers, ignoring=entry.ignoring)


@pytest.mark.parametrize(
    "key", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FIND_COORDINATOR]
)
def test_what_is_asked_of_brokers_closes_the_connection_to_a_controller(
    both: Both, key: ApiKey
) -> None:
    assert_closed(key, both.kafka.controller)
    assert_closed(key, both.ours.controller)


@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.BROKER_HEARTBEAT, ApiKey.ENVELOPE])
def test_what_is_asked_of_controllers_closes_the_connection_to_a_broker(
    both: Both, key: ApiKey
) -> None:
    assert_closed(key, both.kafka.broker)
    assert_closed(key, both.ours.broker)


def assert_closed(key: ApiKey, port: int) -> None:
    version = APIS[key].highest_version
    header = encode_request_header(RequestHeader(key, version, 7, "test"))
    with RawClient(port) as client:
        client.send_frame(header + encode_bytes(request_class(key)(), version))
        assert client.is_closed()


REFUSALS = [(role, refused) for role in BY_ROLE for refused in REFUSED[role]]


def test_kafka_refuses_a_nodes_file_with_the_same_sentences() -> None:
    files = [*BY_ROLE.values(), *(changed(role, refused) for role, refused in REFUSALS)]
    lines = [";".join(f"{name}={text}" for name, text in stated.items()) for stated in files]
    said = answers_of("NodeConfigs.java", lines)
    taken, refused = said[: len(BY_ROLE)], said[len(BY_ROLE) :]
    assert set(taken) == {"ok"}
    sentences = [
        each.removeprefix("error ").removeprefix("requirement failed: ") for each in refused
    ]
    assert sentences == [each.sentence for _, each in REFUSALS]


METADATA_QUORUM = [
    ("describe", "--status"),
    ("describe", "--replication"),
    ("describe", "--replication", "--human-readable"),
]
BROKER_1 = ("--entity-type", "brokers", "--entity-name", "1")
ON_CONTROLLERS = [
    *(("kafka-metadata-quorum", (), words) for words in METADATA_QUORUM),
    ("kafka-cluster", ("cluster-id",), ()),
    ("kafka-cluster", ("list-endpoints",), ()),
    ("kafka-features", (), ("upgrade", "--feature", "group.version=1", "--dry-run")),
    ("kafka-acls", (), ("--list",)),
    ("kafka-reassign-partitions", (), ("--list",)),
    ("kafka-configs", (), (*BROKER_1, "--alter", "--add-config", "log.cleaner.threads=2")),
    ("kafka-configs", (), (*BROKER_1, "--describe")),
    ("kafka-configs", (), (*BROKER_1, "--alter", "--delete-config", "log.cleaner.threads")),
    # Kafka's own client refuses these two.
    ("kafka-configs", (), ("--describe", "--entity-type", "topics", "--entity-name", "none")),
    ("kafka-configs", (), ("--describe", "--entity-type", "users")),
]


@pytest.mark.requires("java", "mvn")
@pytest.mark.parametrize(("tool", "before", "after"), ON_CONTROLLERS)
def test_a_tool_says_the_same_of_both_controllers(
    both: Both, tools: ManyTools, tool: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    kafka, ours = (
        masked(tools.run(tool, *before, "--bootstrap-controller", address(ports), *after), ports)
        for ports in both
    )
    assert ours == kafka


def address(ports: Ports) -> str:
    return f"127.0.0.1:{ports.controller}"


def masked(said: Said, ports: Ports) -> str:
    text = said.text.replace(str(ports.controller), "CONTROLLER-PORT")
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return f"{text}exit code {said.code}"


MASKS = (
    (r"\b[A-Za-z0-9_-]{22}\b", "AN-ID"),
    (r"(HighWatermark|LeaderEpoch): *\d+", r"\1: N"),
    (r"AN-ID\t\d+ *\t(\d+) *\t[^\t]+\t[^\t]+\t", r"AN-ID caught up, lag \1, "),
)

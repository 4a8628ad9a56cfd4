"""Every answer of the metadata and admin APIs, beside Apache Kafka's answer to the same."""

import struct
from collections.abc import Iterator

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreateTopicsRequest,
)
from tierlog.clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.clients.protocol.messages.describe_cluster import DescribeClusterRequest
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from ..broker_process import RawClient
from .side_by_side import SideBySide, at
from .topic_requests import WORDS, both_with_known_topic, creation, wait_for_leader

pytestmark = pytest.mark.recorded

UNKNOWN_ID = Uuid(b"\x01" * 16)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_with_known_topic(tmp_path_factory.mktemp("side_by_side")) as both_ports:
        with SideBySide(*both_ports) as both:
            both.same(creation(DELETED), 7)
            for client in (both.kafka, both.ours):
                wait_for_leader(client, DELETED)
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


# -- ApiVersions ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_what_we_announce_is_what_kafka_announces(brokers: SideBySide, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    kafka, ours = brokers.ask(request, version)
    assert isinstance(kafka, ApiVersionsResponse)
    assert isinstance(ours, ApiVersionsResponse)
    announced = {each.api_key: each for each in kafka.api_keys}
    assert [announced[each.api_key] for each in ours.api_keys] == ours.api_keys
    assert sorted(each.api_key for each in ours.api_keys) == [e.api_key for e in ours.api_keys]
    supported = {each.name: each for each in kafka.supported_features}
    for feature in ours.supported_features:
        assert feature == supported[feature.name]


@pytest.mark.parametrize(("name", "software"), [("", "1"), ("a b", "1"), ("-a", "1"), ("a", "1-")])
def test_a_software_name_that_breaks_the_rules(
    brokers: SideBySide, name: str, software: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    assert at(brokers.same(request, 3, ignoring=NOT_OURS), "error_code") == 42


NOT_OURS = frozenset({"supported_features", "finalized_features", "zk_migration_ready"})


def test_an_unknown_version_of_api_versions_gets_the_same_bytes(brokers: SideBySide) -> None:
    answers: list[bytes] = []
    for client in (brokers.kafka, brokers.ours):
        client.send_frame(struct.pack(">hhih", 18, 99, 7, 1) + b"c\x00rest that nobody reads")
        answers.append(client.receive_frame())
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 3, 99, 1, -1),
        struct.pack(">hhih", 0, 2, 1, -1) + bytes(10),
        struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff",
        b"\x00",
        b"",
    ],
    ids=["unknown key", "unknown version", "Produce 2", "length beyond the end", "tiny", "empty"],
)
def test_what_cannot_be_answered_closes_the_connection(brokers: SideBySide, frame: bytes) -> None:
    for client in (brokers.kafka, brokers.ours):
        port = client.socket.getpeername()[1]
        with RawClient(port) as victim:
            victim.send_frame(frame)
            assert victim.is_closed()


# -- Metadata and DescribeCluster -------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("name", ["known", "missing", "bad name!", "..", "x" * 250])
def test_metadata_of_a_topic_by_name(brokers: SideBySide, version: int, name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    brokers.same(request, version)


@pytest.mark.parametrize("version", range(8, 14))
def test_metadata_with_authorised_operations(brokers: SideBySide, version: int) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="known"), MetadataRequestTopic(name="missing")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=version < 11,
    )
    brokers.same(request, version)


@pytest.mark.parametrize("version", range(1, 14))
def test_metadata_of_no_topic(brokers: SideBySide, version: int) -> None:
    brokers.same(MetadataRequest(topics=[]), version)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_metadata_of_a_topic_by_id(brokers: SideBySide, version: int) -> None:
    topics = [MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)]
    brokers.same(MetadataRequest(topics=topics), version)

    def by_id(client: RawClient) -> MetadataRequest:
        named = MetadataRequest(topics=[MetadataRequestTopic(name="known")])
        topic_id = client.ask(named, 12, MetadataResponse).topics[0].topic_id
        return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])

    brokers.same_of(*brokers.ask_each(by_id, version))


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("endpoint_type", [1, 2, 7])
def test_describe_cluster(brokers: SideBySide, version: int, endpoint_type: int) -> None:
    if version == 0 and endpoint_type != 1:
        endpoint_type = 1
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=endpoint_type
    )
    brokers.same(request, version, ignoring=WORDS)


# -- Topics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_come_and_go(brokers: SideBySide, version: int) -> None:
    request = creation(f"made.v{version}", 3, segment_bytes="2097152")
    brokers.same(request, version)
    assert at(brokers.same(request, version, ignoring=WORDS), "topics", 0, "error_code") == 36
    names = [f"made.v{version}", f"never.v{version}"]
    delete_version = min(version - 1, 6)
    deletion = (
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=9_000
        )
        if delete_version == 6
        else DeleteTopicsRequest(topic_names=names, timeout_ms=9_000)
    )
    brokers.same(deletion, delete_version, ignoring=WORDS)


NO_ID = ZERO_UUID
DELETED = "deleted.once"
Named = tuple[str | None, Uuid | None]
"""A topic's name and its id; None: the id of the topic that is there."""


@pytest.mark.parametrize(
    "named",
    [
        [("absent", UNKNOWN_ID)],
        [(None, NO_ID)],
        [(None, UNKNOWN_ID)],
        [("", NO_ID)],
        [("absent", NO_ID), ("absent", NO_ID)],
        [(None, UNKNOWN_ID), (None, UNKNOWN_ID)],
        [(DELETED, None)],
        [(DELETED, NO_ID), (DELETED, NO_ID)],
        [(None, None), (None, None)],
        [(DELETED, NO_ID), (None, None)],
        [(None, None), (DELETED, NO_ID)],
        [(None, NO_ID), (None, NO_ID)],
        [("absent", UNKNOWN_ID), ("absent", UNKNOWN_ID)],
        [(DELETED, NO_ID), (None, None), (None, None)],
        [],
        # Of what is named twice by its name the id still counts; then it is gone.
        [(DELETED, NO_ID), (DELETED, NO_ID), (None, None)],
        [(None, None)],
        [(DELETED, NO_ID)],
    ],
)
def test_deletions_by_name_and_by_id(brokers: SideBySide, named: list[Named]) -> None:
    def deletion(client: RawClient) -> DeleteTopicsRequest:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=DELETED)])
        own_id = client.ask(asked, 12, MetadataResponse).topics[0].topic_id
        states = [
            DeleteTopicState(name=name, topic_id=own_id if topic_id is None else topic_id)
            for name, topic_id in named
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=9_000)

    # Their messages, too.
    brokers.same_of(*brokers.ask_each(deletion, 6))


@pytest.mark.parametrize(
    "request_",
    [
        creation("bad name!"),
        creation(""),
        creation("zero", 0),
        creation("minus", -2),
        creation("replicas", 1, 5),
        creation("replicas", 1, 0),
        creation("config", retention_ms="soon"),
        creation("config", segment_bytes="1"),
        creation("config", no_such_config="1"),
        creation("config", retention_ms=None),
        creation("tiered", remote_storage_enable="true"),
        creation("defaults", -1, -1),
        creation("__cluster_metadata"),
        creation("collides.with.dots"),
        creation("collides_with_dots"),
    ],
    ids=lambda request: f"{request.topics[0].name}",
)
def test_creations_that_are_refused_or_not(
    brokers: SideBySide, request_: CreateTopicsRequest
) -> None:
    brokers.same(request_, 7, ignoring=WORDS)


def test_a_creation_that_is_only_validated(brokers: SideBySide) -> None:
    request = creation("dry", 4, retention_ms="1000")
    request.validate_only = True
    brokers.same(request, 7)
    brokers.same(MetadataRequest(topics=[MetadataRequestTopic(name="dry")]), 12)


def test_a_creation_with_assignments(brokers: SideBySide) -> None:
    def assigned(*replicas: list[int]) -> CreateTopicsRequest:
        request = creation("assigned", -1, -1)
        request.topics[0].assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(replicas)
        ]
        return request

    brokers.same(assigned([7]), 7, ignoring=WORDS)
    brokers.same(assigned([1, 1]), 7, ignoring=WORDS)
    brokers.same(assigned([1], [1]), 7)


@pytest.mark.parametrize("version", range(4))
def test_more_partitions(brokers: SideBySide, version: int) -> None:
    name = f"grows.v{version}"
    brokers.same(creation(name), 7)
    for client in (brokers.kafka, brokers.ours):
        wait_for_leader(client, name)
    for count in (1, 0, 3, 2):
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=9_000)
        brokers.same(request, version, ignoring=WORDS)
    missing = [CreatePartitionsTopic(name="no-such-topic", count=3, assignments=None)]
    brokers.same(CreatePartitionsRequest(topics=missing, timeout_ms=9_000), version, ignoring=WORDS)


@pytest.mark.parametrize("version", range(1, 5))
def test_the_configuration_of_a_topic(brokers: SideBySide, version: int) -> None:
    name = f"configured.v{version}"
    brokers.same(creation(name, retention_ms="-1", segment_bytes="2097152"), 7)
    for client in (brokers.kafka, brokers.ours):
        wait_for_leader(client, name)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None),
            DescribeConfigsResource(
                resource_type=2, resource_name=name, configuration_keys=["retention.ms", "nope"]
            ),
            DescribeConfigsResource(resource_type=2, resource_name="nope"),
            DescribeConfigsResource(resource_type=2, resource_name="not a topic!"),
            DescribeConfigsResource(resource_type=4, resource_name="77"),
            DescribeConfigsResource(resource_type=4, resource_name="many"),
        ],
        include_synonyms=True,
    )
    brokers.same(request, version, ignoring=WORDS)
    request.resources.append(DescribeConfigsResource(resource_type=99, resource_name="?"))
    brokers.same(request, version, ignoring=WORDS)

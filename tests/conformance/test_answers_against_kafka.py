"""Every answer of the data, metadata and admin APIs, beside Apache Kafka's answer to the same."""

import struct
from collections.abc import Iterator

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierlog.clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.clients.protocol.messages.describe_cluster import DescribeClusterRequest
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import RawClient
from .side_by_side import SideBySide, at, both_brokers

pytestmark = pytest.mark.requires("java", "mvn")

WORDS = frozenset({"error_message", "batch_index_error_message"})
"""Ours are our own."""

UNKNOWN_ID = Uuid(b"\x01" * 16)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_brokers(tmp_path_factory.mktemp("side_by_side")) as both_ports:
        with SideBySide(*both_ports) as both:
            both.same(creation("known", 2), 7)
            for client in (both.kafka, both.ours):
                wait_for_leader(client, "known")
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


def wait_for_leader(client: RawClient, topic: str) -> None:
    """Kafka answers a creation before its broker has heard of it, and before it leads."""
    asked = [ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=-1)])]
    for _ in range(1_000):
        request = ListOffsetsRequest(replica_id=-1, topics=asked)
        found = client.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0]
        if not found.error_code:
            return
    raise AssertionError(f"{topic} never got a leader")


def creation(
    name: str, partitions: int = 1, factor: int = 1, **configs: str | None
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=10_000,
    )


def batch(count: int = 1, value: bytes = b"value", timestamp: int = 1_700_000_000_000) -> bytearray:
    return build_batch(
        [Record(offset, timestamp + offset, b"key", value, ()) for offset in range(count)]
    )


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


# -- Records ----------------------------------------------------------------------------------


def production(
    records: bytearray | None,
    *,
    topic: str = "known",
    partition: int = 0,
    acks: int = 1,
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)


def damaged(position: int, value: bytes, source: bytearray | None = None) -> bytearray:
    """A batch with some bytes replaced, and a CRC that covers what it then holds."""
    changed = bytearray(batch() if source is None else source)
    changed[position : position + len(value)] = value
    return with_crc(changed)


def with_crc(changed: bytearray) -> bytearray:
    from crc32c import crc32c

    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return changed


BATCHES = {
    "good": batch(),
    "three records": batch(3),
    "wrong checksum": bytearray(batch()[:17] + b"\0\0\0\0" + batch()[21:]),
    "two batches": batch() + batch(),
    "cut short": batch()[:-1],
    "half a header": batch()[:30],
    "magic 1": damaged(16, b"\x01"),
    "magic 3": damaged(16, b"\x03"),
    "control batch": damaged(21, b"\x00\x20"),
    "base offset 5": damaged(0, struct.pack(">q", 5)),
    "count too high": damaged(57, struct.pack(">i", 9)),
    "last offset delta too high": damaged(23, struct.pack(">i", 9)),
    "no records, none announced": damaged(57, struct.pack(">i", 0)),
    "negative count": damaged(57, struct.pack(">i", -1)),
    "producer id without sequence": damaged(43, struct.pack(">qhi", 7, 0, -1)),
    "length of zero": damaged(8, struct.pack(">i", 0)),
    "negative length": damaged(8, struct.pack(">i", -5)),
    "length beyond the end": damaged(8, struct.pack(">i", 100_000)),
    "too large": batch(1, bytes(1_100_000)),
}


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_taken_or_refused(brokers: SideBySide, version: int, name: str) -> None:
    brokers.same(production(BATCHES[name]), version, ignoring=WORDS)


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_a_produce_to_the_wrong_place_or_with_the_wrong_acks(
    brokers: SideBySide, version: int
) -> None:
    brokers.same(production(batch(), topic="missing"), version, ignoring=WORDS)
    brokers.same(production(batch(), partition=9), version, ignoring=WORDS)
    brokers.same(production(batch(), acks=5), version, ignoring=WORDS)
    brokers.same(production(batch(), acks=-1), version)
    brokers.same(production(bytearray()), version, ignoring=WORDS)


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("name", BATCHES)
def test_nobody_looks_at_records_for_a_place_that_is_not_there(
    brokers: SideBySide, version: int, name: str
) -> None:
    missing = production(BATCHES[name], topic="missing")
    brokers.same(missing, version, ignoring=WORDS)
    beyond = production(BATCHES[name], partition=9)
    brokers.same(beyond, version, ignoring=WORDS)
    both = production(batch())
    both.topic_data[0].partition_data += beyond.topic_data[0].partition_data
    brokers.same(both, version, ignoring=WORDS)


def test_a_transaction_for_a_place_that_is_not_there(brokers: SideBySide) -> None:
    for index in (0, 9):
        request = production(batch(), topic="missing" if index == 0 else "known", partition=index)
        request.transactional_id = "t"
        brokers.same(request, 9, ignoring=WORDS)


def test_idempotent_sequences(brokers: SideBySide) -> None:
    brokers.same(creation("sequences"), 7)
    for client in (brokers.kafka, brokers.ours):
        wait_for_leader(client, "sequences")

    def sequenced(sequence: int, epoch: int = 0, count: int = 2) -> ProduceRequest:
        records = [Record(offset, 1_700_000_000_000, None, b"v", ()) for offset in range(count)]
        built = build_batch(
            records, producer_id=4_711, producer_epoch=epoch, base_sequence=sequence
        )
        return production(built, topic="sequences", acks=-1)

    steps = [(0, 0), (2, 0), (2, 0), (0, 0), (8, 0), (4, 0), (3, 0), (6, 1), (0, 1), (4, 0)]
    for sequence, epoch in steps:
        brokers.same(sequenced(sequence, epoch), 9, ignoring=WORDS)


# -- Offsets ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled_ports(ports: tuple[int, int]) -> tuple[int, int]:
    with SideBySide(*ports) as both:
        both.same(creation("filled"), 7)
        for client in (both.kafka, both.ours):
            wait_for_leader(client, "filled")
        for number in range(5):
            records = batch(4, timestamp=1_700_000_000_000 + 1_000 * number)
            both.same(production(records, topic="filled"), 9)
    return ports


@pytest.fixture
def filled(filled_ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*filled_ports) as both:
        yield both


TIMESTAMPS = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
    0,
    1_700_000_002_001,
    1_700_000_004_003,
    1_900_000_000_000,
)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", TIMESTAMPS)
def test_offsets_by_timestamp(filled: SideBySide, version: int, timestamp: int) -> None:
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in (0, 7)
    ]
    topics = [
        ListOffsetsTopic(name="filled", partitions=partitions),
        ListOffsetsTopic(name="missing", partitions=[ListOffsetsPartition(timestamp=timestamp)]),
    ]
    filled.same(ListOffsetsRequest(replica_id=-1, topics=topics), version)


def test_offsets_of_a_partition_named_twice_or_in_another_epoch(filled: SideBySide) -> None:
    twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    topics = [ListOffsetsTopic(name="filled", partitions=twice)]
    filled.same(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    for epoch in (5, 0, -1):
        asked = [ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)]
        topics = [ListOffsetsTopic(name="filled", partitions=asked)]
        filled.same(ListOffsetsRequest(replica_id=-1, topics=topics), 7)


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch(filled: SideBySide, version: int) -> None:
    for current, asked in ((-1, 0), (-1, 5), (0, 0), (7, 0), (-1, -1)):
        partitions = [
            OffsetForLeaderPartition(
                partition=index, current_leader_epoch=current, leader_epoch=asked
            )
            for index in (0, 9)
        ]
        topics = [OffsetForLeaderTopic(topic="filled", partitions=partitions)]
        filled.same(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), version)

"""What admins ask about partitions, directories and the quorum, beside Apache Kafka's answers."""

from collections.abc import Iterator

import pytest

from tierlog.clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tierlog.clients.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tierlog.clients.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from tierlog.clients.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tierlog.clients.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest as DescribedTopic,
)
from tierlog.clients.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tierlog.clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.recordings.printed_lines import kafkas_now_ms

from ..broker_process import RawClient
from .side_by_side import Plain, SideBySide, at, both_brokers
from .topic_requests import creation, wait_for_leader

pytestmark = pytest.mark.recorded

TOPICS = {"grown": 5, "known": 2, "other": 3}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    limit = {"max.request.partition.size.limit": "7"}
    with both_brokers(tmp_path_factory.mktemp("side_by_side"), limit) as both_ports:
        with SideBySide(*both_ports) as both:
            for name, partitions in TOPICS.items():
                both.same(creation(name, partitions), 7)
            both.same(creation("compacted", cleanup_policy="compact"), 7)
            # A producer that has been silent since 2023 would be forgotten.
            now_ms = SystemEnvironment().wall_clock_ms()
            for client, time_ms in ((both.kafka, kafkas_now_ms()), (both.ours, now_ms)):
                for name in (*TOPICS, "compacted"):
                    wait_for_leader(client, name)
                produce(client, time_ms)
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


def produce(client: RawClient, time_ms: int) -> None:
    """Ten records from an idempotent producer into `known-0`."""
    builder = RecordBatchBuilder(producer_id=5, producer_epoch=3, base_sequence=0)
    for offset in range(10):
        builder.append(time_ms + offset, b"key", b"value")
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name="known", partition_data=[data])],
    )
    answer = client.ask(request, 9, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0


# -- DeleteRecords ----------------------------------------------------------------------------


def deletion(*offsets: tuple[str, int, int]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
            )
            for name, index, offset in offsets
        ],
        timeout_ms=10_000,
    )


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("asked", "low_watermark", "error"),
    [
        (("known", 0, 0), 0, 0),
        (("known", 0, 11), -1, 1),
        (("known", 0, -2), -1, 1),
        (("known", 9, 0), -1, 3),
        (("absent", 0, 0), -1, 3),
        (("not/valid", 0, 0), -1, 3),
        (("compacted", 0, 0), -1, 44),
        (("known", 1, -1), 0, 0),
    ],
)
def test_deleting_records(
    brokers: SideBySide, version: int, asked: tuple[str, int, int], low_watermark: int, error: int
) -> None:
    answer = brokers.same(deletion(asked), version)
    result = at(answer, "topics", 0, "partitions", 0)
    assert (at(result, "low_watermark"), at(result, "error_code")) == (low_watermark, error)


def test_deletions_move_the_start_and_never_back(brokers: SideBySide) -> None:
    for offset, low_watermark in ((3, 3), (1, 3), (7, 7)):
        answer = brokers.same(deletion(("known", 0, offset)), 2)
        assert at(answer, "topics", 0, "partitions", 0, "low_watermark") == low_watermark


def test_of_a_partition_named_twice_the_last_offset_counts(brokers: SideBySide) -> None:
    brokers.same(deletion(("known", 0, 7), ("known", 0, 8)), 2)


# -- DescribeTopicPartitions ------------------------------------------------------------------


def description(
    *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    start = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return DescribeTopicPartitionsRequest(
        topics=[DescribedTopic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=start,
    )


@pytest.mark.parametrize(
    "request_",
    [
        description("known"),
        description("other", "known", "known"),
        description("absent", "known", "not/valid", "__consumer_offsets"),
        description("grown", "known", limit=3),
        description("grown", "known", limit=5),
        description("grown", "known", limit=0),
        description("grown", "known", limit=-1),
        description("grown", "known", cursor=("grown", 2)),
        description("grown", "known", cursor=("grown", 5)),
        description("grown", "known", cursor=("known", 1)),
        description("grown", "known", cursor=("known", -1)),
        description("grown", cursor=("known", 0)),
        description("absent", "grown", limit=1, cursor=("absent", 0)),
        description(),
        description(limit=4),
        description(cursor=("grown", 3), limit=3),
        description(cursor=("gone", 3), limit=3),
        description(cursor=("grown", -1)),
    ],
)
def test_describing_partitions(
    brokers: SideBySide, request_: DescribeTopicPartitionsRequest
) -> None:
    brokers.same(request_, 0)


def test_pages_follow_one_another_until_nothing_is_left(brokers: SideBySide) -> None:
    seen: list[tuple[Plain, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        page = brokers.same(description("grown", "known", "other", limit=2, cursor=cursor), 0)
        topics = at(page, "topics")
        assert isinstance(topics, list)
        for topic in topics:
            partitions = at(topic, "partitions")
            assert isinstance(partitions, list)
            seen += [(at(topic, "name"), int(str(at(p, "partition_index")))) for p in partitions]
        following = at(page, "next_cursor")
        if following is None:
            break
        cursor = str(at(following, "topic_name")), int(str(at(following, "partition_index")))
    assert seen == [(name, number) for name, count in TOPICS.items() for number in range(count)]


# -- DescribeProducers ------------------------------------------------------------------------


def test_describing_producers(brokers: SideBySide) -> None:
    asked = {"known": [0, 1, 7], "absent": [0], "not/valid": [0]}
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=partitions)
            for name, partitions in asked.items()
        ]
    )
    unlike = frozenset({"error_message", "last_timestamp"})
    answer = brokers.same(request, 0, ignoring=unlike)
    producer = at(answer, "topics", 0, "partitions", 0, "active_producers", 0)
    assert at(producer, "producer_id") == 5
    assert at(producer, "last_sequence") == 9


# -- ElectLeaders -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [0, 1, 7])
@pytest.mark.parametrize(
    "asked", [None, {"known": [0, 1, 9], "absent": [0]}, {"not/valid": [0]}, {}]
)
def test_electing_leaders(
    brokers: SideBySide, version: int, kind: int, asked: dict[str, list[int]] | None
) -> None:
    if version == 0 and kind:
        # There is no other kind in version 0.
        kind = 0
    topics = None
    if asked is not None:
        topics = [
            TopicPartitions(topic=name, partitions=partitions) for name, partitions in asked.items()
        ]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
    brokers.same(request, version)


# -- Reassignments ----------------------------------------------------------------------------


def moving(
    partition: int, replicas: list[int] | None, name: str = "known"
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)],
            )
        ]
    )


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (moving(0, [1]), 0),
        (moving(0, None), 85),
        (moving(0, [2]), 39),
        (moving(0, [1, 2]), 39),
        (moving(0, [1, 1]), 39),
        (moving(0, []), 39),
        (moving(9, [1]), 3),
        (moving(0, [1], "absent"), 3),
        (moving(0, None, "absent"), 3),
    ],
)
def test_reassigning_partitions(
    brokers: SideBySide, version: int, asked: AlterPartitionReassignmentsRequest, error: int
) -> None:
    answer = brokers.same(asked, version)
    assert at(answer, "responses", 0, "partitions", 0, "error_code") == error


@pytest.mark.parametrize(
    ("replicas", "error"), [([1], 0), ([], 39), ([2], 39), ([1, 2], 39), ([1, 1], 39), (None, 85)]
)
def test_reassigning_without_another_replication_factor(
    brokers: SideBySide, replicas: list[int] | None, error: int
) -> None:
    asked = moving(0, replicas)
    asked.allow_replication_factor_change = False
    answer = brokers.same(asked, 1)
    assert at(answer, "allow_replication_factor_change") is False
    assert at(answer, "responses", 0, "partitions", 0, "error_code") == error


@pytest.mark.parametrize("asked", [None, {"known": [0, 9], "absent": [0]}, {}])
def test_nothing_is_on_the_move(brokers: SideBySide, asked: dict[str, list[int]] | None) -> None:
    topics = None
    if asked is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=partitions)
            for name, partitions in asked.items()
        ]
    brokers.same(ListPartitionReassignmentsRequest(topics=topics), 0)


# -- UnregisterBroker -------------------------------------------------------------------------


def test_unregistering_a_broker_that_is_none(brokers: SideBySide) -> None:
    assert at(brokers.same(UnregisterBrokerRequest(broker_id=77), 0), "error_code") == 102


# -- DescribeQuorum ---------------------------------------------------------------------------

PASSING = frozenset(
    {
        "leader_epoch",
        "high_watermark",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "listeners",
    }
)
"""How far a cluster has come, and the listener for controllers, which we do not have."""


def quorum(*asked: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(
                topic_name=name,
                partitions=[PartitionData(partition_index=p) for p in partitions],
            )
            for name, partitions in asked
        ]
    )


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    "asked",
    [
        quorum(("__cluster_metadata", [0])),
        quorum(("__cluster_metadata", [1])),
        quorum(("__cluster_metadata", [0, 1])),
        quorum(("known", [0])),
        quorum(("__cluster_metadata", [0]), ("known", [0])),
        quorum(),
    ],
)
def test_describing_the_quorum(
    brokers: SideBySide, version: int, asked: DescribeQuorumRequest
) -> None:
    brokers.same(asked, version, ignoring=PASSING)


# -- DescribeLogDirs --------------------------------------------------------------------------


def directories(client: RawClient, version: int, asked: DescribeLogDirsRequest) -> Plain:
    """Every directory without its name, topics and partitions in order."""
    answer = client.ask(asked, version, DescribeLogDirsResponse)
    described: list[Plain] = [answer.error_code]
    for result in answer.results:
        assert result.log_dir
        room = (result.total_bytes, result.total_bytes >= result.usable_bytes >= 0)
        logs = sorted(
            (topic.name, each.partition_index, each.offset_lag, each.is_future_key)
            for topic in result.topics
            for each in topic.partitions
        )
        sizes = sum(each.partition_size for topic in result.topics for each in topic.partitions)
        described.append([result.error_code, *room, repr(logs), sizes, result.is_cordoned])
    return described


@pytest.mark.parametrize("version", range(1, 6))
@pytest.mark.parametrize("asked", [None, {"known": [0, 9], "absent": [0], "other": []}, {}])
def test_describing_log_directories(
    brokers: SideBySide, version: int, asked: dict[str, list[int]] | None
) -> None:
    topics = None
    if asked is not None:
        topics = [
            DescribableLogDirTopic(topic=name, partitions=partitions)
            for name, partitions in asked.items()
        ]
    request = DescribeLogDirsRequest(topics=topics)
    kafka, ours = (
        directories(client, version, request) for client in (brokers.kafka, brokers.ours)
    )
    assert ours == kafka

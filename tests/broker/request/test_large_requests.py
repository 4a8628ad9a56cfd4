"""One request costs a bounded time and memory, and nobody else waits for the whole of it."""

import asyncio
import inspect
from collections.abc import Generator, Hashable
from pathlib import Path
from typing import cast

import pytest

from tierlog.broker.network.response import Refused
from tierlog.broker.request.fetch_session import PARTITIONS_AT_ONCE
from tierlog.broker.request.large_requests import LargeRequests
from tierlog.broker.request.lazy_list import LazyList, lazy_list
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tierlog.clients.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest as AskedProducers,
)
from tierlog.clients.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tierlog.clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierlog.clients.protocol.schema import Message

from ...broker_process import BrokerThread, RawClient

BROKER, TOPIC = 4, 2


def counting(name: str, pauses: int, seen: list[str]) -> Generator[None, None, str]:
    for _ in range(pauses):
        seen.append(name)
        yield
    return f"{name} is done"


async def test_work_is_done_in_slices_between_which_everybody_has_a_turn() -> None:
    seen: list[str] = []
    answer = LargeRequests().submit(counting("large", 1_000, seen))
    longest = 0
    while not answer.done():
        before = len(seen)
        await asyncio.sleep(0)
        longest = max(longest, len(seen) - before)
    assert answer.result() == "large is done"
    assert len(seen) == 1_000
    assert longest <= 256


async def test_one_is_worked_on_at_a_time_in_the_order_of_arrival() -> None:
    requests, seen = LargeRequests(), list[str]()
    answers = [requests.submit(counting(name, 600, seen)) for name in "abc"]
    assert [await each for each in answers] == ["a is done", "b is done", "c is done"]
    assert seen == ["a"] * 600 + ["b"] * 600 + ["c"] * 600


async def test_clients_take_turns_however_many_requests_one_of_them_has() -> None:
    requests, seen = LargeRequests(), list[str]()
    for number in range(600):
        requests.submit(counting(f"greedy {number}", 10, seen), "greedy")
    await asyncio.sleep(0)
    for _ in range(3):
        assert await requests.submit(counting("honest", 10, seen), "honest")
    served = list(dict.fromkeys(seen))
    # Each waits for the one that is being worked on, and for the turn after it.
    assert served.index("honest") <= 2
    assert len(served) <= 9


async def test_a_client_that_goes_gives_its_turn_away() -> None:
    requests, seen = LargeRequests(), list[str]()
    first = requests.submit(counting("a", 100_000, seen))
    second = requests.submit(counting("b", 10, seen))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "b is done"
    assert seen.count("a") <= 512


async def test_a_failure_is_its_own_requests() -> None:
    def failing() -> Generator[None, None, str]:
        yield
        raise Refused("no")

    requests = LargeRequests()
    first, second = requests.submit(failing()), requests.submit(counting("b", 1, []))
    with pytest.raises(Refused):
        await first
    assert await second == "b is done"


async def test_a_client_that_goes_while_it_waits_gives_its_request_back_at_once() -> None:
    requests, seen = LargeRequests(), list[str]()
    first = requests.submit(counting("a", 100_000, seen))
    work = counting("b", 10, seen)
    second = requests.submit(work)
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    assert inspect.getgeneratorstate(work) == inspect.GEN_CLOSED
    first.cancel()
    await asyncio.sleep(0)
    assert await requests.submit(counting("c", 1, seen)) == "c is done"


def test_a_long_list_of_answers_is_made_while_it_is_iterated_over() -> None:
    made: list[int] = []

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    assert lazy_list(double, [1, 2]) == [2, 4]
    many = lazy_list(double, range(1_000))
    assert type(cast("object", many)) is LazyList
    assert len(many) == 1_000
    assert made == [1, 2]
    assert list(many) == [2 * number for number in range(1_000)]


def refusal(broker: BrokerThread, request: Message, version: int) -> bool:
    """Whether the connection is closed for it, while others are still served."""
    with RawClient(broker.port) as client:
        client.send(request, version)
        is_closed = client.is_closed()
    with RawClient(broker.port) as client:
        client.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    return is_closed


def test_a_request_of_too_many_elements_ends_its_connection_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(tmp_path, {"tierlog.request.elements.max": "1000"}) as broker:
        with RawClient(broker.port) as client:
            allowed = DescribeGroupsRequest(groups=["g"] * 1_000)
            assert len(client.ask(allowed, 0, DescribeGroupsResponse).groups) == 1_000
        assert refusal(broker, DescribeGroupsRequest(groups=["g"] * 1_001), 0)
    assert [each for each in caplog.messages if "DescribeGroups" in each] == [
        "Closed the connection from 127.0.0.1: a DescribeGroups v0 request whose arrays hold more "
        "than 1000 elements (tierlog.request.elements.max): split the request"
    ]


def test_nested_elements_count_together(tmp_path: Path) -> None:
    topics = [
        OffsetFetchRequestTopics(name=str(number), partition_indexes=list(range(30)))
        for number in range(40)
    ]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    with BrokerThread(tmp_path, {"tierlog.request.elements.max": "1000"}) as broker:
        assert refusal(broker, OffsetFetchRequest(groups=[group]), 8)


def test_an_answer_of_too_many_bytes_ends_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"{number:04}" + "g" * 400 for number in range(4_000)]
    with BrokerThread(tmp_path, {"tierlog.response.max.bytes": "1048576"}) as broker:
        assert refusal(broker, DescribeGroupsRequest(groups=names), 6)
    assert "the response would exceed 1048576 bytes" in caplog.text


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[BrokerThread]:
    properties = {
        "auto.create.topics.enable": "false",
        "max.request.partition.size.limit": "2",
        "num.partitions": "3",
    }
    with BrokerThread(tmp_path_factory.mktemp("data"), properties) as broker:
        yield broker


def test_what_tools_of_large_clusters_ask_is_answered(broker: BrokerThread) -> None:
    topics = [f"topic-{number}" for number in range(10_000)]
    with RawClient(broker.port) as client:
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
        answer = client.ask(metadata, 12, MetadataResponse)
        assert [each.name for each in answer.topics] == topics
        groups = [f"group-{number}" for number in range(5_000)]
        described = client.ask(DescribeGroupsRequest(groups=groups), 6, DescribeGroupsResponse)
        assert [each.group_id for each in described.groups] == groups
        commit = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition()])
                for name in topics
            ],
        )
        committed = client.ask(commit, 8, OffsetCommitResponse)
        assert [each.name for each in committed.topics] == topics
        producers = DescribeProducersRequest(
            topics=[AskedProducers(name="none", partition_indexes=[*range(40_000)])]
        )
        (topic,) = client.ask(producers, 0, DescribeProducersResponse).topics
        assert [each.partition_index for each in topic.partitions] == list(range(40_000))


def test_ten_thousand_partitions_of_three_replicas_are_reassigned_with_one_request(
    broker: BrokerThread,
) -> None:
    """As many as Kafka's controller changes at once; each replica is an element as well."""
    moves = [ReassignablePartition(partition_index=i, replicas=[0, 1, 2]) for i in range(10_000)]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=9_000, topics=[ReassignableTopic(name="none", partitions=moves)]
    )
    with RawClient(broker.port) as client:
        answer = client.ask(request, 0, AlterPartitionReassignmentsResponse)
    assert [len(topic.partitions) for topic in answer.responses] == [10_000]


def test_requests_behind_a_large_one_are_answered_after_it(broker: BrokerThread) -> None:
    large = DescribeGroupsRequest(groups=["g"] * 10_000)
    with RawClient(broker.port) as client:
        headers = [client.send(large, 6), client.send(MetadataRequest(topics=[]), 12)]
        first, second = [client.receive(header) for header in headers]
        assert isinstance(first, DescribeGroupsResponse)
        assert len(first.groups) == 10_000
        assert isinstance(second, MetadataResponse)


def test_a_small_fetch_of_a_large_session_waits_for_its_turn(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 60 bytes go through all partitions of the session."""
    begun: list[LargeRequests] = []
    queues: list[LargeRequests] = []
    submit = LargeRequests.submit

    def watched(
        self: LargeRequests, work: Generator[None, None, object], client: Hashable = None
    ) -> asyncio.Future[object]:
        begun.append(self)
        return submit(self, work, client)

    monkeypatch.setattr(LargeRequests, "submit", watched)
    few, many = PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE + 1
    for count, replica, turns in ((few, -1, 0), (many, -1, 1), (many, 7, 1)):
        partitions = [FetchPartition(partition=number) for number in range(count)]
        topics = [FetchTopic(topic="none", partitions=partitions)]
        with RawClient(broker.port) as client:
            begins = FetchRequest(session_epoch=0, topics=topics, replica_id=replica)
            full = client.ask(begins, 11, FetchResponse)
            assert full.session_id
            begun.clear()
            small = FetchRequest(session_id=full.session_id, session_epoch=1, replica_id=replica)
            answer = client.ask(small, 11, FetchResponse)
            assert [len(each.partitions) for each in answer.responses] == [count]
            assert len(begun) == turns
            queues += begun
            client.ask(FetchRequest(session_id=full.session_id), 11, FetchResponse)
    # A follower waits for no client; this one is no replica of these topics.
    of_clients, of_followers = queues
    assert of_clients is not of_followers


def test_a_resource_is_described_once(broker: BrokerThread) -> None:
    def resource(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
        return DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )

    own = resource(BROKER, "0")
    request = DescribeConfigsRequest(
        resources=[own] * 1_000 + [resource(TOPIC, "none"), resource(BROKER, "0", "node.id"), own]
    )
    with RawClient(broker.port) as client:
        answer = client.ask(request, 1, DescribeConfigsResponse)
    named = [(each.resource_type, each.resource_name) for each in answer.results]
    assert named == [(BROKER, "0"), (TOPIC, "none"), (BROKER, "0")]
    assert [each.name for each in answer.results[2].configs] == ["node.id"]


def test_metadata_describes_a_topic_once(broker: BrokerThread) -> None:
    by_name = [MetadataRequestTopic(name=name) for name in ("a", "b", "a", "b", "a")]
    by_id = [MetadataRequestTopic(name=None, topic_id=Uuid(b"1" * 16))] * 3
    with RawClient(broker.port) as client:
        answer = client.ask(MetadataRequest(topics=by_name), 12, MetadataResponse)
        assert [each.name for each in answer.topics] == ["a", "b"]
        answer = client.ask(MetadataRequest(topics=by_id), 12, MetadataResponse)
        assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_page_of_partitions_is_no_larger_than_the_broker_allows(broker: BrokerThread) -> None:
    topic = CreatableTopic(name="three", num_partitions=3, replication_factor=1)
    page = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="three")])
    with RawClient(broker.port) as client:
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=9_000), 7, CreateTopicsResponse)
        answer = client.ask(page, 0, DescribeTopicPartitionsResponse)
    assert [len(each.partitions) for each in answer.topics] == [2]
    assert answer.next_cursor is not None
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("three", 2)

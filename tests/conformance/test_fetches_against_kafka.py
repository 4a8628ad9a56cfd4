"""Fetches, with and without sessions, beside Apache Kafka's answers to the same."""

import time
from collections.abc import Callable, Iterator

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierlog.clients.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import RawClient
from .side_by_side import SideBySide, both_brokers

pytestmark = pytest.mark.recorded

TOPIC = "fetched"
UNKNOWN_ID = Uuid(b"\x01" * 16)
BATCHES = 6
RECORDS_PER_BATCH = 3
END = BATCHES * RECORDS_PER_BATCH


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_brokers(tmp_path_factory.mktemp("side_by_side")) as both_ports:
        with SideBySide(*both_ports) as both:
            topics = [CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)]
            both.same(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
            for client in (both.kafka, both.ours):
                fill(client)
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


def fill(client: RawClient) -> None:
    """Partition 0 gets batches, 1 gets one, 2 stays empty. Tries until the leader is there."""
    for partition in [0] * BATCHES + [1]:
        for _ in range(1_000):
            if not produce(client, partition):
                break
        else:
            raise AssertionError("the partition never got a leader")


def produce(client: RawClient, partition: int, topic: str = TOPIC, later_ms: int = 0) -> int:
    moment = 1_700_000_000_000 + later_ms
    records = [Record(n, moment, b"k", b"v" * 50, ()) for n in range(RECORDS_PER_BATCH)]
    data = PartitionProduceData(index=partition, records=build_batch(records))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
    answer = client.ask(request, 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def topic_id(client: RawClient) -> Uuid:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    return client.ask(asked, 12, MetadataResponse).topics[0].topic_id


def fetch(
    version: int, *partitions: FetchPartition, name: str = TOPIC, wait_ms: int = 0
) -> Callable[[RawClient], FetchRequest]:
    """A request for both, which from version 13 on must carry each one's topic id."""

    def build(client: RawClient) -> FetchRequest:
        if version < 13:
            topic = FetchTopic(topic=name, partitions=list(partitions))
        else:
            chosen = topic_id(client) if name == TOPIC else UNKNOWN_ID
            topic = FetchTopic(topic_id=chosen, partitions=list(partitions))
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[topic])

    return build


def wanted(
    partition: int = 0,
    offset: int = 0,
    max_bytes: int = 1_000_000,
    *,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=current_leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("offset", [0, 1, 3, END - 1, END, END + 1, -1])
def test_a_fetch_from_an_offset(brokers: SideBySide, version: int, offset: int) -> None:
    request = fetch(version, wanted(0, offset))
    brokers.same_of(*brokers.ask_each(request, version))


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_small_limits_still_bring_a_batch(brokers: SideBySide, version: int) -> None:
    for max_bytes in (0, 1, 100, 400):
        request = fetch(version, wanted(0, 4, max_bytes), wanted(1, 0, max_bytes), wanted(2, 0))
        brokers.same_of(*brokers.ask_each(request, version))


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_what_is_not_there(brokers: SideBySide, version: int) -> None:
    brokers.same_of(*brokers.ask_each(fetch(version, wanted(9)), version))
    brokers.same_of(*brokers.ask_each(fetch(version, wanted(0), name="missing"), version))


@pytest.mark.parametrize("version", [9, 12, 17])
def test_the_leader_epoch_fences(brokers: SideBySide, version: int) -> None:
    for epoch in (-1, 0, 1, 9):
        request = fetch(version, wanted(0, 0, current_leader_epoch=epoch))
        brokers.same_of(*brokers.ask_each(request, version))


@pytest.mark.parametrize("version", [12, 16])
def test_a_log_that_diverges_gets_the_diverging_epoch(brokers: SideBySide, version: int) -> None:
    for offset, epoch in ((0, 0), (END, 0), (END + 5, 0), (3, 7), (END + 5, 7)):
        request = fetch(version, wanted(0, offset, last_fetched_epoch=epoch))
        brokers.same_of(*brokers.ask_each(request, version))


@pytest.mark.parametrize("level", [0, 1])
def test_isolation_levels(brokers: SideBySide, level: int) -> None:
    def isolated(client: RawClient) -> FetchRequest:
        request = fetch(12, wanted(0, 6))(client)
        request.isolation_level = level
        return request

    brokers.same_of(*brokers.ask_each(isolated, 12))


class Session:
    """The same incremental session with both brokers."""

    def __init__(self, brokers: SideBySide, version: int) -> None:
        self._brokers = brokers
        self.version = version
        self._ids: dict[int, int] = {}

    def ask(
        self,
        epoch: int,
        *partitions: FetchPartition,
        forget: tuple[int, ...] = (),
        max_bytes: int = 1_000_000,
    ) -> list[int]:
        """One round; both must answer the same, and give an id or none.

        The partitions of the answer are returned.
        """

        def build(client: RawClient) -> FetchRequest:
            request = fetch(self.version, *partitions)(client)
            request.max_bytes = max_bytes
            request.session_id = self._ids.get(id(client), 0)
            request.session_epoch = epoch
            topic = request.topics[0]
            if not partitions:
                request.topics = []
            if forget:
                request.forgotten_topics_data = [
                    ForgottenTopic(
                        topic=topic.topic, topic_id=topic.topic_id, partitions=list(forget)
                    )
                ]
            return request

        kafka, ours = self._brokers.ask_each(build, self.version)
        assert isinstance(kafka, FetchResponse)
        assert isinstance(ours, FetchResponse)
        self._brokers.same_of(kafka, ours)
        assert bool(kafka.session_id) == bool(ours.session_id)
        if kafka.session_id:
            self._ids = {
                id(self._brokers.kafka): kafka.session_id,
                id(self._brokers.ours): ours.session_id,
            }
        return [each.partition_index for topic in kafka.responses for each in topic.partitions]


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_a_session_from_its_beginning_to_its_end(brokers: SideBySide, version: int) -> None:
    session = Session(brokers, version)
    session.ask(0, wanted(0, END), wanted(1, 0), wanted(2, 0))
    session.ask(1, wanted(1, 3))
    session.ask(2)
    session.ask(3, wanted(0, 0))
    session.ask(4, wanted(0, END + 9))
    session.ask(5)
    session.ask(6, wanted(0, END), forget=(1,))
    session.ask(7)
    session.ask(9)
    session.ask(8)
    session.ask(-1)
    session.ask(9)


@pytest.mark.parametrize("version", [7, 13])
def test_a_session_that_forgets_everything_is_over(brokers: SideBySide, version: int) -> None:
    session = Session(brokers, version)
    session.ask(0, wanted(0, END))
    session.ask(1, forget=(0,))
    session.ask(2, wanted(0, 0))


@pytest.mark.parametrize("version", [7, 13])
def test_a_session_without_partitions_ends_with_its_next_request(
    brokers: SideBySide, version: int
) -> None:
    session = Session(brokers, version)
    session.ask(0)
    session.ask(1)
    session.ask(1)
    session.ask(0)
    session.ask(1, wanted(0, END))
    session.ask(2)
    session.ask(-1)
    session.ask(0, wanted(0, END))
    session.ask(2)
    session.ask(1)
    # The beginning of another one is the end of this one.
    session.ask(0)
    session.ask(2)
    session.ask(0, wanted(0, END))
    session.ask(-1)
    session.ask(1)


@pytest.mark.parametrize("version", [7, 13])
def test_a_session_hears_of_each_offset_that_moves(brokers: SideBySide, version: int) -> None:
    both = (brokers.kafka, brokers.ours)
    session = Session(brokers, version)
    # Partition 2, at its end, is behind 0, which alone has room in an answer.
    ends = {produce(client, 2) for client in both}
    assert ends == {0}
    end = 3 if version == 7 else 9
    session.ask(0, wanted(0), wanted(2, end), max_bytes=1)
    for client in both:
        assert not produce(client, 2)
    assert session.ask(1, max_bytes=1) == [0, 2]
    assert session.ask(2, wanted(0, END), wanted(2, end + 3)) == []
    deletion = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=2, offset=end)]
            )
        ],
        timeout_ms=10_000,
    )
    brokers.same(deletion, 2)
    assert session.ask(3) == [2]
    assert session.ask(4) == []


@pytest.mark.parametrize("version", [7, 13])
def test_a_session_is_of_names_or_of_ids(brokers: SideBySide, version: int) -> None:
    session = Session(brokers, version)
    session.ask(0, wanted(0, END))
    session.version = 20 - version
    session.ask(1)
    session.ask(1, wanted(1, 3))
    session.version = version
    session.ask(1)


def test_a_fetch_does_not_wait_behind_the_end_of_its_segment(
    ports: tuple[int, int], brokers: SideBySide
) -> None:
    """Whatever bytes it asks for: while it waits, and when it is sent."""
    configs = [CreatableTopicConfig(name="segment.ms", value="1000")]
    topic = CreatableTopic(name="rolled", num_partitions=1, replication_factor=1, configs=configs)
    brokers.same(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    for client in (brokers.kafka, brokers.ours):
        while produce(client, 0, "rolled"):
            pass
    request = fetch(11, wanted(0, 1), name="rolled", wait_ms=20_000)(brokers.ours)
    request.min_bytes = 500_000
    began = time.monotonic()
    with SideBySide(*ports) as waiting:
        sent = [client.send(request, 11) for client in (waiting.kafka, waiting.ours)]
        for client in (brokers.kafka, brokers.ours):
            assert not produce(client, 0, "rolled", later_ms=60_000)
        waiting.same_of(waiting.kafka.receive(sent[0]), waiting.ours.receive(sent[1]))
    brokers.same(request, 11)
    assert time.monotonic() - began < 15

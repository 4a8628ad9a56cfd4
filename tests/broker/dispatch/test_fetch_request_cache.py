"""A consumer that asks again and again is answered as if each of its requests were the first."""

import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from hypothesis import given, settings, strategies as st

from tierlog.broker.dispatch.fetch_request_cache import CACHED_MAX
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tierlog.clients.protocol.primitives import size_of
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient
from ..twin_brokers import (
    PARTITIONS,
    TOPICS,
    Twin,
    check_cut_requests,
    compare_answers,
    compare_tails,
    create,
    delete,
    twin_of,
)

BATCHES = 40
UNKNOWN_TAG = b"\1\x63\1\0"
"""One tagged field, 99, of one byte."""


class Asked(NamedTuple):
    """A Fetch request."""

    topic: str = TOPICS[0]
    partitions: tuple[int, ...] = (0,)
    offset: int = 0
    version: int = 16
    max_bytes: int = 20_000
    isolation: int = 1
    session_epoch: int = -1
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    replica_id: int = -1
    client_id: str | None = "me"
    rack: str = ""
    tags: bytes = b"\0"
    tail: bytes = b""

    def frame(self, topic_id: Uuid) -> bytes:
        asked = FetchTopic(topic=self.topic, topic_id=topic_id)
        asked.partitions = [
            FetchPartition(
                partition=each,
                fetch_offset=self.offset,
                current_leader_epoch=self.leader_epoch,
                partition_max_bytes=self.max_bytes,
            )
            for each in self.partitions
        ]
        if self.version >= 12:
            for each in asked.partitions:
                each.last_fetched_epoch = self.last_fetched_epoch
        request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[asked])
        request.isolation_level = self.isolation
        request.session_epoch = self.session_epoch
        request.rack_id = self.rack
        if self.version < 15:
            request.replica_id = self.replica_id
        header = encode_request_header(RequestHeader(ApiKey.FETCH, self.version, 7, self.client_id))
        body = encode_bytes(request, self.version)
        return header + (body if self.version < 12 else body[:-1] + self.tags) + self.tail


def usual() -> st.SearchStrategy[Asked]:
    """What a consumer sends, mostly."""
    return st.builds(
        Asked,
        topic=st.sampled_from((*TOPICS, TOPICS[0])),
        partitions=st.sampled_from(((0,), (1,), (2,), (2,))),
        offset=st.integers(0, BATCHES * 2 + 1),
        version=st.sampled_from((16, 16, 16, 12, 11, 11, 5)),
        max_bytes=st.sampled_from((20_000, 20_000, 3_000)),
        isolation=st.sampled_from((1, 1, 0)),
        session_epoch=st.just(-1),
        leader_epoch=st.just(-1),
        last_fetched_epoch=st.just(-1),
        replica_id=st.just(-1),
        client_id=st.just("me"),
        rack=st.just(""),
        tags=st.just(b"\0"),
        tail=st.just(b""),
    )


def unusual() -> st.SearchStrategy[Asked]:
    """What is answered in another way, or to somebody else."""
    return st.builds(
        Asked,
        topic=st.sampled_from((*TOPICS, "nobody")),
        partitions=st.sampled_from(((0,), (PARTITIONS,), (0, 1), ())),
        offset=st.sampled_from((0, 5, BATCHES * 2, BATCHES * 2 + 5, -1)),
        version=st.sampled_from((4, 6, 7, 9, 13, 14, 15, 17, 18)),
        max_bytes=st.sampled_from((1, 0, 20_000)),
        isolation=st.sampled_from((0, 1, 5)),
        session_epoch=st.sampled_from((-1, 5)),
        leader_epoch=st.sampled_from((-1, 0, 9)),
        last_fetched_epoch=st.sampled_from((-1, 0, 3)),
        replica_id=st.sampled_from((-1, -2)),
        client_id=st.sampled_from(("me", "you", "", None)),
        rack=st.sampled_from(("", "r1")),
        tags=st.sampled_from((b"\0", UNKNOWN_TAG)),
        tail=st.just(b""),
    )


def produce(client: RawClient, topic: str, partition: int, *, value: bytes = b"") -> int:
    """Append one batch of two records; its base offset."""
    batch = build_batch([Record(0, 1_700_000_000_000, None, value, ()) for _ in range(2)])
    data = wire.PartitionProduceData(index=partition, records=memoryview(batch))
    asked = wire.TopicProduceData(name=topic, partition_data=[data])
    request = wire.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[asked])
    (topic_answer,) = client.ask(request, 9, wire.ProduceResponse).responses
    (result,) = topic_answer.partition_responses
    assert result.error_code == 0
    return result.base_offset


def transact(port: int) -> Producer:
    """Committed and aborted transactions in partition 2, one in 3 that the producer keeps open."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "tx"})
    producer.init_transactions(10)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(TOPICS[0], bytes(1_000), partition=2)
        producer.flush(60)
        if number % 2:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce(TOPICS[0], bytes(1_000), partition=3)
    producer.flush(60)
    return producer


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Twin, Twin]]:
    """One broker: a fetch changes nothing, so connections need not have brokers of their own."""
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        twin = twin_of(broker)
        with RawClient(broker.port) as client:
            for size in range(BATCHES):
                for partition in (0, 1):
                    produce(client, TOPICS[0], partition, value=bytes(size * 30))
            produce(client, TOPICS[0], 3)
            produce(client, TOPICS[1], 0)
        in_transaction = transact(broker.port)
        yield twin, twin
        del in_transaction


@settings(deadline=None, max_examples=60)
@given(st.lists(usual() | usual() | unusual(), min_size=2, max_size=25))
def test_answers_are_those_of_connections_that_have_asked_nothing_before(
    twins: tuple[Twin, Twin], requests: list[Asked]
) -> None:
    compare_answers(twins, requests)


def test_a_topic_is_read_to_its_end_as_by_strangers(twins: tuple[Twin, Twin]) -> None:
    for partition in (0, 1, 2, 3):
        for version, isolation in ((16, 0), (16, 1), (11, 1)):
            usual = Asked(partitions=(partition,), isolation=isolation, version=version)
            compare_answers(twins, [usual._replace(offset=n) for n in range(BATCHES * 2 + 3)])


@pytest.mark.parametrize(
    "asked",
    [
        Asked(partitions=(0, 1)),
        Asked(partitions=(PARTITIONS,)),
        Asked(partitions=()),
        Asked(topic="nobody"),
        Asked(offset=-1),
        Asked(offset=BATCHES * 2 + 5),
        Asked(version=4),
        Asked(version=5, offset=BATCHES * 2),
        Asked(version=11),
        Asked(version=11, offset=BATCHES * 2 + 5),
        Asked(version=18),
        Asked(version=18, offset=BATCHES * 2),
        Asked(max_bytes=0),
        Asked(session_epoch=5),
        Asked(leader_epoch=0),
        Asked(leader_epoch=9),
        Asked(last_fetched_epoch=0),
        Asked(last_fetched_epoch=0, offset=BATCHES * 2 + 5),
        Asked(last_fetched_epoch=3),
        Asked(version=14, replica_id=7),
        Asked(rack="r1"),
        Asked(tags=UNKNOWN_TAG),
    ],
)
def test_what_is_asked_often_is_answered_as_at_its_first_time(
    twins: tuple[Twin, Twin], asked: Asked
) -> None:
    compare_answers(twins, [asked] * 4)


def test_what_leaves_is_counted(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic_id = create(client, "t")
        produce(client, "t", 0)
        assert broker.broker is not None
        counter = broker.broker.metrics.counter(
            "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"
        )
        for times in range(1, 6):
            answer = answer_to(client, fetching(0, topic_id))
            assert answer.records is not None
            assert counter.value == times * size_of(answer.records) > 0


@pytest.mark.parametrize("tail", [b"\0", b"\1", b"\0\0\0"])
def test_what_follows_a_request_counts_as_at_its_first_time(
    twins: tuple[Twin, Twin], tail: bytes
) -> None:
    for version in (16, 11):
        compare_tails(twins[0], Asked(version=version), Asked(version=version, tail=tail))


def test_a_cut_request_ends_the_connection_after_many_good_ones_too(
    twins: tuple[Twin, Twin],
) -> None:
    for version in (16, 11):
        check_cut_requests(twins[0], Asked(version=version))


def fetching(offset: int, topic_id: Uuid = ZERO_UUID, *, max_wait_ms: int = 1) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=20_000)
    topic = FetchTopic(topic="", topic_id=topic_id, partitions=[asked])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


def answer_to(client: RawClient, request: FetchRequest) -> PartitionData:
    (topic,) = client.ask(request, 16, FetchResponse).responses
    (answer,) = topic.partitions
    return answer


def test_a_fetch_that_must_wait_is_answered_when_records_come(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic_id = create(client, "t")
        with RawClient(broker.port) as other:
            for offset in range(0, 12, 2):
                sent = threading.Timer(0.05, produce, (other, "t", 0))
                sent.start()
                answer = answer_to(client, fetching(offset, topic_id, max_wait_ms=20_000))
                sent.join()
                assert (answer.error_code, answer.high_watermark) == (0, offset + 2)
                assert answer.records


def test_a_topic_that_was_made_anew_is_another_one(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic_id = create(client, "t")
        with RawClient(broker.port) as other:
            produce(other, "t", 0)
            for _ in range(4):
                assert answer_to(client, fetching(0, topic_id)).high_watermark == 2
            delete(other, "t")
            again = create(other, "t")
        assert answer_to(client, fetching(0, topic_id)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert answer_to(client, fetching(0, again)).high_watermark == 0


@pytest.mark.parametrize("version", [16, 11])
def test_a_connection_keeps_little_of_what_it_asked(tmp_path: Path, version: int) -> None:
    """Racks may have 32,767 characters, and every client may state one."""
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        twin = twin_of(broker)
        for partition in range(CACHED_MAX):
            produce(client, TOPICS[0], partition)
        usual = Asked(version=version, rack="r" * 14_000)
        tracemalloc.start()
        try:
            for partition in (0, *range(CACHED_MAX)):
                client.send_frame(twin.frame(usual._replace(partitions=(partition,))))
                client.receive_frame()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 400_000

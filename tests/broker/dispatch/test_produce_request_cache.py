"""A producer that asks again and again is answered as if each of its requests were the first."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.broker.dispatch import produce_request_cache
from tierlog.broker.dispatch.produce_request_cache import ProduceRequestCache
from tierlog.broker.handlers.produce import handle
from tierlog.broker.metrics.metrics import Counter
from tierlog.broker.request.context import BrokerContext, Deferred, RequestContext
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.replication.leader.replica_manager import ReplicaManager
from tierlog.replication.metadata.metadata_records import ConfigRecord
from tierlog.tests import wire
from tierlog.tests.simulation.loop import SimulatedLoop

from ...broker_process import BrokerThread, RawClient
from ...replication.three_replicas import SECOND, THIRD, one_leader
from ..twin_brokers import (
    PARTITIONS,
    TOPICS,
    Twin,
    check_cut_requests,
    compare_answers,
    compare_tails,
    create,
    delete,
    twin_brokers,
)


def data_of(size: int, *, index: int = 0, damaged: bool = False) -> wire.PartitionProduceData:
    batch = build_batch([Record(0, 1_700_000_000_000, None, bytes(size), ())])
    if damaged:
        batch[-1] ^= 0xFF
    return wire.PartitionProduceData(index=index, records=memoryview(batch))


def asking(
    topic: str, *data: wire.PartitionProduceData, topic_id: Uuid = ZERO_UUID
) -> wire.ProduceRequest:
    asked = wire.TopicProduceData(name=topic, topic_id=topic_id, partition_data=list(data))
    return wire.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[asked])


class Asked(NamedTuple):
    """A Produce request, to be sent to two brokers."""

    topic: str = TOPICS[0]
    partitions: tuple[int, ...] = (0,)
    size: int = 100
    version: int = 10
    acks: int = -1
    client_id: str | None = "me"
    is_damaged: bool = False
    transactional_id: str | None = None
    tail: bytes = b""

    def frame(self, topic_id: Uuid) -> bytes:
        data = [data_of(self.size, index=each, damaged=self.is_damaged) for each in self.partitions]
        request = asking(self.topic, *data, topic_id=topic_id)
        request.acks = self.acks
        request.transactional_id = self.transactional_id
        header = encode_request_header(
            RequestHeader(ApiKey.PRODUCE, self.version, 7, self.client_id)
        )
        return header + encode_bytes(request, self.version) + self.tail


def usual() -> st.SearchStrategy[Asked]:
    """What a producer sends, mostly."""
    return st.builds(
        Asked,
        topic=st.sampled_from((*TOPICS, TOPICS[0])),
        partitions=st.sampled_from(((0,), (1,), (PARTITIONS - 1,))),
        size=st.sampled_from((0, 1, 40, 100, 5_000, 20_000)),
        version=st.sampled_from((10, 10, 10, 13, 7, 7, 5)),
        acks=st.just(-1),
        client_id=st.just("me"),
        is_damaged=st.just(False),
        transactional_id=st.none(),
        tail=st.just(b""),
    )


def unusual() -> st.SearchStrategy[Asked]:
    """What is answered in another way, or by somebody else."""
    return st.builds(
        Asked,
        topic=st.sampled_from((*TOPICS, "nobody")),
        partitions=st.sampled_from(((0,), (PARTITIONS,), (0, 1), ())),
        size=st.just(100),
        version=st.sampled_from((3, 4, 6, 8, 9, 11, 12, 13)),
        acks=st.sampled_from((-1, 1, 2)),
        client_id=st.sampled_from(("me", "you", "", None)),
        is_damaged=st.booleans(),
        transactional_id=st.sampled_from((None, "tx")),
        tail=st.just(b""),
    )


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Twin, Twin]]:
    with twin_brokers(tmp_path_factory.mktemp("twins")) as both:
        yield both


@settings(deadline=None, max_examples=60)
@given(st.lists(usual() | usual() | unusual(), min_size=2, max_size=25))
def test_answers_are_those_of_connections_that_have_asked_nothing_before(
    twins: tuple[Twin, Twin], requests: list[Asked]
) -> None:
    compare_answers(twins, requests)


@pytest.mark.parametrize("tail", [b"\0", b"\1", b"\0\0\0"])
def test_what_follows_a_request_counts_as_at_its_first_time(
    twins: tuple[Twin, Twin], tail: bytes
) -> None:
    for version in (10, 7):
        compare_tails(twins[0], Asked(version=version), Asked(version=version, tail=tail))


def test_a_cut_request_ends_the_connection_after_many_good_ones_too(
    twins: tuple[Twin, Twin],
) -> None:
    for version in (10, 7):
        check_cut_requests(twins[0], Asked(version=version))


@pytest.mark.parametrize("cached_max", [8, 256])
def test_many_partitions_in_turn_are_all_distinguished(
    twins: tuple[Twin, Twin], monkeypatch: pytest.MonkeyPatch, cached_max: int
) -> None:
    monkeypatch.setattr(produce_request_cache, "CACHED_MAX", cached_max)
    twin, _ = twins
    with RawClient(twin.port) as client:
        known: dict[int, int] = {}
        for turn in range(4):
            for index in range(PARTITIONS):
                request = asking("t", data_of(10, index=index))
                answer = client.ask(request, 10, wire.ProduceResponse)
                (result,) = answer.responses[0].partition_responses
                assert (result.index, result.error_code) == (index, 0)
                assert not turn or result.base_offset == known[index] + 1
                known[index] = result.base_offset


LONG_NAME = "a-topic-whose-name-has-more-than-a-hundred-and-twenty-seven-characters" * 2


@pytest.mark.parametrize("version", [5, 7, 8, 9, 10, 13])
def test_topics_and_partitions_in_turn_are_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    decoded: list[int] = []
    put = ProduceRequestCache.put

    def count(
        self: ProduceRequestCache, frame: memoryview, request: Message, response: Message | None
    ) -> None:
        decoded.append(len(frame))
        put(self, frame, request, response)

    monkeypatch.setattr(ProduceRequestCache, "put", count)
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        ids = {name: create(client, name) for name in ("t", "another-topic", LONG_NAME)}
        for turn in range(5):
            for name, topic_id in ids.items():
                for index in range(PARTITIONS):
                    request = asking(name, data_of(10, index=index), topic_id=topic_id)
                    answer = client.ask(request, version, wire.ProduceResponse)
                    (result,) = answer.responses[0].partition_responses
                    assert (result.index, result.base_offset) == (index, turn)
    # The first request of all is not cached, so that it is decoded once more.
    assert len(decoded) == len(ids) * PARTITIONS + 1


def test_what_a_connection_no_longer_sends_makes_room(
    twins: tuple[Twin, Twin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_request_cache, "CACHED_MAX", 2)
    forgotten: list[int] = []
    entry_of = getattr(ProduceRequestCache, "_entry_of")  # noqa: B009  # a test looks inside

    def count(self: ProduceRequestCache, request: wire.ProduceRequest, partition: object) -> object:
        forgotten.append(request.topic_data[0].partition_data[0].index)
        return entry_of(self, request, partition)

    monkeypatch.setattr(ProduceRequestCache, "_entry_of", count)
    with RawClient(twins[0].port) as client:
        for index in [0, 0, 1] + [2] * 100:
            client.ask(asking("t", data_of(10, index=index)), 10, wire.ProduceResponse)
    assert forgotten == [0, 1, 2]


def test_a_topic_that_was_made_anew_is_another_one(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic_id = create(client, "t")

        def produce(wanted: Uuid) -> tuple[int, int]:
            answer = client.ask(asking("", data_of(1), topic_id=wanted), 13, wire.ProduceResponse)
            (result,) = answer.responses[0].partition_responses
            return result.error_code, result.base_offset

        assert [produce(topic_id) for _ in range(4)] == [(0, 0), (0, 1), (0, 2), (0, 3)]
        with RawClient(broker.port) as other:
            delete(other, "t")
            again = create(other, "t")
        assert produce(topic_id)[0] == ErrorCode.UNKNOWN_TOPIC_ID
        assert produce(again) == (0, 0)


class Parts(NamedTuple):
    """What of a broker an append needs."""

    replica_manager: ReplicaManager
    bytes_in: Counter
    authorizer: None = None


async def test_an_answer_that_must_wait_for_followers_comes_when_they_have_the_records(
    loop: SimulatedLoop,
) -> None:
    asker = RequestContext(ApiKey.PRODUCE, 9, "me", "here", "PLAINTEXT")

    def frame() -> memoryview:
        return memoryview(bytearray(encode_bytes(asking("t", data_of(10)), 9)))

    async with one_leader(loop) as leader:
        min_isr = ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas")
        min_isr.value = "1"
        leader.publish(min_isr)
        leader.change(isr=[1])
        context = cast("BrokerContext", Parts(leader.replicas, Counter()))
        cache = ProduceRequestCache(context, asker, 0)
        for offset in range(2):
            request = asking("t", data_of(10))
            response = handle(context, asker, request)
            assert isinstance(response, wire.ProduceResponse)
            assert response.responses[0].partition_responses[0].base_offset == offset
            assert cache.answer(frame()[:-1], 1) is None
            cache.put(frame(), request, response)
        assert isinstance(cache.answer(frame(), 1), list)
        leader.change(isr=[1, 2, 3])
        for follower in (SECOND, THIRD):
            leader.follow(follower, 3)
        later = cache.answer(frame(), 1)
        assert isinstance(later, Deferred)
        assert isinstance(later.work, asyncio.Future)
        assert not later.work.done()
        for follower in (SECOND, THIRD):
            leader.follow(follower, 4)
        # It is encoded already: a frame of size, correlation id and response.
        (answered,) = cast("list[bytes]", later.then(await later.work))
        assert int.from_bytes(answered[:4]) == len(answered) - 4
        answer = decode(wire.ProduceResponse, 9, answered, 9)[0]
        (result,) = answer.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (0, 3)
        leader.change(leader=SECOND)
        refused = cache.answer(frame(), 1)
        assert isinstance(refused, wire.ProduceResponse)
        (result,) = refused.responses[0].partition_responses
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

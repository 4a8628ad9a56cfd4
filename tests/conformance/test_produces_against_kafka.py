"""Batches are taken, refused and found as by Apache Kafka: Produce, ListOffsets, epochs' ends."""

import struct
from collections.abc import Iterator
from functools import partial

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
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
from tierlog.clients.protocol.messages.produce import ProduceRequest, ProduceResponse
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import RawClient
from .side_by_side import SideBySide
from .topic_requests import (
    WORDS,
    batch,
    both_with_known_topic,
    creation,
    production,
    wait_for_leader,
)

pytestmark = pytest.mark.recorded


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_with_known_topic(tmp_path_factory.mktemp("side_by_side")) as both_ports:
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


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


def in_one_order(*answers: Message) -> list[Message]:
    """Kafka answers those that it refuses before the log is asked after the others."""
    for answer in answers:
        assert isinstance(answer, ProduceResponse)
        answer.responses.sort(key=lambda each: (each.partition_responses[0].error_code, each.name))
    return [*answers]


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("name", BATCHES)
def test_wrong_acks_are_found_last(brokers: SideBySide, version: int, name: str) -> None:
    for acks in (5, -2):
        brokers.same(production(BATCHES[name], acks=acks), version, ignoring=WORDS)
        missing = production(BATCHES[name], topic="missing", acks=acks)
        brokers.same(missing, version, ignoring=WORDS)
        missing.topic_data += production(batch()).topic_data
        brokers.same_of(*in_one_order(*brokers.ask(missing, version)), ignoring=WORDS)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("acks", [1, 5])
def test_topics_by_an_id_that_nobody_knows(brokers: SideBySide, acks: int, name: str) -> None:
    ids = {
        client: client.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name="known")]), 12, MetadataResponse
        )
        .topics[0]
        .topic_id
        for client in (brokers.kafka, brokers.ours)
    }

    def produced(client: RawClient, *, with_known: bool) -> ProduceRequest:
        request = production(BATCHES[name], acks=acks)
        request.topic_data[0].topic_id = Uuid(b"\x01" * 16)
        if with_known:
            known = production(batch()).topic_data[0]
            known.topic_id = ids[client]
            request.topic_data.append(known)
        return request

    for with_known in (False, True):
        answers = brokers.ask_each(partial(produced, with_known=with_known), 13)
        brokers.same_of(*in_one_order(*answers), ignoring=WORDS)


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
    for indexes in ((0, 0), (0, 7)):
        topics = [
            ListOffsetsTopic(
                name="filled", partitions=[ListOffsetsPartition(partition_index=i, timestamp=-1)]
            )
            for i in indexes
        ]
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

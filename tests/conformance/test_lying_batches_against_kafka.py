"""Batches that tell lies which agree with each other are taken or refused as by Apache Kafka.

The CRC is right in all of them. Where we differ on purpose (docs/differences.md), that is written
down here as well, with what each of the two answers.
"""

from collections.abc import Iterator

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tierlog.clients.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from tierlog.clients.record.batch import stamp_crc
from tierlog.clients.record.compression import CompressionType, compress
from tierlog.clients.record.layout import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD
from tierlog.clients.record.varint import encode_varint

from .side_by_side import SideBySide
from .topic_requests import WORDS, both_with_known_topic, creation, production, wait_for_leader

pytestmark = pytest.mark.recorded

TIME = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "keys": {"cleanup_policy": "compact"},
    "own-time": {"message_timestamp_type": "LogAppendTime"},
    "own-codec": {"compression_type": "zstd"},
}
NONE, GZIP = CompressionType.NONE, CompressionType.GZIP


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_with_known_topic(tmp_path_factory.mktemp("lying")) as both_ports:
        with SideBySide(*both_ports) as both:
            for topic, configs in TOPICS.items():
                both.same(creation(topic, 1, 1, **configs), 7)
                for client in (both.kafka, both.ours):
                    wait_for_leader(client, topic)
        yield both_ports


@pytest.fixture
def brokers(ports: tuple[int, int]) -> Iterator[SideBySide]:
    with SideBySide(*ports) as both:
        yield both


def record(
    delta: int,
    *,
    key: bytes | None = b"k",
    time: int = 0,
    headers: bytes = b"\0",
    size: int | None = None,
    key_size: int | None = None,
) -> bytes:
    """One record, with sizes that need not be true."""
    length = encode_varint(-1 if key is None else len(key) if key_size is None else key_size)
    body = b"\0" + encode_varint(time) + encode_varint(delta) + length + (key or b"")
    body += encode_varint(1) + b"v" + headers
    return encode_varint(len(body) if size is None else size) + body


def batch_of(
    *records: bytes,
    count: int | None = None,
    last_delta: int | None = None,
    latest: int = 0,
    codec: int = NONE,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    packed: bytes | None = None,
) -> bytearray:
    """A batch of these records; its header claims what it is told to."""
    count = len(records) if count is None else count
    plain = b"".join(records)
    payload = bytes(compress(CompressionType(codec), plain)) if packed is None else packed
    built = bytearray(
        HEADER.pack(
            0,
            BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
            -1,
            2,
            0,
            codec | attributes,
            count - 1 if last_delta is None else last_delta,
            TIME,
            TIME + latest,
            *producer,
            count,
        )
        + payload
    )
    with memoryview(built) as view:
        stamp_crc(view, 0, len(view))
    return built


TWO = (record(0), record(1))
NOISE = bytes(range(7, 250, 3))

ALIKE: dict[str, bytearray] = {
    "good": batch_of(*TWO),
    "one more is claimed, and covered": batch_of(*TWO, count=3),
    "one fewer is claimed, and covered": batch_of(*TWO, count=1),
    "2^31-1 are claimed, and covered": batch_of(*TWO, count=2**31 - 1),
    "no record, none claimed": batch_of(count=0),
    "no record, one claimed": batch_of(count=1),
    "count and delta are negative": batch_of(*TWO, count=-5),
    "noise of one record": batch_of(NOISE, count=1),
    "noise behind a record": batch_of(record(0), NOISE, count=1),
    "a record is larger than its fields": batch_of(record(0, size=30), record(1) + bytes(50)),
    "a record is smaller than its fields": batch_of(record(0, size=5), record(1)),
    "a record of a negative size": batch_of(record(0, size=-3), record(1)),
    "a record of 2^31-1 bytes": batch_of(record(0, size=2**31 - 1)),
    "a key of 2^31-1 bytes": batch_of(record(0, key_size=2**31 - 1)),
    "a key longer than its record": batch_of(record(0, key_size=9), record(1)),
    "more headers than bytes": batch_of(record(0, headers=encode_varint(100))),
    "headers of a negative number": batch_of(record(0, headers=encode_varint(-1))),
    "a header without a key": batch_of(record(0, headers=b"\x02\x01\x01")),
    "the largest time is too small": batch_of(record(0, time=9), record(1, time=3), latest=3),
    "the largest time is too large": batch_of(record(0, time=9), record(1, time=3), latest=900),
    "the largest time is negative": batch_of(*TWO, latest=-TIME - 5),
    "the attributes have unknown bits": batch_of(*TWO, attributes=0x7F80 - 0x8000 & 0x7F80),
    "a delete horizon of a client": batch_of(*TWO, attributes=0x40),
    "the time is the log's, says the client": batch_of(*TWO, attributes=0x08),
    "a control batch": batch_of(*TWO, attributes=0x20),
    "an epoch without a producer": batch_of(*TWO, producer=(-1, 3, -1)),
    "a sequence without a producer": batch_of(*TWO, producer=(-1, -1, 5)),
    "a producer without a sequence": batch_of(*TWO, producer=(5, 0, -1)),
    "a producer of a negative number": batch_of(*TWO, producer=(-7, 0, 0)),
    "no key": batch_of(record(0, key=None), record(1)),
}


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("name", ALIKE)
def test_both_answer_alike(brokers: SideBySide, name: str, topic: str) -> None:
    request = production(ALIKE[name], topic=topic)
    brokers.same(request, 9, ignoring=WORDS | {"log_append_time_ms", "base_offset"})


def results(brokers: SideBySide, batch: bytearray, topic: str) -> tuple[int, int]:
    """The error codes of Kafka and of ours."""
    found: list[PartitionProduceResponse] = []
    for answer in brokers.ask(production(batch, topic=topic), 9):
        assert isinstance(answer, ProduceResponse)
        found.append(answer.responses[0].partition_responses[0])
    return found[0].error_code, found[1].error_code


REFUSED_BY_BOTH = {
    "a codec of no name": (batch_of(*TWO, attributes=0x05), "plain"),
    **{
        f"noise in {codec.name.lower()}": (
            batch_of(codec=codec, count=1, packed=b"\xff" * 60),
            "plain",
        )
        for codec in CompressionType
        if codec is not NONE
    },
    **{
        f"half of {codec.name.lower()} with keys": (
            batch_of(codec=codec, count=2, packed=bytes(compress(codec, TWO[0] * 9))[:-6]),
            "keys",
        )
        for codec in CompressionType
        if codec is not NONE
    },
    "gzip of too few records": (batch_of(*TWO, codec=GZIP, count=9), "keys"),
    "gzip of too many records": (batch_of(*TWO, codec=GZIP, count=1), "keys"),
    "gzip of noise": (batch_of(NOISE, codec=GZIP, count=1), "keys"),
    "deltas that repeat in gzip": (batch_of(record(0), record(0), codec=GZIP), "keys"),
    "a time that wraps around": (batch_of(record(0, time=2**63 - 1)), "plain"),
    "2^31-1 records in gzip": (batch_of(*TWO, codec=GZIP, count=2**31 - 1), "plain"),
}


@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_both_refuse(brokers: SideBySide, name: str) -> None:
    """Kafka mostly finds no word for it (UNKNOWN_SERVER_ERROR), for a time that wraps its own."""
    batch, topic = REFUSED_BY_BOTH[name]
    kafka, ours = results(brokers, batch, topic)
    assert ours == ErrorCode.INVALID_RECORD
    assert kafka in (
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_TIMESTAMP,
    )


TAKEN_BY_KAFKA = {
    "deltas that repeat": (batch_of(record(0), record(0)), "keys"),
    "deltas that fall": (batch_of(record(1), record(0)), "plain"),
    "deltas beyond the batch": (batch_of(record(0), record(9)), "plain"),
}


@pytest.mark.parametrize("name", TAKEN_BY_KAFKA)
def test_only_kafka_takes_offsets_out_of_order(brokers: SideBySide, name: str) -> None:
    """See docs/differences.md: Kafka's own compaction cannot write them again."""
    batch, topic = TAKEN_BY_KAFKA[name]
    assert results(brokers, batch, topic) == (ErrorCode.NONE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_the_largest_time_is_put_right_alike(brokers: SideBySide, codec: int) -> None:
    topic = f"times-{codec}"
    brokers.same(creation(topic, cleanup_policy="compact"), 7)
    for client in (brokers.kafka, brokers.ours):
        wait_for_leader(client, topic)
    for latest in (3, 9, 900, -5):
        lying = batch_of(record(0, time=9), record(1, time=3), latest=latest, codec=codec)
        brokers.same(production(lying, topic=topic), 9)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    brokers.same(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), 11)

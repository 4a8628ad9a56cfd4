"""What a topic's properties make of records, in Apache Kafka and here: codecs, clocks, ages, sizes.

Both are asked to keep house every second, so that what is due is done soon.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest

from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tierlog.clients.protocol.messages.produce import ProduceResponse
from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.runtime.environment import SystemEnvironment

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers
from .topic_requests import WORDS, creation, production, wait_for_leader

pytestmark = pytest.mark.requires("java", "mvn")

OFTEN = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
HOUR_MS = 3_600_000
NOW_MS = SystemEnvironment().wall_clock_ms()
TARGETS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
LOG_APPEND_TIME_BIT = 0x08


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with both_brokers(tmp_path_factory.mktemp("both"), OFTEN) as ports, SideBySide(*ports) as both:
        yield both


def make(both: SideBySide, topic: str, **configs: str) -> None:
    both.same(creation(topic, 1, 1, **configs), 7)
    for client in (both.kafka, both.ours):
        wait_for_leader(client, topic)


def records(*times_ms: int, key: bytes | None = b"k", size: int = 20) -> list[Record]:
    return [
        Record(n, time_ms, key, bytes([n]) * size, (("h", b"x"),))
        for n, time_ms in enumerate(times_ms)
    ]


def put(both: SideBySide, topic: str, batch: bytearray, version: int = 9) -> list[int]:
    """Produce it to both, who must answer alike but for their own time; the error codes."""
    codes: list[int] = []
    answers = both.ask(production(batch, topic=topic, acks=-1), version)
    both.same_of(*answers, ignoring=WORDS | {"log_append_time_ms", "log_start_offset"})
    for answer in answers:
        assert isinstance(answer, ProduceResponse)
        codes.append(answer.responses[0].partition_responses[0].error_code)
    return codes


def stored(client: RawClient, topic: str) -> list[RecordBatch]:
    """Every batch of the topic."""
    found: list[RecordBatch] = []
    offset = max(earliest(client, topic), 0)
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 22,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = client.ask(request, 11, FetchResponse).responses[0].partitions[0]
        assert isinstance(answer.records, memoryview)
        more = list(batches(answer.records))
        if not more:
            return found
        found += more
        offset = more[-1].next_offset


def earliest(client: RawClient, topic: str) -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=-2)])
    request = ListOffsetsRequest(replica_id=-1, topics=[asked])
    return client.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0].offset


def facts_of(batch: RecordBatch, *, with_times: bool = True) -> list[object]:
    """What a batch says, whatever its codec made of the bytes."""
    return [
        batch.base_offset,
        batch.last_offset_delta,
        batch.attributes,
        batch.max_timestamp if with_times else None,
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        [
            (each.offset, each.timestamp if with_times else None, each.key, each.value)
            for each in batch.records()
        ],
    ]


def test_every_codec_becomes_every_other(both: SideBySide) -> None:
    for target in TARGETS:
        make(both, f"to-{target}", compression_type=target)
    for number, (target, codec) in enumerate(product(TARGETS, CompressionType)):
        batch = build_batch(
            records(*range(NOW_MS, NOW_MS + 30)),
            compression=codec,
            producer_id=9_000 + number,
            producer_epoch=0,
            base_sequence=0,
        )
        assert put(both, f"to-{target}", batch) == [0, 0]
    for target in TARGETS:
        kafka, ours = (
            [facts_of(batch) for batch in stored(client, f"to-{target}")]
            for client in (both.kafka, both.ours)
        )
        assert ours == kafka
        assert len(ours) == len(CompressionType)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_whose_clock_stamps_records(both: SideBySide, kind: str, codec: CompressionType) -> None:
    topic = f"{kind}-{codec.name}"
    make(both, topic, message_timestamp_type=kind)
    batch = build_batch(records(NOW_MS - 5_000, NOW_MS - 9_000), compression=codec)
    assert put(both, topic, batch) == [0, 0]
    each = [stored(client, topic) for client in (both.kafka, both.ours)]
    stamps = kind == "LogAppendTime"
    kafka, ours = ([facts_of(batch, with_times=not stamps) for batch in found] for found in each)
    assert ours == kafka
    for found in each:
        (only,) = found
        assert bool(only.attributes & LOG_APPEND_TIME_BIT) is stamps
        times = {record.timestamp for record in only.records()}
        assert times == ({only.max_timestamp} if stamps else {NOW_MS - 5_000, NOW_MS - 9_000})
        assert (only.max_timestamp >= NOW_MS) is stamps


@pytest.mark.parametrize("version", [3, 8, 9])
def test_times_that_lie_too_far_away(both: SideBySide, version: int) -> None:
    topic = f"bounded-{version}"
    bounds = {
        "message_timestamp_before_max_ms": str(HOUR_MS),
        "message_timestamp_after_max_ms": str(2 * HOUR_MS),
    }
    make(both, topic, **bounds)
    make(both, f"{topic}-append", message_timestamp_type="LogAppendTime", **bounds)
    make(both, f"{topic}-default")
    stories = {
        (NOW_MS, NOW_MS + HOUR_MS): 0,
        (NOW_MS, NOW_MS - 2 * HOUR_MS, NOW_MS + 4 * HOUR_MS): 32,
        (NOW_MS + 4 * HOUR_MS,): 32,
        (-1,): 0,
        (0,): 32,
    }
    for times, code in stories.items():
        for codec in (CompressionType.NONE, CompressionType.ZSTD):
            if codec is CompressionType.ZSTD and version < 7:
                continue
            batch = build_batch(records(*times), compression=codec)
            assert put(both, topic, bytearray(batch), version) == [code, code]
            assert put(both, f"{topic}-append", bytearray(batch), version) == [0, 0]
            put(both, f"{topic}-default", bytearray(batch), version)


def test_old_records_go_and_those_of_the_future_stay(both: SideBySide) -> None:
    make(both, "old", retention_ms="600000", segment_ms="60000")
    make(both, "future", retention_ms="600000", message_timestamp_after_max_ms=str(9 * HOUR_MS))
    make(both, "large", retention_bytes="1500000", segment_bytes="1048576")
    for hours in (5, 4, 3):
        time_ms = NOW_MS - hours * HOUR_MS
        assert put(both, "old", build_batch(records(time_ms, time_ms))) == [0, 0]
    assert put(both, "future", build_batch(records(NOW_MS + 8 * HOUR_MS))) == [0, 0]
    for _ in range(6):
        assert put(both, "large", build_batch(records(NOW_MS, size=600_000))) == [0, 0]
    for client in (both.kafka, both.ours):
        wait_until(partial(starts_at, client, "old", range(6, 7)), 60, "old records stay")
        # A segment holds one batch; two of them are less than the limit, and three are more.
        wait_until(partial(starts_at, client, "large", range(3, 4)), 60, "it stays as it is")
    assert [earliest(client, "future") for client in (both.kafka, both.ours)] == [0, 0]


def starts_at(client: RawClient, topic: str, offsets: range) -> bool:
    return earliest(client, topic) in offsets


def offsets(client: RawClient, topic: str) -> list[int]:
    return [record.offset for batch in stored(client, topic) for record in batch.records()]


def wait_for_offsets(both: SideBySide, topic: str, left: list[int]) -> None:
    def is_left(client: RawClient) -> bool:
        return offsets(client, topic) == left

    for name, client in (("Kafka", both.kafka), ("ours", both.ours)):

        def says(name: str = name, client: RawClient = client) -> str:
            return f"{topic} of {name} is left with {offsets(client, topic)}, not with {left}"

        wait_until(partial(is_left, client), 60, says)


def test_what_is_compacted_waits_for_its_lag_and_no_longer(both: SideBySide) -> None:
    # `NOW_MS` is when the run began, which may be long ago.
    now_ms = SystemEnvironment().wall_clock_ms()
    compacted = {"cleanup_policy": "compact", "segment_ms": "60000"}
    make(both, "soon", **compacted)
    make(both, "late", min_compaction_lag_ms=str(HOUR_MS), **compacted)
    make(both, "rarely", min_cleanable_dirty_ratio="1.0", **compacted)
    make(both, "forced", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="1000", **compacted)
    make(both, "tombs", delete_retention_ms="0", **{**compacted, "segment_ms": "1000"})
    for minutes in (50, 40, 30, 20, 10):
        time_ms = now_ms - minutes * 60_000
        for topic in ("soon", "late", "rarely", "forced"):
            assert put(both, topic, build_batch(records(time_ms, time_ms))) == [0, 0]
        tomb = Record(0, time_ms, b"gone" if minutes > 20 else b"end", None, ())
        assert put(both, "tombs", build_batch([tomb])) == [0, 0]
    wait_for_offsets(both, "soon", [7, 8, 9])
    wait_for_offsets(both, "forced", [7, 8, 9])
    wait_for_offsets(both, "late", list(range(10)))
    # A cleaning sets a tombstone's time, and one of those that follow takes it away.
    times_ms = iter(range(now_ms, now_ms + HOUR_MS, 1_001))

    def are_gone() -> bool:
        put(both, "tombs", build_batch([Record(0, next(times_ms), b"other", b"v", ())]))
        return not any({0, 1, 2, 3, 4} & {*offsets(each, "tombs")} for each in clients)

    clients = (both.kafka, both.ours)
    wait_until(are_gone, 60, lambda: str([offsets(each, "tombs") for each in clients]))
    kafka, ours = (offsets(client, "rarely") for client in (both.kafka, both.ours))
    assert ours == kafka

"""What a leader demands of a batch (P1 to P3), and what it writes into it."""

import random
from collections.abc import Callable
from dataclasses import replace
from struct import pack_into

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import Record, RecordBatch, TimestampType, stamp_crc
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType, compress
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.record.layout import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD
from tierlog.storage.config import LogConfig
from tierlog.storage.log.append_result import RecordValidationError
from tierlog.storage.log.log_validator import (
    Appendable,
    AppendContext,
    assign_offsets,
    client_batch_steps,
    may_take_long,
    plain_work,
    validate,
    work_of,
)
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.storage.log_home import NOW_MS, idempotent, marker, plain, records

CONFIG = LogConfig()
CONTEXT = AppendContext(CONFIG, AppendOrigin.CLIENT, 3, NOW_MS)


def context(origin: AppendOrigin = AppendOrigin.CLIENT, **changes: object) -> AppendContext:
    config = replace(CONFIG, **changes)  # type: ignore[arg-type] # the fields are named by the tests
    return AppendContext(config, origin, 3, NOW_MS)


def accept(view: memoryview, given: AppendContext = CONTEXT, offset: int = 100) -> Appendable:
    return assign_offsets(view, validate(view, given), offset, given)


def refusal(view: memoryview, given: AppendContext = CONTEXT) -> ErrorCode:
    before = bytes(view)
    with pytest.raises(KafkaError) as caught:
        accept(view, given)
    assert bytes(view) == before, "A refused batch was changed."
    return caught.value.code


def raw(
    payload: bytes,
    count: int = 1,
    *,
    codec: CompressionType = CompressionType.NONE,
    latest: int = 0,
) -> memoryview:
    """A batch of these bytes with a header that agrees with itself, and a right CRC."""
    size = BATCH_OVERHEAD - LOG_OVERHEAD + len(payload)
    times = (NOW_MS, NOW_MS + latest)
    header = HEADER.pack(0, size, -1, 2, 0, codec, count - 1, *times, -1, -1, -1, count)
    view = memoryview(bytearray(header + payload))
    stamp_crc(view, 0, len(view))
    return view


SMALLEST = b"\x0c\0\0\0\0\0\0"
"""A record with an empty key and an empty value, the first of its batch."""


def changed(change: Callable[[memoryview], None], view: memoryview | None = None) -> memoryview:
    """A batch with some header bytes changed and its CRC made right again."""
    view = plain(3) if view is None else view
    change(view)
    stamp_crc(view, 0, len(view))
    return view


def test_offset_and_epoch_are_written_in_place_and_nothing_else_is_touched() -> None:
    view = plain(3)
    before = bytes(view)
    accepted = accept(view)
    assert accepted.buffer.obj is view.obj
    assert bytes(view[12:16]) == (3).to_bytes(4, "big")
    assert bytes(view[:8]) == (100).to_bytes(8, "big")
    assert bytes(view[16:]) == before[16:]
    (batch,) = accepted.batches
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (100, 102, 3)
    assert RecordBatch(view).crc_is_valid()


def test_a_client_sends_exactly_one_batch() -> None:
    assert refusal(memoryview(b"")) is ErrorCode.INVALID_RECORD
    assert refusal(plain()[:30]) is ErrorCode.INVALID_RECORD
    assert refusal(memoryview(bytearray(plain()) + bytearray(plain()))) is (
        ErrorCode.INVALID_RECORD
    )


def test_what_follows_the_batch_is_cut() -> None:
    view = memoryview(bytearray(plain()) + b"trailing")
    assert len(accept(view).buffer) == len(view) - len(b"trailing")


def test_the_leader_itself_may_append_several_batches() -> None:
    view = memoryview(bytearray(plain(2)) + bytearray(plain(3)))
    accepted = accept(view, context(AppendOrigin.COORDINATOR))
    assert [batch.base_offset for batch in accepted.batches] == [100, 102]
    assert len(accepted.buffer) == len(view)


def test_a_damaged_batch_is_corrupt() -> None:
    view = plain()
    view[-1] ^= 1
    assert refusal(view) is ErrorCode.CORRUPT_MESSAGE


def test_old_formats_are_refused() -> None:
    def set_magic(view: memoryview) -> None:
        view[16] = 1

    assert refusal(changed(set_magic)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [
        (0, ">q", 5),  # base offset
        (23, ">i", 7),  # last offset delta and count disagree
        (23, ">i", -1),
        (57, ">i", 2),  # count and last offset delta disagree
        (57, ">i", -1),
        (43, ">q", 9),  # a producer id without sequence numbers
        (21, ">h", 7),  # a codec that names nothing
    ],
)
def test_headers_that_contradict_themselves_are_refused(
    position: int, layout: str, value: int
) -> None:
    view = changed(lambda view: pack_into(layout, view, position, value))
    assert refusal(view) is ErrorCode.INVALID_RECORD


def test_clients_write_no_control_records() -> None:
    assert refusal(marker(ControlRecordType.COMMIT)) is ErrorCode.INVALID_RECORD
    nobodys = changed(
        lambda view: pack_into(">qhi", view, 43, -1, -1, -1), marker(ControlRecordType.COMMIT)
    )
    assert refusal(nobodys) is ErrorCode.INVALID_RECORD
    coordinator = context(AppendOrigin.COORDINATOR)
    assert accept(marker(ControlRecordType.COMMIT), coordinator).batches[0].is_control


def test_a_batch_is_no_larger_than_the_topic_allows() -> None:
    view = plain(3)
    size = len(view)
    accept(plain(3), context(max_message_bytes=size))
    assert refusal(view, context(max_message_bytes=size - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def keyless(count: int) -> memoryview:
    made = [Record(0, NOW_MS, None if i % 2 else b"k", b"v") for i in range(count)]
    return memoryview(build_batch(made))


def test_a_compacted_topic_demands_keys_and_names_the_records_without() -> None:
    accept(plain(3), context(cleanup_policy=("compact",)))
    with pytest.raises(RecordValidationError) as caught:
        accept(keyless(4), context(cleanup_policy=("compact",)))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]


def test_timestamps_lie_within_the_topic_s_limits() -> None:
    limits = context(message_timestamp_after_max_ms=10, message_timestamp_before_max_ms=10)
    for timestamp in (NOW_MS - 10, NOW_MS + 10, -1):
        accept(plain(timestamp=timestamp), limits)
    for timestamp in (NOW_MS - 11, NOW_MS + 11):
        with pytest.raises(RecordValidationError) as caught:
            accept(plain(timestamp=timestamp), limits)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in caught.value.record_errors] == [0]


def test_the_future_is_one_hour_long_by_default_and_the_past_endless() -> None:
    accept(plain(timestamp=0))
    accept(plain(timestamp=NOW_MS + 3_600_000))
    assert refusal(plain(timestamp=NOW_MS + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP


def test_with_log_append_time_the_leader_s_clock_counts() -> None:
    given = context(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms=0)
    accepted = accept(plain(2, timestamp=NOW_MS + 999_999_999), given)
    assert accepted.log_append_time_ms == NOW_MS
    batch = RecordBatch(accepted.buffer)
    assert (batch.max_timestamp, batch.timestamp_type) == (NOW_MS, TimestampType.LOG_APPEND_TIME)
    assert batch.crc_is_valid()
    assert [record.timestamp for record in batch.records()] == [NOW_MS, NOW_MS]


def test_a_producer_cannot_claim_the_leader_s_clock() -> None:
    claimed = build_batch(records(2), timestamp_type=TimestampType.LOG_APPEND_TIME)
    accepted = accept(memoryview(claimed))
    batch = RecordBatch(accepted.buffer)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.crc_is_valid()
    assert accepted.log_append_time_ms == -1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_codec_compresses_anew(codec: str) -> None:
    sent = RecordBatch(idempotent(5, 20))
    before = list(sent.records())
    accepted = accept(sent.view, context(compression_type=codec))
    batch = RecordBatch(accepted.buffer)
    wanted = CompressionType.NONE if codec == "uncompressed" else CompressionType.from_name(codec)
    assert batch.compression_type is wanted
    assert (batch.base_offset, batch.last_offset, batch.base_sequence) == (100, 119, 5)
    assert batch.crc_is_valid()
    assert [record[1:] for record in batch.records()] == [record[1:] for record in before]


def test_a_batch_that_has_the_topic_s_codec_already_stays_as_it_is() -> None:
    view = memoryview(build_batch(records(20), compression=CompressionType.GZIP))
    accepted = accept(view, context(compression_type="gzip"))
    assert accepted.buffer.obj is view.obj


def test_the_size_is_checked_again_after_compressing_anew() -> None:
    view = memoryview(build_batch(records(50), compression=CompressionType.GZIP))
    limit = context(compression_type="uncompressed", max_message_bytes=len(view))
    assert refusal(view, limit) is ErrorCode.MESSAGE_TOO_LARGE


def test_bytes_that_are_no_records_are_refused() -> None:
    for codec in CompressionType:
        # A bare block of snappy has no magic: its length is all that can be wrong outside.
        is_snappy = codec is CompressionType.SNAPPY
        noise = b"\xff" * 50 if is_snappy else random.Random(4).randbytes(50)
        assert refusal(raw(noise, codec=codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CompressionType)
def test_no_batch_claims_more_records_than_its_bytes_can_hold(codec: CompressionType) -> None:
    payload = bytes(compress(codec, SMALLEST))
    for count in (2**31 - 1, 1_000_000):
        assert refusal(raw(payload, count, codec=codec)) is ErrorCode.INVALID_RECORD


def test_offset_deltas_that_repeat_are_refused() -> None:
    assert refusal(raw(SMALLEST * 3, 3)) is ErrorCode.INVALID_RECORD


def test_what_is_opened_anyway_is_looked_at() -> None:
    for codec in CompressionType:
        view = raw(bytes(compress(codec, SMALLEST * 3)), 3, codec=codec)
        for given in (
            context(cleanup_policy=("compact",)),
            context(compression_type="uncompressed"),
        ):
            if given.config.is_compacted or codec is not CompressionType.NONE:
                assert refusal(view, given) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("latest", [-1, 5, 3_599_999, -5_000_000_000])
@pytest.mark.parametrize("codec", CompressionType)
def test_the_largest_time_in_the_log_is_that_of_a_record(
    codec: CompressionType, latest: int
) -> None:
    """Time indexes, retention and look-ups by time go by the header."""
    config = context(cleanup_policy=("compact",))
    view = raw(bytes(compress(codec, SMALLEST)), codec=codec, latest=latest)
    batch = RecordBatch(accept(view, config).buffer)
    assert batch.max_timestamp == NOW_MS
    assert batch.crc_is_valid()


def test_a_time_beyond_what_a_header_can_tell_is_refused() -> None:
    payload = b"\x1e\0" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0\0\0\0"
    assert refusal(raw(payload)) is ErrorCode.INVALID_RECORD


def test_what_a_batch_may_decompress_to_has_a_bound_only_where_it_is_opened() -> None:
    view = memoryview(
        build_batch([Record(0, NOW_MS, b"k", bytes(2 << 20))], compression=CompressionType.GZIP)
    )
    accept(memoryview(bytearray(view)), context(decompressed_batch_max_bytes=1 << 20))
    given = context(cleanup_policy=("compact",), decompressed_batch_max_bytes=1 << 20)
    assert refusal(view, given) is ErrorCode.INVALID_RECORD


def test_a_bound_on_the_past_names_both_bounds() -> None:
    limits = context(message_timestamp_after_max_ms=10, message_timestamp_before_max_ms=20)
    with pytest.raises(RecordValidationError) as caught:
        accept(plain(timestamp=NOW_MS - 21), limits)
    (error,) = caught.value.record_errors
    assert error.message.endswith(f"should be within [{NOW_MS - 20}, {NOW_MS + 10}]")


def many(count: int) -> list[Record]:
    return [Record(0, NOW_MS, b"k%d" % each, b"v" * (each % 5)) for each in range(count)]


@pytest.mark.parametrize("codec", CompressionType)
def test_a_long_check_pauses_and_finds_the_same(codec: CompressionType) -> None:
    given = context(cleanup_policy=("compact",))
    view = memoryview(build_batch(many(40_000), compression=codec))
    assert may_take_long(view)
    steps = client_batch_steps(view, given)
    assert steps is not None
    assert len([None for _ in steps]) >= 4
    broken = many(40_000)
    broken[39_000] = broken[39_000]._replace(key=None)
    steps = client_batch_steps(memoryview(build_batch(broken, compression=codec)), given)
    assert steps is not None
    with pytest.raises(RecordValidationError) as caught:
        list(steps)
    assert [error.batch_index for error in caught.value.record_errors] == [39_000]


def test_a_batch_without_any_key_names_a_thousand_of_its_records() -> None:
    keyless = memoryview(build_batch([Record(0, NOW_MS, None, b"v")] * 5_000))
    with pytest.raises(RecordValidationError) as caught:
        accept(keyless, context(cleanup_policy=("compact",)))
    assert len(caught.value.record_errors) == 1_000


def test_few_records_without_a_codec_take_no_long_check() -> None:
    assert not may_take_long(plain(3))
    small = memoryview(build_batch(many(3), compression=CompressionType.GZIP))
    assert may_take_long(small)
    assert client_batch_steps(small, CONTEXT) is None


def test_a_producer_does_not_claim_the_leader_s_clock_where_it_counts() -> None:
    given = context(message_timestamp_type="LogAppendTime")
    claimed = build_batch(records(2), timestamp_type=TimestampType.LOG_APPEND_TIME)
    with pytest.raises(RecordValidationError) as caught:
        accept(memoryview(claimed), given)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


def test_one_look_tells_a_plain_batch_from_others() -> None:
    for batch in (plain(1), plain(40), idempotent(3)):
        assert plain_work(batch) == work_of(batch) > 0
        assert not may_take_long(batch)


@pytest.mark.parametrize(
    "other",
    [
        memoryview(build_batch(many(3), compression=CompressionType.GZIP)),
        memoryview(build_batch(many(8_193))),
        marker(ControlRecordType.COMMIT),
        idempotent(3, txn=True),
        plain(3)[:-1],
        plain(3)[: BATCH_OVERHEAD - 1],
        memoryview(bytes(plain(3)) + b"x"),
        memoryview(bytes(plain(3)) * 2),
        memoryview(bytes(plain(3)[:16]) + b"\1" + bytes(plain(3)[17:])),
        memoryview(bytes(plain(3)[:57]) + bytes(4) + bytes(plain(3)[61:])),
        memoryview(b""),
    ],
)
def test_what_is_not_plain_is_looked_at_closer(other: memoryview) -> None:
    assert plain_work(other) == 0

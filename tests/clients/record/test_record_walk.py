"""A walk over lengths finds what decoding finds, for any bytes, and pauses on its way."""

import pytest
from hypothesis import example, given, settings

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import Record, RecordBatch
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.clients.record.record_walk import SLICE, RecordWalk
from tierlog.clients.record.varint import encode_varint

from .record_payloads import TIME, batch_of, built, payloads


def walk_of(batch: RecordBatch) -> RecordWalk:
    return RecordWalk(batch, batch.view[BATCH_OVERHEAD:])


def is_sound(batch: RecordBatch) -> bool:
    """What decoding says, and the offsets that it finds."""
    try:
        found = [record.offset for record in batch.records()]
    except KafkaError as error:
        return error.code is not ErrorCode.INVALID_RECORD
    return found == list(range(batch.record_count))


def check(batch: RecordBatch) -> None:
    """The walk finds what decoding finds."""
    try:
        walk = walk_of(batch)
        walk.finish()
    except KafkaError:
        assert not is_sound(batch)
        return
    assert is_sound(batch)
    records = list(batch.records())
    keyless = [index for index, record in enumerate(records) if record.key is None]
    assert walk.first_keyless == (keyless[0] if keyless else -1)
    latest = max((record.timestamp for record in records), default=None)
    assert walk.agrees_on_time == (latest == batch.max_timestamp)
    assert walk.has_later == (latest is not None and latest > batch.max_timestamp)


"""Of values: varints of one byte, of two, and of both in turns."""


@given(payloads())
@settings(deadline=None, max_examples=300)
@example((b"", 0, TIME))
@example((b"", 1, TIME))
@example((b"\x0c\0\0\0\0\0\0", 2, TIME))
@example((b"\x80" * 30, 3, TIME))
def test_the_walk_finds_what_decoding_finds(made: tuple[bytes, int, int]) -> None:
    check(batch_of(*made))


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 66, 8191, 8192, 8193, 16_500])
def test_offset_deltas_of_every_size_are_looked_at(count: int) -> None:
    batch = RecordBatch(memoryview(build_batch([Record(0, TIME, b"k", b"v")] * count)))
    check(batch)
    payload = bytearray(batch.view[BATCH_OVERHEAD:])
    # The delta of the last record stands before a key of one byte and a value of one byte.
    payload[-6] ^= 2
    check(batch_of(bytes(payload), count))


@pytest.mark.parametrize("place", [0, 1, 30, 62])
def test_one_delta_that_repeats_among_many_is_found(place: int) -> None:
    payload = bytearray(
        RecordBatch(memoryview(build_batch([Record(0, TIME, b"k", b"v")] * 64))).view[61:]
    )
    size = len(payload) // 64
    payload[(place + 1) * size + 3] = payload[place * size + 3]
    with pytest.raises(KafkaError, match="offset delta"):
        walk_of(batch_of(bytes(payload), 64)).finish()


@pytest.mark.parametrize("count", [2**31 - 1, 1_000, 3, -1])
def test_more_records_than_bytes_can_hold_are_refused_before_any_is_looked_at(count: int) -> None:
    with pytest.raises(KafkaError) as caught:
        walk_of(batch_of(b"\x0c\0\0\0\0\0\0" * 2, count))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_length_beyond_all_bounds_is_refused() -> None:
    for size in (2**31 - 1, -(2**31), -1):
        check(batch_of(encode_varint(size) + bytes(20), 1))


def test_a_long_walk_pauses() -> None:
    """Neither are these records of one length, nor do their headers have the same ones."""
    made = [
        Record(0, TIME, b"k", None, (("h", b"v" * (number % 3)),)) for number in range(3 * SLICE)
    ]
    walk = walk_of(built(made))
    assert len(list(walk.steps())) == 2


@pytest.mark.parametrize("headers", [(), (("trace", b"0123"), ("", None))])
@pytest.mark.parametrize("place", [1, 65, 499])
def test_one_lie_among_records_of_many_lengths_is_found(
    headers: tuple[tuple[str, bytes | None], ...], place: int
) -> None:
    """Each byte of one record in turn is another one; the others stay sound."""
    made = [
        Record(0, TIME, b"k" * (number % 5), b"v" * (number % 97), headers) for number in range(500)
    ]
    sound, shorter = built(made), built(made[:place])
    check(sound)
    begin = len(shorter.view)
    for at in range(begin, len(built(made[: place + 1]).view)):
        for bits in (1, 0x80):
            payload = bytearray(sound.view)
            payload[at] ^= bits
            check(RecordBatch(memoryview(payload)))


def record(index: int, time: int, key: bytes, value: bytes) -> bytes:
    """One record as it lies in a batch."""
    fields = (encode_varint(len(key)), key, encode_varint(len(value)), value)
    body = b"\0" + encode_varint(time) + encode_varint(index) + b"".join(fields) + b"\0"
    return encode_varint(len(body)) + body


@pytest.mark.timeout(30)
def test_times_of_changing_sizes_among_records_of_one_length_do_not_lead_the_walk_back() -> None:
    """What stands in a key looks like the lengths of the record before, whose time is longer."""
    alike = [record(index, 1, b"x\0\x14x", b"v" * 8) for index in range(300)]
    alike[:64] = [record(index, 1, b"", b"") for index in range(64)]
    for index in range(120, 150):
        alike[index] = record(index, 1, b"x\0\x14x", b"v" * (7 if index % 2 else 9))
    alike[150] = record(150, 10_000, b"", b"v" * 10)
    alike[152] = record(152, 100, b"\0\x14xx", b"v" * 7)
    check(batch_of(b"".join(alike), len(alike), TIME + 10_000))

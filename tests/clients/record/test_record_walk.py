"""A walk over lengths finds what decoding finds, for any bytes, and pauses on its way."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD, Record, RecordBatch
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.record_walk import SLICE, RecordWalk
from tierlog.clients.record.varint import encode_varint

TIME = 1_700_000_000_000


def walk_of(batch: RecordBatch) -> RecordWalk:
    return RecordWalk(batch, batch.view[BATCH_OVERHEAD:])


def batch_of(payload: bytes, count: int, max_timestamp: int = TIME) -> RecordBatch:
    """A batch with these bytes as records; nobody looks at its CRC here."""
    size = BATCH_OVERHEAD + len(payload) - LOG_OVERHEAD
    header = HEADER.pack(
        0, size, -1, 2, 0, 0, max(count - 1, 0), TIME, max_timestamp, -1, -1, -1, count
    )
    return RecordBatch(memoryview(header + payload))


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


def blob(size: int) -> st.SearchStrategy[bytes | None]:
    return st.none() | st.sampled_from((b"", b"v", b"v" * size))


HEADERS = st.lists(st.tuples(st.sampled_from(("", "trace")), blob(9)), max_size=2).map(tuple)


SIZES = st.sampled_from(((0, 40), (30, 90), (-20, 20), (300, 3_000)))
"""Of values: varints of one byte, of two, and of both in turns."""


def similar_records(draw: st.DrawFn) -> Iterator[Record]:
    """Records with the same headers, and keys and values of many lengths; some have none."""
    chance, headers = draw(st.randoms(use_true_random=False)), draw(HEADERS)
    keys, values = draw(st.sampled_from(((0, 9), (5, 70), (-9, 9)))), draw(SIZES)
    for number in range(draw(st.sampled_from((3, 30, 70, 200)))):
        key, value = chance.randint(*keys), chance.randint(*values)
        yield Record(
            0,
            TIME + number // 8,
            b"k" * key if key >= 0 else None,
            bytes(value) if value >= 0 else None,
            headers,
        )


def records_of(draw: st.DrawFn) -> Iterator[Record]:
    """Stretches of records that are alike, one after the other, and some that are not."""
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            yield from similar_records(draw)
            continue
        key, value, headers = draw(blob(3)), draw(blob(70)), draw(HEADERS)
        step = draw(st.sampled_from((0, 0, 1, 7, 300, -90_000)))
        start = TIME + draw(st.sampled_from((0, 5, 63, 64, 10_000)))
        for number in range(draw(st.sampled_from((1, 2, 3, 30, 70, 200)))):
            yield Record(0, start + step * number, key, value, headers)


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """The records of a batch, their number and the largest time; mostly with a lie somewhere."""
    built = RecordBatch(memoryview(build_batch(records_of(draw))))
    payload = bytearray(built.view[BATCH_OVERHEAD:])
    shift = built.base_timestamp - TIME
    latest = built.max_timestamp - shift + draw(st.sampled_from((0, 0, 0, -1, 1)))
    count = built.record_count + draw(st.sampled_from((0, 0, 0, 0, -1, 1)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(payload) - 1))
        payload[place] = draw(
            st.sampled_from((0, 1, 2, 3, 127, 128, 129, 255)) | st.integers(0, 255)
        )
    if draw(st.integers(0, 4)) == 0:
        del payload[draw(st.integers(0, len(payload) - 1)) :]
    return bytes(payload), count, latest


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


def built(made: list[Record]) -> RecordBatch:
    return RecordBatch(memoryview(build_batch(made)))


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

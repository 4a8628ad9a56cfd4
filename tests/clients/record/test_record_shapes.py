"""A batch of a known shape is found what a walk finds it to be, whatever its bytes."""

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import KafkaError
from tierlog.clients.record.batch import Record, RecordBatch
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.clients.record.record_shapes import KnownShapes
from tierlog.clients.record.record_walk import RecordWalk

from .record_payloads import TIME, batch_of, payloads

OFTEN = 20
"""More often than a shape must be met to be learned."""


def walked(batch: RecordBatch) -> int | None:
    """What a walk says: the first record without a key, None where something is wrong."""
    try:
        walk = RecordWalk(batch, batch.view[BATCH_OVERHEAD:])
        walk.finish()
    except KafkaError:
        return None
    return walk.first_keyless if walk.agrees_on_time else None


def knowing(batch: RecordBatch) -> KnownShapes:
    """What is known after many batches like this one, if it is sound."""
    shapes = KnownShapes()
    try:
        walk = RecordWalk(batch, batch.view[BATCH_OVERHEAD:])
        walk.finish()
    except KafkaError:
        return shapes
    for _ in range(OFTEN):
        shapes.remember(batch, walk.first_keyless)
    return shapes


def records(
    count: int, key: bytes | None = None, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> list[Record]:
    return [Record(0, TIME + each // 9, key, b"v" * 200, headers) for each in range(count)]


def payload_of(made: list[Record]) -> bytes:
    return bytes(RecordBatch(memoryview(build_batch(made))).view[BATCH_OVERHEAD:])


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 66, 200, 256])
@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 100])
@pytest.mark.parametrize("headers", [(), (("trace", b"id"), ("more", None))])
def test_records_of_one_size_are_known_the_next_time(
    count: int, key: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    made = records(count, key, headers)
    latest = made[-1].timestamp
    shapes = knowing(batch_of(payload_of(made), count, latest))
    others = [each._replace(value=b"w" * 200, key=key and b"o" * len(key)) for each in made]
    first_keyless = -1 if key is not None else 0
    assert shapes.first_keyless(batch_of(payload_of(others), count, latest)) == first_keyless
    for wrong in (latest - 1, latest + 1):
        # A header that tells a wrong time is the walk's affair.
        assert shapes.first_keyless(batch_of(payload_of(made), count, wrong)) is None


@pytest.mark.parametrize("count", [1, 3, 64, 70])
def test_no_byte_that_a_walk_looks_at_may_be_another(count: int) -> None:
    made = records(count, b"key", (("trace", b"id"),))
    payload, latest = payload_of(made), made[-1].timestamp
    shapes = knowing(batch_of(payload, count, latest))
    for place in range(len(payload)):
        for bit in (1, 2, 0x80):
            changed = bytearray(payload)
            changed[place] ^= bit
            batch = batch_of(bytes(changed), count, latest)
            found = shapes.first_keyless(batch)
            assert found is None or found == walked(batch), (place, bit)


@given(payloads(), st.data())
@settings(deadline=None, max_examples=300)
def test_what_is_known_is_what_a_walk_finds(
    made: tuple[bytes, int, int], data: st.DataObject
) -> None:
    payload, count, latest = made
    shapes = knowing(batch_of(payload, count, latest))
    assert shapes.first_keyless(batch_of(payload, count, latest)) in (None, walked(batch_of(*made)))
    for _ in range(5 if payload else 0):
        changed = bytearray(payload)
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(payload) - 1))
            byte = data.draw(st.sampled_from((0, 1, 2, 3, 128, 129)) | st.integers(0, 255))
            changed[place] = byte
        batch = batch_of(bytes(changed), count, latest)
        assert shapes.first_keyless(batch) in (None, walked(batch))


def test_an_offset_delta_that_is_longer_than_it_must_be_is_no_ones_shape() -> None:
    plain = [b"\x10\x00\x00%c\x00\x04vv\x00" % (2 * index) for index in range(3)]
    # A delta of two bytes, and a key that is as much shorter: the record is as long as the others.
    odd = b"\x10\x00\x00\x82\x00\x00\x02v\x00"
    payload = plain[0] + odd + plain[2]
    batch = batch_of(payload, 3)
    assert walked(batch) == -1
    assert knowing(batch).first_keyless(batch) is None
    assert knowing(batch_of(b"".join(plain), 3)).first_keyless(batch) is None


def test_what_is_kept_of_shapes_has_a_bound() -> None:
    shapes = KnownShapes()
    alone = [
        RecordBatch(memoryview(build_batch([Record(0, TIME, None, bytes(size))])))
        for size in range(2_000)
    ]
    for batch in alone:
        for _ in range(OFTEN):
            shapes.remember(batch, 0)
        assert shapes.first_keyless(batch) == 0
    assert len(shapes) <= 256
    assert shapes.first_keyless(alone[0]) is None

"""Which batches of a piece of a segment leave for a client, and that none of them is damaged."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tiering.reading.remote_batches import BatchQuery, Outcome, are_intact, choose

SIZES = [1, 100, 3, 50, 7]
EPOCHS = [0, 0, 2, 2, 5]
HISTORY = ((0, 0), (2, 4), (5, 8))
"""Each batch holds two records, so the epochs begin with the third and the fifth."""


def batch(number: int, epoch: int) -> bytes:
    first = 2 * number
    records = [Record(offset, 0, None, bytes(SIZES[number])) for offset in (first, first + 1)]
    return bytes(build_batch(records, base_offset=first, leader_epoch=epoch))


BATCHES = [batch(number, epoch) for number, epoch in enumerate(EPOCHS)]
SEGMENT = b"".join(BATCHES)


def ends(count: int) -> int:
    return sum(map(len, BATCHES[:count]))


@given(offset=st.integers(0, 9), max_bytes=st.integers(1, len(SEGMENT) + 10))
def test_what_is_chosen_is_the_first_batch_and_what_fits_after_it(
    offset: int, max_bytes: int
) -> None:
    first = offset // 2
    wanted = BatchQuery(offset, max_bytes, True, HISTORY)
    found = choose(memoryview(SEGMENT), wanted, is_segment_end=True)
    start = ends(first)
    last = max(
        count
        for count in range(first + 1, 6)
        if count == first + 1 or ends(count) - start <= max_bytes
    )
    assert found == (Outcome.FOUND, start, ends(last) - start, 2 * last)


@pytest.mark.parametrize(
    ("history", "batches"),
    [
        (HISTORY, 5),
        # The log left the segment's history with the third batch, or with the fifth.
        (((0, 0), (3, 4)), 2),
        (((0, 0), (2, 4), (6, 8)), 4),
        (((0, 0), (2, 4)), 4),
        (((0, 0), (2, 2)), 1),
    ],
)
def test_a_read_ends_where_the_segment_leaves_the_history(
    history: tuple[tuple[int, int], ...], batches: int
) -> None:
    wanted = BatchQuery(0, len(SEGMENT), True, history)
    found = choose(memoryview(SEGMENT), wanted, is_segment_end=True)
    assert found == (Outcome.FOUND, 0, ends(batches), 2 * batches)


def test_whole_batches_within_their_bounds_are_intact() -> None:
    assert are_intact(memoryview(SEGMENT), 0, 9)
    assert are_intact(memoryview(b""), 0, 9)
    assert not are_intact(memoryview(SEGMENT), 1, 9), "it begins below the first offset"
    assert not are_intact(memoryview(SEGMENT), 0, 8), "it goes on beyond the last one"
    assert not are_intact(memoryview(SEGMENT[:-1]), 0, 9), "the last batch is cut"
    assert not are_intact(memoryview(SEGMENT + bytes(10)), 0, 9), "something follows"
    assert not are_intact(memoryview(BATCHES[1] + BATCHES[0]), 0, 9), "offsets descend"
    assert not are_intact(memoryview(BATCHES[0] * 2), 0, 9), "an offset comes twice"


@given(place=st.integers(0, len(SEGMENT) - 1), bit=st.integers(0, 7))
def test_no_bit_that_a_crc_covers_may_be_another(place: int, bit: int) -> None:
    damaged = bytearray(SEGMENT)
    damaged[place] ^= 1 << bit
    start = max(ends(count) for count in range(5) if ends(count) <= place)
    # Before that come offset and length, which the bounds cover, and the leader epoch, which
    # `choose` has looked at.
    if place - start >= 16:
        assert not are_intact(memoryview(damaged), 0, 9)

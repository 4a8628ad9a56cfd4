"""Frames: the same whatever pieces they arrive in, never copied when whole, never trusted."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ProtocolError
from tierlog.clients.protocol.connection import (
    FIRST_BUFFER_BYTES,
    SMALL_BUFFER_BYTES,
    FrameBuffers,
    FrameReader,
    frame,
)

LIMIT = 1000


def wire(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


def pieces(data: bytes, cuts: list[int]) -> list[memoryview]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [memoryview(data)[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.binary(max_size=LIMIT), max_size=6), st.lists(st.integers(0, 10_000)))
def test_any_chunking_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(LIMIT)
    data = wire(*bodies)
    # A frame is good until its buffer is used again, so each is copied at once, as tests may.
    frames = [bytes(found) for piece in pieces(data, cuts) for found in reader.feed(piece)]
    assert frames == bodies
    assert reader.is_between_frames


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.integers(0, 10_000), max_size=9))
def test_asking_for_the_only_frame_first_gives_the_same_frames(
    bodies: list[bytes], cuts: list[int]
) -> None:
    reader = FrameReader(LIMIT)
    frames: list[bytes] = []
    for piece in pieces(wire(*bodies), cuts):
        only = reader.only_frame(piece)
        frames += [bytes(found) for found in (reader.feed(piece) if only is None else [only])]
    assert frames == bodies
    assert reader.is_between_frames


def test_only_a_frame_that_fills_the_bytes_and_the_limit_is_the_only_one() -> None:
    reader = FrameReader(5)
    whole = memoryview(bytearray(wire(b"frame")))
    only = reader.only_frame(whole)
    assert only is not None
    assert (bytes(only), only.obj) == (b"frame", whole.obj)
    for other in (b"", b"\0\0\0", whole[:-1], wire(b"frame", b""), wire(b"frames")):
        assert reader.only_frame(memoryview(other)) is None
    assert reader.is_between_frames


def test_one_byte_at_a_time() -> None:
    reader = FrameReader(LIMIT)
    data = wire(b"", b"a", b"bc")
    frames = [bytes(f) for i in range(len(data)) for f in reader.feed(memoryview(data)[i : i + 1])]
    assert frames == [b"", b"a", b"bc"]


def test_a_whole_frame_is_a_slice_of_the_buffer_it_came_in() -> None:
    buffer = bytearray(wire(b"first", b"second"))
    frames = list(FrameReader(LIMIT).feed(memoryview(buffer)))
    assert [bytes(found) for found in frames] == [b"first", b"second"]
    assert all(found.obj is buffer for found in frames)


def test_a_frame_in_pieces_owns_its_buffer() -> None:
    reader = FrameReader(LIMIT)
    shared = bytearray(wire(b"frame"))
    assert not list(reader.feed(memoryview(shared)[:6]))
    (found,) = reader.feed(memoryview(shared)[6:])
    shared[:] = bytes(len(shared))
    assert bytes(found) == b"frame"


def test_reading_can_stop_between_two_frames() -> None:
    """One request is under way at a time: the rest of the buffer waits its turn."""
    reader = FrameReader(LIMIT)
    view = memoryview(wire(b"first", b"second") + b"\0\0")
    first, position = reader.next_frame(view)
    assert first is not None
    assert (bytes(first), position) == (b"first", 9)
    second, position = reader.next_frame(view, position)
    assert second is not None
    assert (bytes(second), position) == (b"second", 19)
    assert reader.next_frame(view, position) == (None, 21)
    assert not reader.is_between_frames


@pytest.mark.parametrize("size", [-1, -(1 << 31), LIMIT + 1, (1 << 31) - 1])
@pytest.mark.parametrize("whole", [True, False], ids=["size whole", "size in pieces"])
def test_a_size_that_cannot_be_is_a_protocol_error_at_once(size: int, whole: bool) -> None:
    reader = FrameReader(LIMIT)
    data = memoryview(size.to_bytes(4, signed=True))
    if not whole:
        assert not list(reader.feed(data[:3]))
        data = data[3:]
    with pytest.raises(ProtocolError, match="limit is 1000"):
        list(reader.feed(data))


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x16\x03\x01\x02\x00", "limit is 1000. It begins like TLS: set security.protocol"),
        (
            b"GET / HTTP/1.1\r\n",
            "limit is 1000. It begins like HTTP, which this port does not support",
        ),
    ],
)
def test_a_client_of_another_protocol_gets_its_name(sent: bytes, words: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        list(FrameReader(LIMIT).feed(memoryview(sent)))
    assert words in refused.value.message


def test_memory_follows_what_arrives_not_what_is_announced() -> None:
    announced = 100 * 1024 * 1024
    reader = FrameReader(announced)
    piece = memoryview(announced.to_bytes(4) + bytes(10))
    tracemalloc.start()
    assert not list(reader.feed(piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * FIRST_BUFFER_BYTES


@given(st.integers(1, 3_000_000), st.lists(st.integers(5_000, 700_000), min_size=1))
@settings(deadline=None)
def test_the_rest_of_a_big_frame_can_be_received_directly(size: int, steps: list[int]) -> None:
    body = (b"0123456789" * (size // 10 + 1))[:size]
    data = memoryview(wire(body))
    reader = FrameReader(size)
    found, position = reader.next_frame(data[:10], 0)
    turn = 0
    while found is None:
        step = steps[turn % len(steps)]
        turn += 1
        space = reader.space()
        if space is None:
            found, taken = reader.next_frame(data[position : position + step])
            position += taken
            continue
        count = min(step, len(space), len(data) - position)
        space[:count] = data[position : position + count]
        position += count
        found = reader.received(count)
    assert bytes(found) == body
    assert reader.is_between_frames


def in_two_pieces(reader: FrameReader, body: bytes) -> memoryview:
    """The frame of a body that did not arrive whole."""
    data = memoryview(wire(body))
    assert not list(reader.feed(data[:6]))
    (found,) = reader.feed(data[6:])
    return found


def test_a_frame_that_was_dealt_with_leaves_its_buffer_to_the_next() -> None:
    buffers = FrameBuffers()
    one, other = FrameReader(LIMIT, buffers), FrameReader(LIMIT, buffers)
    first = in_two_pieces(one, b"a frame of some length")
    second = in_two_pieces(other, b"not dealt with: another buffer")
    assert second.obj is not first.obj
    one.release()
    third = in_two_pieces(other, b"short")
    assert third.obj is first.obj
    assert bytes(third) == b"short"
    assert bytes(second) == b"not dealt with: another buffer"


def test_few_buffers_wait_for_a_frame_and_none_of_the_largest() -> None:
    buffers = FrameBuffers()
    huge = bytearray(5 << 20)
    buffers.give_back(huge)
    assert buffers.take(1, 5 << 20) is None
    for _ in range(9):
        buffers.give_back(bytearray(3 << 20))
    taken = [buffers.take(3 << 20, 3 << 20) for _ in range(9)]
    assert sum(each is not None for each in taken) == 5
    small, large = bytearray(SMALL_BUFFER_BYTES), bytearray(2 * SMALL_BUFFER_BYTES)
    buffers.give_back(large)
    buffers.give_back(small)
    assert buffers.take(SMALL_BUFFER_BYTES + 1, LIMIT) is None
    assert buffers.take(SMALL_BUFFER_BYTES + 1, 3 * SMALL_BUFFER_BYTES) is large
    assert buffers.take(10, SMALL_BUFFER_BYTES) is small


def test_large_frames_in_a_row_are_all_received_into_one_buffer() -> None:
    size = 512 << 10
    buffers = FrameBuffers()
    reader = FrameReader(size, buffers)
    wired = memoryview(size.to_bytes(4) + bytes(size))
    assert len(list(reader.feed(wired[:40_000]))) + len(list(reader.feed(wired[40_000:]))) == 1
    # Where a read ends has nothing to do with where frames begin.
    for first in (*range(4, 100), *range(40_000, 65_536, 1_000)):
        assert not list(reader.feed(wired[:first]))
        assert first == 4 or reader.held_bytes == size, "it would be copied into a larger one"
        assert len(list(reader.feed(wired[first:]))) == 1


def test_buffers_that_were_outgrown_keep_no_room_from_the_large_ones() -> None:
    buffers = FrameBuffers()
    for _ in range(200):
        buffers.give_back(bytearray(100_000))
    large = bytearray(1 << 20)
    buffers.give_back(large)
    assert buffers.take(1 << 20, 1 << 20) is large


def test_who_only_announces_a_frame_keeps_no_large_buffer_from_the_others() -> None:
    announced = 3 << 20
    buffers = FrameBuffers()
    buffers.give_back(bytearray(announced))
    silent = [FrameReader(announced, buffers) for _ in range(100)]
    for each in silent:
        assert not list(each.feed(memoryview(announced.to_bytes(4) + bytes(10))))
    assert sum(each.held_bytes for each in silent) <= 100 * FIRST_BUFFER_BYTES
    eager = FrameReader(announced, buffers)
    half = memoryview(bytes(announced // 2))
    list(eager.feed(memoryview(announced.to_bytes(4))))
    list(eager.feed(half))
    assert eager.held_bytes == announced
    (found,) = eager.feed(half)
    assert len(found) == announced


@given(
    st.lists(st.binary(max_size=LIMIT), max_size=6),
    st.lists(st.binary(max_size=LIMIT), max_size=6),
    st.lists(st.integers(0, 10_000)),
)
def test_connections_that_share_buffers_do_not_mix_their_frames(
    some: list[bytes], others: list[bytes], cuts: list[int]
) -> None:
    buffers = FrameBuffers()
    readers = [FrameReader(LIMIT, buffers) for _ in range(2)]
    ways = [pieces(wire(*bodies), cuts) for bodies in (some, others)]
    found: list[list[bytes]] = [[], []]
    for turn in range(max(map(len, ways))):
        for number, way in enumerate(ways):
            for each in readers[number].feed(way[turn]) if turn < len(way) else ():
                found[number].append(bytes(each))
                readers[number].release()
    assert found == [some, others]


def test_a_message_gets_its_size_and_small_pieces_become_one() -> None:
    records = memoryview(b"r" * 50)
    assert frame([b"header", b"body", records, b"end"]) == [
        b"\0\0\0\x3fheaderbody",
        records,
        b"end",
    ]
    big = b"b" * 100_000
    assert frame([b"header", big])[1] is big
    assert frame([]) == [bytes(4)]

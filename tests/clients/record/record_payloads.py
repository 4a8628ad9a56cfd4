"""Shared by tests: batches of records with known payloads."""

from collections.abc import Iterator

from hypothesis import strategies as st

from tierlog.clients.record.batch import Record, RecordBatch
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.layout import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD

TIME = 1_700_000_000_000


def batch_of(payload: bytes, count: int, max_timestamp: int = TIME) -> RecordBatch:
    """A batch with these bytes as records; nobody looks at its CRC here."""
    size = BATCH_OVERHEAD + len(payload) - LOG_OVERHEAD
    header = HEADER.pack(
        0, size, -1, 2, 0, 0, max(count - 1, 0), TIME, max_timestamp, -1, -1, -1, count
    )
    return RecordBatch(memoryview(header + payload))


def blob(size: int) -> st.SearchStrategy[bytes | None]:
    return st.none() | st.sampled_from((b"", b"v", b"v" * size))


HEADERS = st.lists(st.tuples(st.sampled_from(("", "trace")), blob(9)), max_size=2).map(tuple)


SIZES = st.sampled_from(((0, 40), (30, 90), (-20, 20), (300, 3_000)))


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


def built(made: list[Record]) -> RecordBatch:
    return RecordBatch(memoryview(build_batch(made)))

"""A segment's batches are the same, and so are its errors, however it is cut into pieces."""

from hypothesis import example, given, strategies as st

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.pipeline.reading.scan_options import ScanError
from tierlog.pipeline.reading.segment_stream import SegmentStream
from tierlog.tiering.remote_storage import Failure, RemoteStorageError
from tierlog.tiering.store.tier_store import TierObject


def log_of(sizes: list[int]) -> bytes:
    """A batch of one record for each size of a value."""
    return b"".join(
        bytes(build_batch([Record(0, 0, None, bytes(size))], base_offset=offset, leader_epoch=0))
        for offset, size in enumerate(sizes)
    )


def read(log: bytes, cuts: list[int]) -> tuple[list[bytes], str]:
    """The batches, read in pieces of these sizes over and over, and what was wrong at the end."""
    stream = SegmentStream("orders/7.log", 0, len(log))
    found: list[bytes] = []
    at = number = 0
    try:
        while at < len(log):
            end = at + cuts[number % len(cuts)]
            found += [bytes(batch.view) for batch in stream.batches(log[at:end])]
            at, number = end, number + 1
        stream.finish()
    except ScanError as error:
        return [], str(error)
    return found, ""


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=12),
    st.lists(st.integers(1, 300), min_size=1, max_size=20),
    st.none() | st.tuples(st.integers(0, 3000), st.integers(1, 255)),
    st.integers(0, 100),
)
@example([0], [11], None, 0)
@example([50], [16, 1], (11, 0xFF), 0)
@example([50], [400], None, 1)
@example([46, 138], [1], (125, 0xF4), 0)
def test_batches_are_the_same_in_pieces(
    sizes: list[int], cuts: list[int], damage: tuple[int, int] | None, lost: int
) -> None:
    log = bytearray(log_of(sizes))
    if damage is not None:
        position, mask = damage
        log[position % len(log)] ^= mask
    del log[len(log) - lost :]
    whole = read(bytes(log), [max(len(log), 1)])
    assert read(bytes(log), cuts) == whole
    if damage is None and not lost:
        assert b"".join(whole[0]) == log


class Failing:
    """A tier that answers every second request only."""

    def __init__(self, log: bytes) -> None:
        self._log = log
        self._asked = 0

    async def list(self, prefix: str = "") -> list[TierObject]:
        return [TierObject("orders/7.log", len(self._log), None)]

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self._asked += 1
        if self._asked % 2:
            raise RemoteStorageError("The tier is unreachable", Failure.UNREACHABLE)
        return self._log[start:end]


async def test_a_piece_that_could_not_be_read_comes_with_the_next_try() -> None:
    log = log_of([30, 40, 50])
    tier, stream = Failing(log), SegmentStream("orders/7.log", 0, len(log), 100)
    found = b""
    while True:
        try:
            piece = await stream.read(tier)
        except RemoteStorageError:
            continue
        if piece is None:
            break
        found += b"".join(bytes(batch.view) for batch in stream.batches(piece))
    stream.finish()
    assert found == log

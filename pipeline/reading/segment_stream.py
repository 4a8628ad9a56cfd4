"""Reads the batches of a segment in the tier, a few megabytes at a time.

However large the segment is, memory holds at most one piece, the next one being fetched, and the
batch that spans the two.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch, batches
from ...clients.record.layout import BATCH_OVERHEAD, LOG_OVERHEAD
from ...tiering.tools.tier_survey import TierReader
from .scan_options import ScanError

PIECE_BYTES = 8 * 1024 * 1024
"""The size of one request to an object store."""


class SegmentStream:
    """The log object of a segment, between two batch boundaries."""

    def __init__(self, key: str, start: int, end: int, piece_bytes: int = PIECE_BYTES) -> None:
        self.key = key
        self._position = start
        self._end = end
        self._piece_bytes = piece_bytes
        self._rest = b""

    async def read(self, tier: TierReader) -> bytes | None:
        """The next piece; None after the last.

        Raises RemoteStorageError; another call then tries the same piece.
        """
        if self._position >= self._end:
            return None
        end = min(self._position + self._piece_bytes, self._end)
        piece = await tier.read(self.key, self._position, end)
        self._position = end
        return piece

    def batches(self, piece: bytes) -> list[RecordBatch]:
        """The batches that end in this piece, with unchecked contents.

        Raises ScanError for bytes that cannot be a batch.
        """
        try:
            spanning, begin = self._spanning(piece) if self._rest else ([], 0)
            inner = list(batches(memoryview(piece)[begin:]))
        except KafkaError as error:
            raise ScanError(f"{self.key} cannot be read: {error.message}") from None
        if spanning or not self._rest:
            self._rest = piece[begin + sum(batch.size_in_bytes for batch in inner) :]
        else:
            self._rest += piece
        return spanning + inner

    def _spanning(self, piece: bytes) -> tuple[list[RecordBatch], int]:
        """The batch that began in the previous piece, and where it ends in this one.

        Copies only this batch. Raises KafkaError for bytes that cannot be a batch.
        """
        overhead = self._rest[:LOG_OVERHEAD]
        overhead += piece[: LOG_OVERHEAD - len(overhead)]
        size = LOG_OVERHEAD + int.from_bytes(overhead[-4:], signed=True)
        missing = size - len(self._rest)
        # `batches` needs the whole header to reject an impossible size.
        spanning = next(batches(self._rest + piece[: max(missing, BATCH_OVERHEAD)]), None)
        return ([spanning], missing) if spanning is not None else ([], len(piece))

    def abandon(self) -> None:
        """Stop reading, because the rest of the segment is gone from the tier."""
        self._position, self._rest = self._end, b""

    def finish(self) -> None:
        """Raise ScanError if a partial batch is left after the last piece."""
        if self._rest:
            raise ScanError(f"{self.key} ends within a batch, at position {self._end}")


async def stored_batches(
    tier: TierReader, key: str, start: int, end: int, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[RecordBatch]:
    """All batches of a log object, with CRCs checked. Raises ScanError, RemoteStorageError."""
    stream = SegmentStream(key, start, end, piece_bytes)
    while (piece := await stream.read(tier)) is not None:
        for batch in stream.batches(piece):
            check(batch, key)
            yield batch
    stream.finish()


def check(batch: RecordBatch, key: str) -> None:
    """Raise ScanError if the CRC of a batch does not match."""
    if not batch.crc_is_valid():
        raise ScanError(f"{key}: the CRC of the batch at offset {batch.base_offset} is wrong")


@contextmanager
def naming_the_batch(batch: RecordBatch, key: str) -> Generator[None]:
    """Raise a KafkaError about the records of a batch as a ScanError that names the batch."""
    try:
        yield
    except KafkaError as error:
        raise ScanError(
            f"{key}: the batch at offset {batch.base_offset} cannot be read: {error.message}"
        ) from None

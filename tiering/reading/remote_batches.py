"""Chooses the batches of a piece of a remote segment that answer a read. Pure functions.

A read begins at the position that the index gives for its offset, at or before the wanted batch.
Batches that end below the offset are skipped; from the first one that does not, whole batches are
taken while they fit. The first is taken whole even if it is larger than allowed, if the reader must
make progress (`min_one_message`).

A remote segment may go beyond the point where this log's history diverged from it (an unclean
election cut the branch off there; KIP-405, fetch scenario 3). So each batch must have the epoch
that the history gives its offset, and the first that does not ends the read.
"""

from enum import Enum
from typing import NamedTuple

from ...clients.record.checksum import crc32c
from ...clients.record.layout import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    OFFSET_LENGTH_EPOCH_AND_DELTA,
    OFFSET_LENGTH_MAGIC_CRC_AND_DELTA,
)
from ...storage.remote.remote_lineage import EpochHistory, epoch_of_offset
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from .remote_index_rebuild import SuspectIndexError

_LEAST_LENGTH = BATCH_OVERHEAD - LOG_OVERHEAD
_CRC_COVERS_FROM = 21
_MAGIC = 2
_BEYOND = 2**63


class CorruptSegmentError(Exception):
    """The bytes of a segment are not valid batches."""


class Outcome(Enum):
    """The result of looking in a piece of a segment for a read's batches."""

    FOUND = "batches to return"
    TOO_LARGE = "the first batch is larger than the reader allows"
    READ_MORE = "the piece ends before the answer: read again from `position`"
    DEAD_BRANCH = "what follows in the segment is not of this log's history"
    END = "the segment ends before the offset"


class Choice(NamedTuple):
    """The part of the piece from `position` on; `size` is what to return, or what to read."""

    outcome: Outcome
    position: int
    size: int = 0
    next_offset: int = -1
    """For FOUND: one past the last offset in the batches."""


class BatchQuery(NamedTuple):
    """The parts of a read that matter for choosing batches."""

    offset: int
    max_bytes: int
    min_one_message: bool
    history: EpochHistory


class _Header(NamedTuple):
    size: int
    epoch: int
    base_offset: int
    last_offset: int


def choose(piece: memoryview, query: BatchQuery, *, is_segment_end: bool) -> Choice:
    """Choose the batches for a read from a piece that begins with a batch.

    `is_segment_end` says that the piece ends the segment. Raises CorruptSegmentError.
    """
    position, expected = 0, 0
    while (header := _header(piece, position)) is not None:
        if header.base_offset < expected:
            raise CorruptSegmentError(f"Offset {header.base_offset} occurs twice")
        expected = header.last_offset + 1
        if header.last_offset >= query.offset:
            return _take(piece, position, header, query)
        position += header.size
    if is_segment_end:
        return Choice(Outcome.END, position)
    return Choice(Outcome.READ_MORE, position, BATCH_OVERHEAD)


def _take(piece: memoryview, start: int, first: _Header, query: BatchQuery) -> Choice:
    if not _is_ours(first, query.history):
        return Choice(Outcome.DEAD_BRANCH, start)
    if first.size > query.max_bytes and not query.min_one_message:
        return Choice(Outcome.TOO_LARGE, start)
    if start + first.size > len(piece):
        return Choice(Outcome.READ_MORE, start, first.size)
    end, next_offset = _take_more(piece, start, first, query)
    return Choice(Outcome.FOUND, start, end - start, next_offset)


def _take_more(piece: memoryview, start: int, first: _Header, query: BatchQuery) -> tuple[int, int]:
    """The end of the batches that fit and match the history, and the offset after them.

    The loop runs once per batch served, so it looks in the history only at the end of an epoch.
    """
    limit = min(start + max(query.max_bytes, first.size), len(piece))
    end, next_offset = start + first.size, first.last_offset + 1
    epoch, epoch_end = first.epoch, _epoch_end(query.history, first.epoch)
    last_header = len(piece) - BATCH_OVERHEAD
    unpack = OFFSET_LENGTH_EPOCH_AND_DELTA.unpack_from
    while end <= last_header:
        base_offset, length, batch_epoch, last_offset_delta = unpack(piece, end)
        if length < _LEAST_LENGTH or last_offset_delta < 0 or base_offset < 0:
            raise _impossible(length, base_offset)
        batch_end = end + LOG_OVERHEAD + length
        last_offset = base_offset + last_offset_delta
        if batch_end > limit:
            break
        if last_offset >= epoch_end:
            epoch = epoch_of_offset(query.history, last_offset)
            epoch_end = _epoch_end(query.history, epoch)
        if batch_epoch != epoch:
            break
        end, next_offset = batch_end, last_offset + 1
    return end, next_offset


def _epoch_end(history: EpochHistory, epoch: int) -> int:
    """The start offset of the epoch after this one; beyond every offset if there is none."""
    return next((start for later, start in history if later > epoch), _BEYOND)


def _is_ours(header: _Header, history: EpochHistory) -> bool:
    return header.epoch == epoch_of_offset(history, header.last_offset)


def are_intact(records: memoryview, first_offset: int, last_offset: int) -> bool:
    """Whether these are whole batches with valid CRCs and ascending offsets between the two given.

    No CRC covers the offsets, so their order is checked. The loop runs once per batch served, like
    that of `_take_more`.
    """
    position, expected, size = 0, first_offset, len(records)
    unpack = OFFSET_LENGTH_MAGIC_CRC_AND_DELTA.unpack_from
    while position < size:
        if size - position < BATCH_OVERHEAD:
            return False
        base_offset, length, magic, crc, last_offset_delta = unpack(records, position)
        end = position + LOG_OVERHEAD + length
        if magic != _MAGIC or length < _LEAST_LENGTH or end > size:
            return False
        if base_offset < expected or last_offset_delta < 0:
            return False
        if crc32c(records[position + _CRC_COVERS_FROM : end]) != crc:
            return False
        position, expected = end, base_offset + last_offset_delta + 1
    return expected - 1 <= last_offset


def _header(piece: memoryview, position: int) -> _Header | None:
    if position + BATCH_OVERHEAD > len(piece):
        return None
    base_offset, length, epoch, last_offset_delta = OFFSET_LENGTH_EPOCH_AND_DELTA.unpack_from(
        piece, position
    )
    if length < _LEAST_LENGTH or last_offset_delta < 0 or base_offset < 0:
        raise _impossible(length, base_offset)
    return _Header(LOG_OVERHEAD + length, epoch, base_offset, base_offset + last_offset_delta)


def _impossible(length: int, base_offset: int) -> CorruptSegmentError:
    return CorruptSegmentError(f"Invalid record batch of {length} bytes at offset {base_offset}")


def check_begins(
    piece: memoryview, position: int, offset: int, segment: RemoteLogSegmentMetadata
) -> None:
    """Raise SuspectIndexError unless a read of `offset` may begin at this position of a segment.

    An offset index entry points to a batch that begins at or below the entry's offset. If the batch
    begins above `offset`, the records before the batch would be skipped silently; if no batch of
    the segment begins at the position, the entry is wrong as well.
    """
    if not _may_begin(piece, position, offset, segment):
        raise SuspectIndexError(
            f"The offset index of segment {segment.segment_id} has a wrong entry for offset "
            f"{offset}"
        )


def _may_begin(
    piece: memoryview, position: int, offset: int, segment: RemoteLogSegmentMetadata
) -> bool:
    if len(piece) < BATCH_OVERHEAD:
        return False
    base_offset, length, magic, crc, last_offset_delta = (
        OFFSET_LENGTH_MAGIC_CRC_AND_DELTA.unpack_from(piece, 0)
    )
    size = LOG_OVERHEAD + int(length)
    if (
        magic != _MAGIC
        or length < _LEAST_LENGTH
        or position + size > segment.segment_size_bytes
        or not segment.start_offset <= base_offset <= offset
        or not 0 <= last_offset_delta <= segment.end_offset - base_offset
    ):
        return False
    # Record bytes may look like a header, so the CRC is checked unless the batch exceeds the piece.
    is_cut = size > len(piece)
    return is_cut or crc32c(piece[_CRC_COVERS_FROM:size]) == int(crc)


def check_belongs(piece: memoryview, position: int, segment: RemoteLogSegmentMetadata) -> None:
    """Raise CorruptSegmentError if a batch does not match the metadata of its segment.

    No CRC covers a batch's offset and epoch. A batch whose epoch is not in the history is skipped
    with its records, so a damaged epoch must not pass for one of another branch.
    """
    header = _header(piece, position)
    if header is None or not (
        segment.start_offset <= header.base_offset
        and header.last_offset <= segment.end_offset
        and header.epoch == epoch_of_offset(segment.segment_leader_epochs, header.last_offset)
    ):
        raise CorruptSegmentError("A record batch of another segment")

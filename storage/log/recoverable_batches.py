"""The batches of a segment that recovery can keep: complete and in offset order.

A batch's CRC does not cover its base offset, so one flipped bit there could cost every later batch.
A batch with an impossible base offset is therefore corrected if the batches around it prove the
right offset. Otherwise the log ends before that batch.

A batch with damaged records does not end the log either if it was durable before: a crash cannot
have caused the damage. The batch is kept, like a damaged batch in an older segment, which recovery
does not read; its readers reject it.
"""

import logging
from collections.abc import Iterator

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch
from ..segment.log_segment import LogSegment

_log = logging.getLogger(__name__)

_RELATIVE_OFFSET_MAX = 2**31 - 1
"""A segment is closed before an offset exceeds its base offset by more than this."""


class RecoverableBatches:
    """The recoverable batches of a segment; `following` is the next segment's base offset."""

    def __init__(
        self,
        segment: LogSegment,
        following: int | None,
        recovery_point: int,
        durable_end: int,
        *,
        is_compacted: bool,
    ) -> None:
        self._segment = segment
        self._following = following
        self._recovery_point = recovery_point
        self._durable_end = durable_end
        self._is_compacted = is_compacted
        self.size = 0
        """How many bytes of the file to keep, so far."""
        self.damaged_from: int | None = None
        """The base offset of the first damaged batch that is kept."""
        self.damage = "no complete record batch begins there"
        """Why the batches end before the end of the file, if that is so."""

    def __iter__(self) -> Iterator[tuple[int, RecordBatch]]:
        """The valid batches with their positions, up to the first batch that cannot be kept.

        A damaged batch that is kept is not yielded. A corrected base offset is durable before the
        batch is yielded.
        """
        segment = self._segment
        expected = segment.base_offset
        for position, current, after in _with_next(_readable(segment)):
            batch = current
            size = position + batch.size_in_bytes
            if not batch.crc_is_valid():
                if not self._stays_damaged(batch, expected, after, size):
                    self.damage = "the CRC of the record batch there is wrong"
                    return
                _log.error(
                    "The record batch at position %d of %s, offsets %d to %d, is damaged: its "
                    "CRC is wrong. It had been flushed to disk, so it and the records after it "
                    "are kept.",
                    position,
                    segment.path,
                    batch.base_offset,
                    batch.last_offset,
                )
                if self.damaged_from is None:
                    self.damaged_from = batch.base_offset
                self.size, expected = size, batch.next_offset
                continue
            if self._is_misplaced(batch, expected, after):
                if not self._is_proven(batch, expected, after):
                    self.damage = (
                        f"the batch there has base offset {batch.base_offset}, which does not fit"
                    )
                    return
                _log.error(
                    "The record batch at position %d of %s has the wrong base offset %d. The "
                    "batches after it prove that it is %d: corrected it, no records are lost.",
                    position,
                    segment.path,
                    batch.base_offset,
                    expected,
                )
                batch = segment.put_base_offset_right(batch, position, expected)
            self.size, expected = size, batch.next_offset
            yield position, batch

    def _stays_damaged(
        self, batch: RecordBatch, expected: int, after: RecordBatch | None, size: int
    ) -> bool:
        """Whether a damaged batch is kept: it was durable, and its header fits what follows it."""
        end = batch.next_offset
        if end > self._durable_end or self._is_misplaced(batch, expected, after):
            return False
        following = self._following if after is None else after.base_offset
        if after is None and size != self._segment.size:
            return False
        return following is None or following == end or (self._is_compacted and following > end)

    def _is_misplaced(self, batch: RecordBatch, expected: int, after: RecordBatch | None) -> bool:
        """Whether the batch's offsets are impossible.

        A gap before the batch is possible, because the topic may have been compacted in the past.
        But even then the next batch has higher offsets, and the end of the log is not compacted.
        """
        if batch.base_offset < expected or batch.last_offset_delta < 0:
            return True
        if self._following is not None and batch.next_offset > self._following:
            return True
        if batch.base_offset == expected:
            return False
        if batch.last_offset - self._segment.base_offset > _RELATIVE_OFFSET_MAX:
            return True
        if after is not None:
            # If `after` could not even follow this batch at `expected`, `after` may be misplaced.
            cannot_follow = after.base_offset <= expected + batch.last_offset_delta
            return after.base_offset < batch.next_offset and not (
                self._is_compacted and cannot_follow
            )
        return self._following is None and not self._is_compacted

    def _is_proven(self, batch: RecordBatch, expected: int, after: RecordBatch | None) -> bool:
        """Whether a misplaced batch can only begin at `expected`.

        The next batch or segment must begin where this batch ends; if there is none, this batch
        must end at the recovery point.
        """
        if batch.last_offset_delta < 0:
            return False
        end = expected + batch.last_offset_delta + 1
        if after is not None:
            return after.base_offset == end and after.crc_is_valid()
        return end == (self._recovery_point if self._following is None else self._following)


def _readable(segment: LogSegment) -> Iterator[tuple[int, RecordBatch]]:
    """The segment's batches, up to bytes that cannot be a batch."""
    try:
        yield from segment.positioned_batches()
    except KafkaError:
        # The log ends before these bytes.
        return


def _with_next(
    batches: Iterator[tuple[int, RecordBatch]],
) -> Iterator[tuple[int, RecordBatch, RecordBatch | None]]:
    """Each batch with its position and the next batch; None after the last."""
    held: tuple[int, RecordBatch] | None = None
    for batch in batches:
        if held is not None:
            yield *held, batch[1]
        held = batch
    if held is not None:
        yield *held, None

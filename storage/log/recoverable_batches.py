"""The batches of a segment that a recovery can keep: whole, and each behind the one before it.

A batch's checksum does not cover its base offset. One flipped bit there would cost all that follows
it, so a batch that tells other offsets than it can have is put right where its neighbours prove
which ones are its own. Where they do not the log ends before it.

Nor do damaged records of a batch cost what follows it, if all of them were on the disk once: no
crash explains that, and the batch stays for its readers to refuse, as it does in older segments.
"""

import logging
from collections.abc import Iterator

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch
from ..segment.log_segment import LogSegment

_log = logging.getLogger(__name__)

_RELATIVE_OFFSET_MAX = 2**31 - 1
"""A segment is closed before its offsets go further beyond its base offset than that."""


class RecoverableBatches:
    """See the top of this file; `following` is where the next segment begins, if there is one."""

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
        """How many bytes of the file are to be kept, as far as it was looked at."""
        self.damage = "what stands there is not a whole record batch"
        """Why the batches end where they do, if that is before the end of the file."""

    def __iter__(self) -> Iterator[tuple[int, RecordBatch]]:
        """The batches, each with its position, up to the first that is torn, damaged or misplaced.

        A base offset that is put right is written, durably, before the batch is answered.
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
                    "The record batch at position %d of %s, offsets %d to %d, is damaged: its CRC "
                    "is wrong. It was on the disk once, and is kept for what follows it.",
                    position,
                    segment.path,
                    batch.base_offset,
                    batch.last_offset,
                )
                self.size, expected = size, batch.next_offset
                continue
            if self._is_misplaced(batch, expected, after):
                if not self._is_proven(batch, expected, after):
                    self.damage = (
                        f"a batch of other offsets, from {batch.base_offset} on, stands there"
                    )
                    return
                _log.error(
                    "The record batch at position %d of %s says that it begins at offset %d. What "
                    "follows it proves that it begins at %d: that is put right, and nothing is "
                    "lost.",
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
        """Whether a batch was on the disk once, and its header leads to what follows it."""
        end = batch.next_offset
        if end > self._durable_end or self._is_misplaced(batch, expected, after):
            return False
        following = self._following if after is None else after.base_offset
        if after is None and size != self._segment.size:
            return False
        return following is None or following == end or (self._is_compacted and following > end)

    def _is_misplaced(self, batch: RecordBatch, expected: int, after: RecordBatch | None) -> bool:
        """Whether the batch tells offsets that it cannot have.

        Compaction leaves gaps before batches, and a topic may have been compacted once. But what
        follows then follows this batch too, and nothing compacts the end of a log.
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
            # What cannot follow this batch, wherever it begins, may itself be what is wrong.
            cannot_follow = after.base_offset <= expected + batch.last_offset_delta
            return after.base_offset < batch.next_offset and not (
                self._is_compacted and cannot_follow
            )
        return self._following is None and not self._is_compacted

    def _is_proven(self, batch: RecordBatch, expected: int, after: RecordBatch | None) -> bool:
        """Whether a batch that is misplaced can only begin at `expected`.

        What follows it follows that, or else that is how far the log was on the disk.
        """
        if batch.last_offset_delta < 0:
            return False
        end = expected + batch.last_offset_delta + 1
        if after is not None:
            return after.base_offset == end and after.crc_is_valid()
        return end == (self._recovery_point if self._following is None else self._following)


def _readable(segment: LogSegment) -> Iterator[tuple[int, RecordBatch]]:
    """The segment's batches up to bytes that cannot be one."""
    try:
        yield from segment.positioned_batches()
    except KafkaError:
        # The log ends before them.
        return


def _with_next(
    batches: Iterator[tuple[int, RecordBatch]],
) -> Iterator[tuple[int, RecordBatch, RecordBatch | None]]:
    """Each batch with its position, and the one behind it; None behind the last."""
    held: tuple[int, RecordBatch] | None = None
    for each in batches:
        if held is not None:
            yield *held, each[1]
        held = each
    if held is not None:
        yield *held, None

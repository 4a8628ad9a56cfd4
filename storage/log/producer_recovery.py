"""Reloads a log's producer state: from the newest valid snapshot, then from the batches after it.

A snapshot has only the last batch of each producer, yet a producer may have five batches in flight
when the broker stops, and will retry them all. Kafka then rejects the older batches as out of
order; here the batches shortly before the snapshot are read again, to recognise the retries.
"""

import logging
from collections import deque
from collections.abc import Iterator

from ...clients.record.batch import RecordBatch
from ..producer.producer_entry import BATCHES_TO_RETAIN, BatchMetadata
from ..producer.producer_state import ProducerStateManager
from ..segment.log_segment import LogSegment
from ..segment.log_segments import LogSegments

_log = logging.getLogger(__name__)

_Range = tuple[LogSegment, int, int]
"""A segment and the start and end position to read."""

_BYTES_LOOKED_AT_AGAIN = 1 << 20
"""Bytes read again before the snapshot's offset: five typical batches, or one of the largest."""

_BYTES_NOT_WORTH_A_SNAPSHOT = 16_384
"""Replaying this many bytes takes as long as creating, writing, opening and reading a file."""


def reload_producers(
    producers: ProducerStateManager, segments: LogSegments, log_start_offset: int, end_offset: int
) -> None:
    """Rebuild the producer state from the batches in [`log_start_offset`, `end_offset`).

    Producers are not expired here: their age matters only while the broker runs.
    """
    producers.truncate_and_reload(log_start_offset, end_offset)
    _fill_windows(producers, segments, log_start_offset)
    fold_batches(producers, segments, end_offset)


def take_snapshot_at_close(producers: ProducerStateManager, segments: LogSegments) -> None:
    """Take a producer snapshot, so that the next start has few batches to replay.

    Kafka needs the snapshot too: it assumes that a log without one has no producers. If there are
    no producers and few batches, none is taken: replaying them is as fast as creating a file.
    """
    active, snapshot_offset = segments.last, producers.last_snapshot_offset
    is_empty = snapshot_offset >= active.base_offset and not producers.entries
    if (
        is_empty
        and active.size - active.position_of(snapshot_offset) <= _BYTES_NOT_WORTH_A_SNAPSHOT
    ):
        return
    producers.take_snapshot()


def fold_batches(producers: ProducerStateManager, segments: LogSegments, end_offset: int) -> None:
    """Apply the batches of `segments` in [`map_end_offset`, `end_offset`)."""
    start = producers.map_end_offset
    if start < end_offset:
        for segment in segments.from_offset(start):
            if segment.base_offset >= end_offset:
                break
            position = segment.position_of(start) if start > segment.base_offset else 0
            for batch in segment.batches(position):
                if batch.base_offset >= end_offset:
                    break
                _apply(producers, batch, start, segment.path)
    producers.advance_to(end_offset)


def _apply(producers: ProducerStateManager, batch: RecordBatch, start: int, path: str) -> None:
    if batch.last_offset < start or batch.base_offset < producers.map_end_offset:
        return
    if batch.producer_id < 0 or batch.crc_is_valid():
        producers.apply(batch)
        return
    # Recovery keeps a damaged batch if it was durable before the crash. None of its fields can be
    # trusted: a flipped bit could open a transaction that never ends.
    outcome = ""
    if batch.is_control:
        outcome = (
            f" The transaction of producer id {batch.producer_id} that this batch ended stays open "
            "until kafka-transactions.sh aborts it."
        )
    _log.error(
        "Rebuilding the producer state: skipping the damaged record batch with offsets %d to "
        "%d in %s.%s",
        batch.base_offset,
        batch.last_offset,
        path,
        outcome,
    )
    producers.advance_to(batch.next_offset)


def _fill_windows(
    producers: ProducerStateManager, segments: LogSegments, log_start_offset: int
) -> None:
    """Restore the batches before each producer's last batch, which the snapshot does not have."""
    snapshot_offset = producers.map_end_offset
    if not producers.entries or snapshot_offset <= log_start_offset:
        return
    earlier: dict[int, deque[BatchMetadata]] = {}
    for batch in _batches_shortly_before(segments, snapshot_offset):
        entry = producers.get(batch.producer_id)
        if entry is None or batch.is_control or batch.producer_epoch != entry.producer_epoch:
            continue
        is_earlier = batch.base_offset >= log_start_offset and batch.last_offset < entry.last_offset
        if is_earlier and batch.crc_is_valid():
            window = earlier.setdefault(
                batch.producer_id, deque[BatchMetadata](maxlen=BATCHES_TO_RETAIN - 1)
            )
            window.append(BatchMetadata.of(batch))
    for producer_id, window in earlier.items():
        producers.entries[producer_id].batches.extendleft(reversed(window))


def _batches_shortly_before(segments: LogSegments, offset: int) -> Iterator[RecordBatch]:
    ranges: list[_Range] = []
    budget = _BYTES_LOOKED_AT_AGAIN
    segment = segments.floor(offset - 1)
    while segment is not None and budget > 0:
        end = segment.position_of(offset)
        start = segment.batch_start_before(max(0, end - budget))
        ranges.append((segment, start, end))
        budget -= end - start
        segment = segments.floor(segment.base_offset - 1)
    for segment, start, end in reversed(ranges):
        yield from segment.batches(start, end)

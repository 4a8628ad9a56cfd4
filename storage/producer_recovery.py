"""Bringing a producer state back in step with its log: newest valid snapshot, then the batches."""

from collections.abc import Callable

from ..clients.record.batch import RecordBatch
from .log_segment import LogSegment
from .log_segments import LogSegments
from .producer_entry import CompletedTxn
from .producer_state import ProducerStateManager

CompletedTxnListener = Callable[[LogSegment, CompletedTxn], None]


def fold_batches(producers: ProducerStateManager, segments: LogSegments, end_offset: int) -> None:
    """Apply the batches in [map end, `end_offset`) that lie in `segments`."""
    start = producers.map_end_offset
    if start < end_offset:
        for segment in segments.from_offset(start):
            if segment.base_offset >= end_offset:
                break
            position = segment.position_of(start) if start > segment.base_offset else 0
            for batch in segment.batches(position):
                if batch.base_offset >= end_offset:
                    break
                _apply(producers, batch, start)
    producers.advance_to(end_offset)


def _apply(producers: ProducerStateManager, batch: RecordBatch, start: int) -> None:
    if batch.last_offset >= start and batch.base_offset >= producers.map_end_offset:
        producers.apply(batch)

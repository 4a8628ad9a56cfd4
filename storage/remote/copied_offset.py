"""Computes incrementally how far a log is copied to the tier (see `copied_up_to`).

Visiting all segments takes a few microseconds per segment, and a follower needs the offset every
half minute. So each call continues where the last one ended, unless a segment visited before may
have changed.
"""

from ...clients.kafka_uuid import Uuid
from .remote_lineage import EpochHistory, LogExtent, copied_up_to
from .remote_log import RemoteLog
from .remote_segment import RemoteLogSegmentState


class CopiedOffset:
    """Computes the copied offset of one log: see the module docstring."""

    def __init__(self, remote: RemoteLog) -> None:
        self._remote = remote
        self._history: tuple[tuple[int, int], ...] = ()
        self._reached = -1

    def of(self, history: EpochHistory, bounds: LogExtent) -> int:
        """The last offset up to which the tier has all records; -1 if it has none.

        The log start offset and local log start offset must not have decreased since the last call.
        """
        touched = self._remote.take_touched(self)
        # The first epoch's start moves with the log start, which does not affect later offsets.
        epochs = ((history[0][0], 0), *history[1:]) if history else ()
        is_as_before = (
            touched is not None and epochs == self._history and all(map(self._lies_ahead, touched))
        )
        if is_as_before:
            start = max(bounds.log_start_offset, self._reached + 1)
            bounds = bounds._replace(log_start_offset=start)
        self._history = epochs
        self._reached = copied_up_to(self._remote, history, bounds)
        return self._reached

    def _lies_ahead(self, segment_id: Uuid) -> bool:
        """Whether the segment is finished and above the offset that the last call returned."""
        segment = self._remote.segment(segment_id)
        return (
            segment is not None
            and segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and segment.start_offset > self._reached
        )

"""How far the tier has a log, asked again and again (a follower's question; see `copied_up_to`).

The walk over all segments costs a few microseconds a segment. A follower asks every half minute for
as long as it follows, so the walk goes on where it last ended, unless something that it has passed
may have changed.
"""

from ...clients.kafka_uuid import Uuid
from .remote_lineage import EpochHistory, LogExtent, copied_up_to
from .remote_log import RemoteLog
from .remote_segment import RemoteLogSegmentState


class CopiedOffset:
    """See the top of this file."""

    def __init__(self, remote: RemoteLog) -> None:
        self._remote = remote
        self._history: tuple[tuple[int, int], ...] = ()
        self._reached = -1

    def of(self, history: EpochHistory, bounds: LogExtent) -> int:
        """The last offset below which nothing is missing from the tier; -1 if nothing is there.

        For a log whose beginnings, the whole's and the local part's, have not moved back.
        """
        touched = self._remote.take_touched(self)
        # That the first epoch begins later, because the log does, changes nothing ahead of it.
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
        """Whether it is a segment that has come since, behind all that was passed."""
        segment = self._remote.segment(segment_id)
        return (
            segment is not None
            and segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and segment.start_offset > self._reached
        )

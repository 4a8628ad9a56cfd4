"""Records that were in a log's files but were lost when the log was opened.

A crash may tear the batch that was being written, but loses nothing that was acknowledged after an
fsync. A bad disk or a file changed by hand may lose more, up to everything after the damage. In
either case the broker logs one error for each log.
"""

import logging
from dataclasses import dataclass
from itertools import pairwise

from ...clients.topic_partition import TopicPartition
from ..segment.log_segments import LogSegments

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogLoss:
    """Where and why a log was truncated when it was opened, and what was lost."""

    topic_partition: TopicPartition
    directory: str
    offset: int
    """The first lost offset: the new end of the log, or of one of its segments."""
    reason: str
    cut_bytes: int = 0
    """Bytes lost from the segment in which the log was truncated."""
    later_segments: int = 0
    later_bytes: int = 0
    """The number and total size of the later segments, which were deleted whole."""

    resumes_at: int | None = None
    """The first offset after the lost ones; None if the log ends where it was truncated."""

    def __str__(self) -> str:
        lost = [f"{self.cut_bytes} bytes of that segment"] if self.cut_bytes else []
        if self.later_segments:
            kind = "segment" if self.later_segments == 1 else "segments"
            lost.append(f"{self.later_segments} later {kind} of {self.later_bytes} bytes")
        if self.resumes_at is not None:
            return (
                f"The log of {self.topic_partition} in {self.directory} is missing offsets "
                f"{self.offset} to {self.resumes_at - 1} because {self.reason}; "
                f"{' and '.join(lost)} are lost, and the records after them are kept."
            )
        return (
            f"The log of {self.topic_partition} in {self.directory} was truncated at offset "
            f"{self.offset} because {self.reason}; {' and '.join(lost)} are lost."
        )


def log_gaps(
    topic_partition: TopicPartition, segments: LogSegments, loss: LogLoss | None
) -> list[int]:
    """Log which offsets are missing between segments, for a log that was never compacted.

    Returns the first missing offset of each gap.
    """
    gaps: list[int] = []
    for segment, following in pairwise(segments):
        end = segment.next_offset()
        if end != following.base_offset:
            gaps.append(end)
        if loss is not None and end == loss.offset < following.base_offset:
            # The message about this loss reports the missing offsets, with the reason.
            loss.resumes_at = following.base_offset
        elif end != following.base_offset:
            _log.error(
                "The log of %s is missing offsets %d to %d, before %s: a segment file was "
                "removed or truncated.",
                topic_partition,
                end,
                following.base_offset - 1,
                following.path,
            )
    return gaps

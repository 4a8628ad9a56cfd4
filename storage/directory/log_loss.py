"""What opening a log has cost: records that were in its files and are not in the log.

A crash may tear the last batch that was being written; nothing that was acknowledged after an fsync
goes with it. A bad disk, or a file that somebody changed, may cost more, up to everything after the
damage. Either way the broker logs the loss in one sentence for each log.
"""

import logging
from dataclasses import dataclass
from itertools import pairwise

from ...clients.topic_partition import TopicPartition
from ..segment.log_segments import LogSegments

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogLoss:
    """Where a log was cut when it was opened, why, and what went."""

    topic_partition: TopicPartition
    directory: str
    offset: int
    """The first offset that is no longer there: the end of the log, or of a segment of it."""
    reason: str
    cut_bytes: int = 0
    """Bytes that went from the segment in which the log was cut."""
    later_segments: int = 0
    later_bytes: int = 0
    """How many later segments went whole, and how long they were."""

    resumes_at: int | None = None
    """Where the log goes on behind what was cut out of its middle; None where it ends there."""

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


def tell_gaps(topic_partition: TopicPartition, segments: LogSegments, loss: LogLoss | None) -> None:
    """Say which offsets are missing between segments, where only a loss explains it."""
    for segment, following in pairwise(segments):
        end = segment.next_offset()
        if loss is not None and end == loss.offset < following.base_offset:
            # Told with the reason, by whoever tells of the loss.
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

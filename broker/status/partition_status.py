"""One replica as a picture needs it: its offsets, and its segments in the tier and on the disk.

    log start      local start        last tiered                  end
        | remote | remote | both | both | local | local | active |

A remote segment is listed where a fetch would read it: it is looked up by leader epoch and offset,
from the local start downwards, as `remote_log.py` does for readers. Pure: it reads a log's state.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_lineage import epoch_of_offset
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from .sources import Json

_DELETING_MAX = 50
_GAPS_MAX = 50

ShareOf = Callable[[Uuid], float | None]
"""The share of a segment's bytes that were handed to the store; None if it is not being copied."""


class Lag(NamedTuple):
    """What a group has yet to read: all of it, and the parts in the tier only and on the disk."""

    total: int = 0
    in_tier: int = 0
    local: int = 0

    def __add__(self, other: object) -> "Lag":
        assert isinstance(other, Lag)
        return Lag(self.total + other.total, self.in_tier + other.in_tier, self.local + other.local)

    def as_json(self) -> Json:
        """The three numbers under the names that all answers use."""
        return {"lag": self.total, "lag_in_tier": self.in_tier, "lag_local": self.local}


def lag_of(log: UnifiedLog, offset: int) -> Lag:
    """The lag of a committed offset behind the high watermark."""
    end, local_start = log.high_watermark, log.local_log_start_offset
    begin = max(offset, log.log_start_offset)
    return Lag(
        max(0, end - offset),
        max(0, min(local_start, end) - begin),
        max(0, end - max(begin, local_start)),
    )


def offsets_status(log: UnifiedLog) -> Json:
    """The offsets that bound the log, and its sizes."""
    return {
        "log_start": log.log_start_offset,
        "local_start": log.local_log_start_offset,
        "last_tiered": log.highest_remote_offset,
        "last_stable": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "end": log.log_end_offset,
        "bytes_local": log.size_in_bytes,
        "bytes_remote": bytes_in_tier(log),
    }


NO_OFFSETS: Json = {
    "log_start": None,
    "local_start": None,
    "last_tiered": None,
    "last_stable": None,
    "high_watermark": None,
    "end": None,
    "bytes_local": None,
    "bytes_remote": None,
}
"""The offsets of a partition without a replica here."""


def bytes_in_tier(log: UnifiedLog) -> int:
    """Bytes of the finished copies in the tier."""
    return 0 if log.remote is None else log.remote.finished_bytes


def retention_status(log: UnifiedLog) -> Json:
    """The limits of the log, and the bytes that count towards them."""
    config, local = log.config, log.local.segments
    only_here = local.from_offset(log.highest_remote_offset + 1) if log.is_tiered else list(local)
    return {
        "bytes": config.retention_bytes,
        "ms": config.retention_ms,
        "local_bytes": config.effective_local_retention_bytes,
        "local_ms": config.effective_local_retention_ms,
        "bytes_used": bytes_in_tier(log) + sum(segment.size for segment in only_here),
        "local_bytes_used": log.size_in_bytes,
    }


def segments_status(log: UnifiedLog, most: int, share_of: ShareOf) -> tuple[list[Json], int]:
    """The newest segments, `most` at most, in the order of their offsets; how many are older."""
    local = _local_segments(log, share_of)
    remote = log.remote
    if remote is None:
        return local[-most:], max(0, len(local) - most)
    if len(local) >= most:
        older = (
            len(local) - most + _finished_count(remote) - sum(_is_in_tier(each) for each in local)
        )
        return local[-most:], max(0, older)
    below: list[Json] = []
    older = 0
    for segment in _remote_segments(log, remote):
        if len(below) == most - len(local):
            older = max(1, _finished_count(remote) - len(below) - sum(map(_is_in_tier, local)))
            break
        below.append(segment)
    below += _deletions(log, remote, below)
    below.sort(key=_base)
    return [*below, *local], older


def _base(segment: Json) -> int:
    base = segment["base"]
    assert isinstance(base, int)
    return base


def _is_in_tier(segment: Json) -> bool:
    return segment["where"] == "both"


def _finished_count(remote: RemoteLog) -> int:
    return len(remote) - len(remote.unfinished_segments())


def _segment(base: int, end: int, nbytes: int, where: str) -> Json:
    return {
        "base": base,
        "end": end,
        "bytes": nbytes,
        "where": where,
        "copying": None,
        "deleting": False,
    }


def _local_segments(log: UnifiedLog, share_of: ShareOf) -> list[Json]:
    copies = {} if log.remote is None else _copies(log.remote, share_of)
    closed: list[Json] = []
    segments = list(log.local.segments)
    for segment, following in pairwise(segments):
        end = following.base_offset
        is_in_tier = log.is_tiered and end - 1 <= log.highest_remote_offset
        where = "both" if is_in_tier else "local"
        shown = _segment(segment.base_offset, end, segment.size, where)
        shown["copying"] = copies.get(segment.base_offset)
        closed.append(shown)
    active = segments[-1]
    shown = _segment(active.base_offset, log.log_end_offset, active.size, "active")
    return [*closed, shown]


def _copies(remote: RemoteLog, share_of: ShareOf) -> dict[int, float]:
    """The copies under way: their first offset, and the share that was handed to the store."""
    copies: dict[int, float] = {}
    for segment in remote.unfinished_segments():
        share = share_of(segment.id)
        if share is not None and segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            copies[segment.start_offset] = round(share, 3)
    return copies


def _remote_segments(log: UnifiedLog, remote: RemoteLog) -> Iterator[Json]:
    """The segments below the local start that readers use, the newest first."""
    history = log.leader_epochs.entries
    begin, end = log.log_start_offset, min(log.local_log_start_offset, log.log_end_offset)
    gaps = 0
    shown: RemoteLogSegmentMetadata | None = None
    first = last = end
    while end > begin:
        epoch = epoch_of_offset(history, end - 1)
        segment = remote.segment_for(epoch, end - 1)
        if segment is None:
            gaps += 1
            below = _end_below(remote, end - 1) if gaps <= _GAPS_MAX else None
            if below is None:
                break
            end = below
            continue
        if shown is not None and segment.id != shown.id:
            yield _segment(first, last, shown.segment_size_bytes, "remote")
        if shown is None or segment.id != shown.id:
            shown, last = segment, end
        # Another epoch of the segment may belong to another lineage, so it is looked up too.
        end = first = max(dict(segment.segment_leader_epochs)[epoch], begin)
    if shown is not None:
        yield _segment(first, last, shown.segment_size_bytes, "remote")


def _end_below(remote: RemoteLog, offset: int) -> int | None:
    """The highest end of a readable segment that ends below `offset`."""
    ends = (
        segment.end_offset + 1
        for segment in remote.segments()
        if segment.end_offset < offset and remote.serves(segment)
    )
    return max(ends, default=None)


def _deletions(log: UnifiedLog, remote: RemoteLog, listed: list[Json]) -> list[Json]:
    """Segments that are being removed from the tier, where no listed one has their offsets."""
    removed: list[Json] = []
    for segment in remote.unfinished_segments()[:_DELETING_MAX]:
        base, end = segment.start_offset, segment.end_offset + 1
        if (
            segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
            and end <= log.local_log_start_offset
            and not any(base < _end(each) and _base(each) < end for each in [*listed, *removed])
        ):
            shown = _segment(base, end, segment.segment_size_bytes, "remote")
            shown["deleting"] = True
            removed.append(shown)
    return removed


def _end(segment: Json) -> int:
    end = segment["end"]
    assert isinstance(end, int)
    return end

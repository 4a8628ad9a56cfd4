"""Objects in a tier that nobody will ever read or delete: what a scrub looks for.

COPY_SEGMENT_STARTED is in the metadata topic before the first object of a segment is written, and
DELETE_SEGMENT_FINISHED comes after the last one is gone. So an object that was listed *before* the
metadata was read to its end, and that is not in the metadata, is an orphan: what a killed broker
or a store that failed half-way has left, or what is left of a deleted topic. The rules:

- The listing comes first, then the metadata, whole. Half of it is as good as none.
- Whatever a segment's state is, while the metadata knows the segment its objects are not orphans:
  unfinished copies and deletions are for the leader, or the next one, to clean up.
- A whole segment of a living topic that the metadata does not know, and that is no second copy of
  one that it knows, says that the metadata was lost, or that another cluster writes here: a rebuild
  would bring it back. It is reported, and left alone unless somebody who knows says otherwise.
- A partition that the metadata has never heard of may be another cluster's, in the same bucket:
  its objects are left alone unless somebody who knows says otherwise.
- An orphan goes only when it was one in an earlier look as well, and is older than the grace time:
  by the store's own clock, or, where the store does not tell, since the earlier look.
- The manifest goes first, so that half a segment never looks whole.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentState
from ..store.object_keys import LOG_SUFFIX, MANIFEST_SUFFIX
from ..store.tier_store import TierObject
from .stored_segments import Listing, StoredSegment

_UNKNOWN_WHOLE = "a whole segment that the metadata does not know"
_TEMPORARY = ".tmp"


class Orphan(NamedTuple):
    """Objects of one segment to which no metadata refers."""

    segment: StoredSegment
    objects: tuple[TierObject, ...]
    """In the order in which they are removed."""
    reason: str
    is_of_known_partition: bool
    is_whole: bool = False
    """Whether a rebuild would bring it back: it is more likely that the metadata is lost."""

    @property
    def id(self) -> Uuid:
        return self.segment.segment_id

    @property
    def nbytes(self) -> int:
        return sum(each.size for each in self.objects)

    @property
    def modified_ms(self) -> int | None:
        """When the youngest of the objects was written; None if the store does not tell."""
        times = [each.modified_ms for each in self.objects if each.modified_ms is not None]
        return max(times) if len(times) == len(self.objects) else None


def find_orphans(
    listing: Listing, remote_logs: Mapping[TopicIdPartition, RemoteLog]
) -> list[Orphan]:
    """The orphans of a listing, as the metadata has it that was read after the listing."""
    orphans: list[Orphan] = []
    for segment in listing.segments.values():
        is_whole = False
        remote = remote_logs.get(segment.topic_id_partition)
        metadata = None if remote is None else remote.segment(segment.segment_id)
        if metadata is None:
            objects = list(segment.objects.values())
            is_whole = remote is not None and is_unknown_whole(segment, remote)
            reason = _UNKNOWN_WHOLE if is_whole else _reason(segment, remote)
        elif metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            objects = [
                each for suffix, each in segment.objects.items() if suffix.endswith(_TEMPORARY)
            ]
            reason = "a piece of an upload that was begun twice"
        else:
            continue
        if objects:
            is_known = remote is not None
            orphans.append(Orphan(segment, _in_order(objects), reason, is_known, is_whole))
    return orphans


def is_unknown_whole(segment: StoredSegment, remote: RemoteLog) -> bool:
    """Whether a segment that the metadata does not know is all there, and no second copy."""
    log = segment.objects.get(LOG_SUFFIX)
    if not segment.has_manifest or log is None or remote.partition_delete_state is not None:
        return False
    return not any(
        each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        and each.start_offset == segment.start_offset
        and each.segment_size_bytes == log.size
        for each in remote.segments()
    )


def _reason(segment: StoredSegment, remote: RemoteLog | None) -> str:
    if remote is None:
        return "of a partition that the metadata has never heard of"
    if remote.partition_delete_state is not None:
        return "left of a deleted topic"
    return "a second copy of a segment" if segment.has_manifest else "left of an unfinished copy"


def _in_order(objects: Iterable[TierObject]) -> tuple[TierObject, ...]:
    return tuple(
        sorted(objects, key=lambda each: (not each.key.endswith(f".{MANIFEST_SUFFIX}"), each.key))
    )


class Looks:
    """What was an orphan when, from look to look. It remembers as much as there are orphans."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._first_seen_ms: dict[Uuid, int] = {}

    def ripe(self, orphans: Iterable[Orphan], now_ms: int) -> list[Orphan]:
        """Take note of a look; those of its orphans that may go now."""
        seen = {orphan.id: self._first_seen_ms.get(orphan.id) for orphan in orphans}
        ripe = [
            orphan
            for orphan in orphans
            if (first := seen[orphan.id]) is not None and self._is_old(orphan, first, now_ms)
        ]
        self._first_seen_ms = {
            each: now_ms if first is None else first for each, first in seen.items()
        }
        return ripe

    def _is_old(self, orphan: Orphan, first_seen_ms: int, now_ms: int) -> bool:
        since = first_seen_ms if orphan.modified_ms is None else orphan.modified_ms
        return now_ms - since >= self._grace_ms

"""Finds orphans for a scrub: objects in a tier that no broker will ever read or delete.

COPY_SEGMENT_STARTED is in the metadata topic before the first object of a segment is written, and
DELETE_SEGMENT_FINISHED follows the removal of the last one. So an object that was listed *before*
the metadata was read to its end, and is not in the metadata, is an orphan: left by a killed broker,
a failed store or a deleted topic. The rules:

- The listing comes first, then all of the metadata. Incomplete metadata is useless.
- While the metadata has a segment, in any state, its objects are not orphans: the leader, or the
  next one, cleans up unfinished copies and deletions.
- A complete segment of an existing topic may be neither in the metadata nor a second copy of a
  segment that is. Then metadata was lost, or another cluster writes here, and a rebuild would bring
  the segment back. It is reported, and removed only if the operator says so.
- A partition that is not in the metadata may belong to another cluster in the same bucket: its
  objects are removed only if the operator says so.
- An orphan is removed only if an earlier look saw it too and it is older than the grace time,
  counted from its modification, or from the earlier look if the store has no modification times.
- The manifest is removed first, so that a partial segment never looks complete.
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

_UNKNOWN_WHOLE = "a complete segment that is not in the metadata"
_TEMPORARY = ".tmp"


class Orphan(NamedTuple):
    """Objects of one segment that no metadata refers to."""

    segment: StoredSegment
    objects: tuple[TierObject, ...]
    """In the order of their removal."""
    reason: str
    is_of_known_partition: bool
    is_whole: bool = False
    """Whether a rebuild would bring the segment back; if so, its metadata was probably lost."""

    @property
    def id(self) -> Uuid:
        return self.segment.segment_id

    @property
    def nbytes(self) -> int:
        return sum(tier_object.size for tier_object in self.objects)

    @property
    def modified_ms(self) -> int | None:
        """The latest modification time of the objects; None if the store does not report it."""
        times = [
            tier_object.modified_ms
            for tier_object in self.objects
            if tier_object.modified_ms is not None
        ]
        return max(times) if len(times) == len(self.objects) else None


def find_orphans(
    listing: Listing, remote_logs: Mapping[TopicIdPartition, RemoteLog]
) -> list[Orphan]:
    """The orphans of a listing, by metadata that was read after the listing."""
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
                tier_object
                for suffix, tier_object in segment.objects.items()
                if suffix.endswith(_TEMPORARY)
            ]
            reason = "a part of an upload that was started twice"
        else:
            continue
        if objects:
            is_known = remote is not None
            orphans.append(Orphan(segment, _in_order(objects), reason, is_known, is_whole))
    return orphans


def is_unknown_whole(segment: StoredSegment, remote: RemoteLog) -> bool:
    """Whether a segment that the metadata lacks is complete and no second copy.

    Always False for a deleted topic.
    """
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
        return "of a partition that is not in the metadata"
    if remote.partition_delete_state is not None:
        return "left over from a deleted topic"
    return (
        "a second copy of a segment"
        if segment.has_manifest
        else "left over from an unfinished copy"
    )


def _in_order(objects: Iterable[TierObject]) -> tuple[TierObject, ...]:
    return tuple(
        sorted(objects, key=lambda each: (not each.key.endswith(f".{MANIFEST_SUFFIX}"), each.key))
    )


class Looks:
    """When each orphan of the last look was first seen."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._first_seen_ms: dict[Uuid, int] = {}

    def ripe(self, orphans: Iterable[Orphan], now_ms: int) -> list[Orphan]:
        """Record a look's orphans; returns those that may be removed now."""
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

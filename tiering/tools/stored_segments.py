"""Groups a tier's objects by segment, from their keys.

The metadata topic, not the listing, is authoritative, but the listing is all there is if the topic
is lost, and the topic is compared with it. A key holds the partition, the segment's start offset
and its id, which is new for each copy attempt (`object_keys.py`); an attempt with a manifest is
complete. A segment id alone is not unique: objects under another partition or offset may have it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from ..store.manifest import Manifest
from ..store.object_keys import MANIFEST_SUFFIX, parse_object_key
from ..store.tier_store import TierObject
from ..tier_owner import OWNER_KEY


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """The objects of one attempt to copy a segment."""

    stem: str
    """The key of each of its objects, up to the dot before the suffix."""
    topic_id_partition: TopicIdPartition
    start_offset: int
    segment_id: Uuid
    objects: dict[str, TierObject] = field(default_factory=dict[str, TierObject])
    """By the suffix of the key."""

    @property
    def has_manifest(self) -> bool:
        return MANIFEST_SUFFIX in self.objects

    @property
    def nbytes(self) -> int:
        return sum(tier_object.size for tier_object in self.objects.values())

    def key(self, suffix: str) -> str:
        return f"{self.stem}.{suffix}"


class Listing(NamedTuple):
    """A tier's objects, grouped by segment."""

    segments: dict[str, StoredSegment]
    """By stem, in the order of their keys: by partition, then by start offset."""
    foreign: list[TierObject]
    """Objects with a key that is not ours; they are never touched."""


def sort_out(objects: Iterable[TierObject]) -> Listing:
    """Group objects by segment."""
    segments: dict[str, StoredSegment] = {}
    foreign: list[TierObject] = []
    for tier_object in sorted(objects, key=lambda each: each.key):
        parsed = parse_object_key(tier_object.key)
        if tier_object.key == OWNER_KEY:
            continue
        if parsed is None or tier_object.key.count("/") != 1:
            # A copy of a tier in a folder inside it is not part of the tier.
            foreign.append(tier_object)
            continue
        stem = tier_object.key.removesuffix(f".{parsed.suffix}")
        segment = segments.get(stem)
        if segment is None:
            segment = segments[stem] = StoredSegment(
                stem,
                parsed.topic_id_partition,
                parsed.start_offset,
                parsed.segment_id,
            )
        segment.objects[parsed.suffix] = tier_object
    return Listing(segments, foreign)


def missing_parts(manifest: Manifest, objects: Mapping[str, TierObject]) -> dict[str, str]:
    """By suffix, what is wrong with each part that is missing or has the wrong size."""
    problems: dict[str, str] = {}
    for suffix, part in manifest.parts.items():
        stored = objects.get(suffix)
        if stored is None:
            problems[suffix] = f"{suffix} is missing"
        elif stored.size != part.size:
            problems[suffix] = f"{suffix} has {stored.size} bytes, not {part.size}"
    return problems

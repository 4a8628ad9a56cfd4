"""What a tier holds, seen from its keys: which objects belong to which copy of which segment.

A listing says nothing about what is true (the metadata topic does), but it is all there is when the
topic is lost, and it is what the topic is compared with. A key alone names the partition, the
segment's place and the attempt to copy it (`object_keys.py`); an attempt with a manifest is whole.
A segment's id alone names nothing: anybody may have put an object with the same id elsewhere.
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
    """By the suffix of their key."""

    @property
    def has_manifest(self) -> bool:
        return MANIFEST_SUFFIX in self.objects

    @property
    def nbytes(self) -> int:
        return sum(each.size for each in self.objects.values())

    def key(self, suffix: str) -> str:
        return f"{self.stem}.{suffix}"


class Listing(NamedTuple):
    """A tier's objects, sorted out."""

    segments: dict[str, StoredSegment]
    """By stem, in the order of their keys: by partition, then by start offset."""
    foreign: list[TierObject]
    """Objects whose key is none of ours. Nobody here touches them."""


def sort_out(objects: Iterable[TierObject]) -> Listing:
    """Say of each object which segment it belongs to."""
    segments: dict[str, StoredSegment] = {}
    foreign: list[TierObject] = []
    for each in sorted(objects, key=lambda each: each.key):
        parsed = parse_object_key(each.key)
        if each.key == OWNER_KEY:
            continue
        if parsed is None or each.key.count("/") != 1:
            # A copy of a tier in a folder inside it is not that tier.
            foreign.append(each)
            continue
        stem = each.key.removesuffix(f".{parsed.suffix}")
        segment = segments.get(stem)
        if segment is None:
            segment = segments[stem] = StoredSegment(
                stem,
                parsed.topic_id_partition,
                parsed.start_offset,
                parsed.segment_id,
            )
        segment.objects[parsed.suffix] = each
    return Listing(segments, foreign)


def missing_parts(manifest: Manifest, objects: Mapping[str, TierObject]) -> list[str]:
    """What a manifest promises and the listing does not keep, each as a few plain words."""
    problems: list[str] = []
    for suffix, part in manifest.parts.items():
        stored = objects.get(suffix)
        if stored is None:
            problems.append(f"{suffix} is missing")
        elif stored.size != part.size:
            problems.append(f"{suffix} has {stored.size} bytes and not {part.size}")
    return problems

"""What a cluster that is rebuilt from its tier will be: topics, partitions, configs, segments.

Everything is decided here before anything is written, and said: whoever rebuilds can look at the
plan first. The rules beside those of a single partition (`lineage_choice.py`):

- A topic comes back under its old id, with as many partitions as its newest manifest says, or as
  its segments show; a partition without a segment comes back empty.
- Its configuration is that of the newest manifest. Where no manifest tells (they were written by
  an older tierlog), it is tiered and kept for ever: nothing is deleted on a guess.
- Of two topics of one name the younger one is proposed, and somebody must choose: one was deleted
  and the other made after it, or two clusters have written under one prefix.
- What holds no whole segment does not come back.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ..store.manifest import Manifest, TopicDescription
from .lineage_choice import TierLineage

KEPT_FOR_EVER: Mapping[str, str] = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""The configuration of a topic of which nothing is known."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition that comes back with what is in the tier."""

    lineage: TierLineage
    producer_snapshot: bytes
    """The state of its producers at the end of the lineage."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that comes back."""

    name: str
    topic_id: Uuid
    partition_count: int
    config: Mapping[str, str]
    is_config_known: bool
    partitions: Mapping[int, PlannedPartition]

    @property
    def nbytes(self) -> int:
        return sum(
            segment.segment_size_bytes
            for partition in self.partitions.values()
            for segment in partition.lineage.segments
        )


class NewestTopics(NamedTuple):
    """Which topic ids come back, by name, and which of them another topic of the name outlived."""

    by_name: Mapping[str, Uuid]
    outlived: list[tuple[str, Uuid]]


def newest_topics(manifests: Iterable[Manifest], chosen: Container[Uuid] = ()) -> NewestTopics:
    """Of each name the topic that is chosen, or else the one that was written to last."""
    last_written: dict[tuple[str, Uuid], int] = {}
    for manifest in manifests:
        partition = manifest.metadata.topic_id_partition
        key = (partition.topic, partition.topic_id)
        written = manifest.metadata.event_timestamp_ms
        last_written[key] = max(last_written.get(key, written), written)
    by_name: dict[str, Uuid] = {}
    by_age = sorted(last_written.items(), key=lambda each: (each[0][1] in chosen, each[1]))
    for (name, topic_id), _ in by_age:
        by_name[name] = topic_id
    outlived = [key for key in last_written if by_name[key[0]] != key[1]]
    return NewestTopics(by_name, sorted(outlived))


def description_of(manifests: Iterable[Manifest]) -> TopicDescription | None:
    """What the newest manifest of a topic that tells of it says."""
    telling = [manifest for manifest in manifests if manifest.topic is not None]
    if not telling:
        return None
    return max(telling, key=lambda each: each.metadata.event_timestamp_ms).topic


def planned_topic(
    name: str,
    topic_id: Uuid,
    description: TopicDescription | None,
    partitions: Mapping[int, PlannedPartition],
) -> PlannedTopic:
    """Put a topic together from what its partitions are and what its manifests say of it."""
    shown = max(partitions, default=-1) + 1
    config = dict(KEPT_FOR_EVER if description is None else description.config)
    # What has segments in the tier was tiered when they were copied; without it nobody could read.
    config["remote.storage.enable"] = "true"
    return PlannedTopic(
        name=name,
        topic_id=topic_id,
        partition_count=max(shown, 0 if description is None else description.partitions),
        config=config,
        is_config_known=description is not None,
        partitions=partitions,
    )

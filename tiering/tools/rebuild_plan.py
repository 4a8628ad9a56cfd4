"""The plan of a cluster rebuilt from its tier: topics, partitions, configs, segments.

Everything is decided here before anything is written, so that the operator can review the plan
first. The rules, besides those of a single partition (`lineage_choice.py`):

- A topic keeps its id, and gets as many partitions as its newest manifest says, or as its segments
  show if that is more; a partition without a segment is empty.
- Its configuration is that of the newest manifest. If no manifest has one (older tierlog versions
  wrote none), it is tiered with unlimited retention: nothing is deleted on a guess.
- Of two topics with one name the one written to last is proposed, and the operator must choose: one
  was deleted and the other created later, or two clusters have written under one prefix.
- A topic without a complete segment is not rebuilt.
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
"""The configuration given to a topic whose own is unknown."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition to rebuild from the tier."""

    lineage: TierLineage
    producer_snapshot: bytes
    """The producer state at the end of the lineage."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to rebuild."""

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


@dataclass(frozen=True, slots=True)
class LeftTopic:
    """A topic that is not rebuilt."""

    name: str
    topic_id: Uuid
    reasons: tuple[str, ...]
    """What keeps it from being rebuilt; a partition is named where it is of one."""


class NewestTopics(NamedTuple):
    """The topic ids to rebuild by name, and the other (name, topic id) pairs, not rebuilt."""

    by_name: Mapping[str, Uuid]
    outlived: list[tuple[str, Uuid]]


def newest_topics(manifests: Iterable[Manifest], chosen: Container[Uuid] = ()) -> NewestTopics:
    """For each name the chosen topic, or else the one written to last."""
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
    """The topic description in the newest manifest that has one."""
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
    """The plan of a topic, from its partitions and its description."""
    shown = max(partitions, default=-1) + 1
    config = dict(KEPT_FOR_EVER if description is None else description.config)
    # A topic with segments in the tier was tiered; it must stay so, or they cannot be read.
    config["remote.storage.enable"] = "true"
    return PlannedTopic(
        name=name,
        topic_id=topic_id,
        partition_count=max(shown, 0 if description is None else description.partitions),
        config=config,
        is_config_known=description is not None,
        partitions=partitions,
    )

"""Plans the rebuild of a cluster from a survey of its tier.

Besides the manifests, two small objects of each partition's tail segment are read: the epoch
history, which decides what belongs to the log, and the producer state at its end.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from ...clients.kafka_uuid import Uuid, uuid_to_string
from ...clients.text_table import counted
from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.producer.producer_snapshot import CorruptSnapshotError, decode_snapshot
from ..remote_storage import IndexType
from ..store.manifest import Manifest
from ..store.object_keys import MANIFEST_SUFFIX, object_key
from .in_parallel import in_parallel
from .lineage_choice import TierLineage, after_last_hole, choose_lineage, tail_of
from .rebuild_plan import (
    PlannedPartition,
    PlannedTopic,
    description_of,
    newest_topics,
    planned_topic,
)
from .tier_survey import (
    WORKERS,
    DamagedPartError,
    Finding,
    Survey,
    TierReader,
    read_part,
)


@dataclass(slots=True)
class RebuildPlan:
    """The topics to rebuild, and the findings about them."""

    topics: list[PlannedTopic] = field(default_factory=list[PlannedTopic])
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def has_trouble(self) -> bool:
        return any(each.is_trouble for each in self.findings)

    @property
    def next_producer_id(self) -> int:
        """One above the highest producer id in any partition's snapshot."""
        return 1 + max(
            (
                entry.producer_id
                for topic in self.topics
                for partition in topic.partitions.values()
                for entry in decode_snapshot(partition.producer_snapshot)
            ),
            default=-1,
        )


async def plan_rebuild(
    tier: TierReader, survey: Survey, *, skip_holes: bool, chosen: Container[Uuid] = ()
) -> RebuildPlan:
    """Decide what to rebuild. Raises RemoteStorageError if the store does not answer.

    A partition with a hole is trouble, unless `skip_holes` lets it begin after its last hole. So
    are two topics with one name, unless one of them is `chosen`.
    """
    plan = RebuildPlan(findings=list(survey.findings))
    names = newest_topics(survey.manifests.values(), chosen)
    for name, topic_id in names.outlived:
        plan.findings.append(_outlived(name, topic_id, names.by_name[name], chosen))
    partitions = {
        partition: manifests
        for partition, manifests in survey.partitions().items()
        if names.by_name[partition.topic] == partition.topic_id
    }
    planned: dict[TopicIdPartition, PlannedPartition] = {}

    async def decide(partition: TopicIdPartition) -> None:
        partition_plan = await _plan_partition(
            tier, partitions[partition], plan, skip_holes=skip_holes
        )
        if partition_plan is not None:
            planned[partition] = partition_plan

    await in_parallel(partitions, decide, WORKERS)
    for name, topic_id in sorted(names.by_name.items()):
        own = {each: partitions[each] for each in partitions if each.topic_id == topic_id}
        manifests = [manifest for each in own.values() for manifest in each]
        topic = planned_topic(
            name,
            topic_id,
            description_of(manifests),
            {each.partition: planned[each] for each in own if each in planned},
        )
        plan.topics.append(topic)
        if not topic.is_config_known:
            plan.findings.append(
                Finding(
                    name,
                    "no manifest has the configuration of the topic",
                    "it is restored as a tiered topic that keeps records for ever; set "
                    "retention.ms and the other properties again",
                    is_trouble=False,
                )
            )
    plan.findings.sort()
    return plan


def _outlived(name: str, topic_id: Uuid, kept: Uuid, chosen: Container[Uuid]) -> Finding:
    where = f"{name} {uuid_to_string(topic_id)}"
    if kept in chosen:
        advice = "it is left out; `tierlog tier scrub --unknown-partitions` removes its objects"
        return Finding(where, "another topic of that name was chosen", advice, is_trouble=False)
    younger = uuid_to_string(kept)
    return Finding(
        where,
        f"the tier holds another topic of that name, {younger}, with later writes",
        f"choose the one to restore: --topic-id {younger}, or --topic-id "
        f"{uuid_to_string(topic_id)}",
    )


async def _plan_partition(
    tier: TierReader, manifests: Sequence[Manifest], plan: RebuildPlan, *, skip_holes: bool
) -> PlannedPartition | None:
    """Plan one partition; None, with a finding, if it cannot be rebuilt."""
    segments = [manifest.metadata for manifest in manifests]
    tail = tail_of(segments)
    manifest = next(each for each in manifests if each.metadata is tail)
    try:
        history = parse_epochs(await read_part(tier, manifest, IndexType.LEADER_EPOCH.value))
        snapshot = await read_part(tier, manifest, IndexType.PRODUCER_SNAPSHOT.value)
        decode_snapshot(snapshot)
    except (MalformedCheckpointError, CorruptSnapshotError, DamagedPartError) as error:
        where = object_key(tail, MANIFEST_SUFFIX)
        advice = "restore the object from a backup of the bucket, or remove the segment"
        plan.findings.append(Finding(where, str(error), advice))
        return None
    lineage = choose_lineage(segments, history)
    _tell(lineage, plan, skip_holes=skip_holes)
    return PlannedPartition(after_last_hole(lineage) if skip_holes else lineage, snapshot)


def _tell(lineage: TierLineage, plan: RebuildPlan, *, skip_holes: bool) -> None:
    where = str(lineage.topic_id_partition.topic_partition)
    for hole in lineage.holes:
        advice = (
            "the partition starts after it"
            if skip_holes
            else (
                "restore the segments from a backup, or use --skip-holes to start after the "
                "last hole"
            )
        )
        problem = f"no segment holds the offsets {hole}"
        plan.findings.append(Finding(where, problem, advice, is_trouble=not skip_holes))
    if lineage.left_out:
        plan.findings.append(
            Finding(
                where,
                f"{counted(len(lineage.left_out), 'segment', 'is', 'are')} of a branch that a "
                "leader election cut off, or duplicates of others",
                "they are left out; `tierlog tier scrub --unknown-segments` removes their objects",
                is_trouble=False,
            )
        )

"""Plans the rebuild of a cluster from a survey of its tier.

Besides the manifests, two small objects of each partition's tail segment are read: the epoch
history, which decides what belongs to the log, and the producer state at its end. If one of them is
damaged, the manifests hold the history, too, and the batches the producers.

Everything that can be read is restored. A topic is left out, whole, only if one of its partitions
has a hole (without `skip_holes`), if its producers are unknown, or if another topic has its
name; the plan says why, and the others are not concerned.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid, uuid_to_string
from ...clients.text_table import counted
from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.config import LogConfig
from ...storage.log.tier_history import mended_history
from ...storage.producer.producer_snapshot import CorruptSnapshotError, decode_snapshot
from ...storage.remote.remote_lineage import (
    NO_EPOCH,
    EpochHistory,
    LogExtent,
    epoch_of_offset,
)
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import IndexType
from ..store.manifest import Manifest
from ..store.object_keys import MANIFEST_SUFFIX, object_key
from .in_parallel import in_parallel
from .lineage_choice import TierLineage, after_last_hole, choose_lineage, remote_log_of, tail_of
from .producer_replay import producers_at_end
from .rebuild_plan import (
    KEPT_FOR_EVER,
    LeftTopic,
    NewestTopics,
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

REPLACEABLE = frozenset({IndexType.LEADER_EPOCH.value, IndexType.PRODUCER_SNAPSHOT.value})
"""Parts that no reader needs, and that can be computed from others."""

_REPAIR = "its records are restored; `tierlog tier repair` writes the part again"


@dataclass(slots=True)
class RebuildPlan:
    """The topics to rebuild, those that are left out, and the findings about them."""

    topics: list[PlannedTopic] = field(default_factory=list[PlannedTopic])
    left: list[LeftTopic] = field(default_factory=list[LeftTopic])
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def has_trouble(self) -> bool:
        """Whether anything is left out, lost or damaged."""
        return bool(self.left) or any(finding.is_trouble for finding in self.findings)

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
    tier: TierReader,
    survey: Survey,
    *,
    skip_holes: bool,
    chosen: Container[Uuid] = (),
    defaults: LogConfig | None = None,
) -> RebuildPlan:
    """Decide what to rebuild. Raises RemoteStorageError if the store does not answer.

    A topic with a hole in a partition is left out, unless `skip_holes` lets the partition begin
    after its last hole. So are two topics with one name, unless one of them is `chosen`. `defaults`
    are the broker's, for what a topic's configuration does not say.
    """
    readable = _readable(survey)
    planner = _Planner(tier, readable, defaults or LogConfig(), skip_holes=skip_holes)
    await planner.decide(newest_topics(readable.manifests.values(), chosen), chosen)
    return planner.plan


def _readable(survey: Survey) -> Survey:
    """The survey with the segments that lack nothing but replaceable parts."""
    lacking = {
        stem: segment.without_missing()
        for stem, segment in survey.incomplete.items()
        if segment.missing <= REPLACEABLE
    }
    keys = {object_key(manifest.metadata, MANIFEST_SUFFIX) for manifest in lacking.values()}
    findings = [
        finding._replace(advice=_REPAIR) if finding.key in keys else finding
        for finding in survey.findings
    ]
    return Survey(survey.listing, {**survey.manifests, **lacking}, findings)


class _LeftOutError(Exception):
    """A partition cannot be rebuilt, and so its topic is left out."""


class _Planner:
    """Makes one plan."""

    def __init__(
        self, tier: TierReader, survey: Survey, defaults: LogConfig, *, skip_holes: bool
    ) -> None:
        self._tier = tier
        self._survey = survey
        self._defaults = defaults
        self._skip_holes = skip_holes
        self._planned: dict[TopicIdPartition, PlannedPartition] = {}
        self._reasons: dict[tuple[str, Uuid], list[str]] = {}
        self.plan = RebuildPlan(findings=list(survey.findings))

    async def decide(self, names: NewestTopics, chosen: Container[Uuid]) -> None:
        """Fill the plan."""
        for name, topic_id in names.outlived:
            self._two_of_one_name(name, topic_id, names.by_name[name], chosen)
        partitions = {
            partition: manifests
            for partition, manifests in self._survey.partitions().items()
            if names.by_name[partition.topic] == partition.topic_id
            and (partition.topic, partition.topic_id) not in self._reasons
        }

        async def decide(partition: TopicIdPartition) -> None:
            try:
                self._planned[partition] = await self._partition(partitions[partition])
            except _LeftOutError as error:
                why = f"partition {partition.partition}: {error}"
                self._leave(partition.topic, partition.topic_id, why)

        await in_parallel(partitions, decide, WORKERS)
        for name, topic_id in sorted(names.by_name.items()):
            if (name, topic_id) not in self._reasons:
                self.plan.topics.append(self._topic(name, topic_id, partitions))
        self._leave_unreadable(names)
        self.plan.left = [
            LeftTopic(name, topic_id, tuple(sorted(reasons)))
            for (name, topic_id), reasons in sorted(self._reasons.items())
        ]
        self.plan.findings.sort()

    def _leave(self, name: str, topic_id: Uuid, why: str) -> None:
        self._reasons.setdefault((name, topic_id), []).append(why)

    def _find(self, where: str, problem: str, advice: str, *, is_trouble: bool = True) -> None:
        self.plan.findings.append(Finding(where, problem, advice, is_trouble))

    def _two_of_one_name(
        self, name: str, topic_id: Uuid, kept: Uuid, chosen: Container[Uuid]
    ) -> None:
        where, younger = f"{name} {uuid_to_string(topic_id)}", uuid_to_string(kept)
        if kept in chosen:
            advice = "it is left out; `tierlog tier scrub --unknown-partitions` removes its objects"
            self._find(where, "another topic of that name was chosen", advice, is_trouble=False)
            return
        problem = f"the tier holds another topic of that name, {younger}, with later writes"
        advice = (
            f"choose the one to restore: --topic-id {younger}, or --topic-id "
            f"{uuid_to_string(topic_id)}"
        )
        self._find(where, problem, advice)
        why = "two topics have this name, and --topic-id chooses neither"
        for each in (topic_id, kept):
            if why not in self._reasons.get((name, each), ()):
                self._leave(name, each, why)

    def _topic(
        self,
        name: str,
        topic_id: Uuid,
        partitions: Mapping[TopicIdPartition, Sequence[Manifest]],
    ) -> PlannedTopic:
        own = {
            partition: partitions[partition]
            for partition in partitions
            if partition.topic_id == topic_id
        }
        description = description_of(manifest for each in own.values() for manifest in each)
        if description is not None:
            try:
                LogConfig.from_properties(description.config, self._defaults)
            except KafkaError as error:
                self._kept_for_ever(name, f"its configuration is refused ({error.message})")
                description = description._replace(config=KEPT_FOR_EVER)
        else:
            self._kept_for_ever(name, "no manifest has the configuration of the topic")
        planned = {partition.partition: self._planned[partition] for partition in own}
        return planned_topic(name, topic_id, description, planned)

    def _kept_for_ever(self, name: str, problem: str) -> None:
        advice = (
            "it is restored as a tiered topic that keeps records for ever; set retention.ms and "
            "the other properties again"
        )
        self._find(name, problem, advice, is_trouble=False)

    def _leave_unreadable(self, names: NewestTopics) -> None:
        """Report topics that have segments, and none that can be read."""
        read = {(name, topic_id) for name, topic_id in names.by_name.items()} | {*names.outlived}
        begun: dict[tuple[str, Uuid], bool] = {}
        for stored in self._survey.listing.segments.values():
            key = (stored.topic_id_partition.topic, stored.topic_id_partition.topic_id)
            begun[key] = begun.get(key, False) or stored.has_manifest
        for (name, topic_id), was_complete in begun.items():
            if (name, topic_id) in read:
                continue
            if was_complete:
                self._leave(name, topic_id, "none of its segments can be read")
                continue
            where, problem = f"{name} {uuid_to_string(topic_id)}", "no segment of it is complete"
            advice = "it is left out: its first copy never ended, or its deletion did not"
            self._find(where, problem, advice, is_trouble=False)

    async def _partition(self, manifests: Sequence[Manifest]) -> PlannedPartition:
        """Plan one partition. Raises _LeftOutError."""
        segments = [manifest.metadata for manifest in manifests]
        tail = tail_of(segments)
        manifest = next(each for each in manifests if each.metadata is tail)
        lineage = choose_lineage(segments, await self._history(manifest, manifests))
        self._report_findings(lineage)
        if lineage.holes and not self._skip_holes:
            raise _LeftOutError(f"no segment holds the offsets {lineage.holes[0]}")
        lineage = after_last_hole(lineage)
        return PlannedPartition(lineage, await self._producers(manifest, lineage, manifests))

    async def _history(self, tail: Manifest, manifests: Sequence[Manifest]) -> EpochHistory:
        """The epoch history of the log that ends with the tail. Raises _LeftOutError."""
        try:
            content = await read_part(self._tier, tail, IndexType.LEADER_EPOCH.value)
            return parse_epochs(content)
        except (MalformedCheckpointError, DamagedPartError) as error:
            derived = derived_history(tail.metadata, [manifest.metadata for manifest in manifests])
            if derived is None:
                raise _LeftOutError(f"{error}, and the manifests hold several branches") from error
            self._report_replaced(tail, f"{error}", "the leader epochs are those of the manifests")
            return derived

    async def _producers(
        self, tail: Manifest, lineage: TierLineage, manifests: Sequence[Manifest]
    ) -> bytes:
        """The producer snapshot at the end of the tail. Raises _LeftOutError."""
        try:
            content = await read_part(self._tier, tail, IndexType.PRODUCER_SNAPSHOT.value)
            decode_snapshot(content)
        except (CorruptSnapshotError, DamagedPartError) as error:
            by_id = {manifest.metadata.id: manifest for manifest in manifests}
            try:
                content = await producers_at_end(self._tier, lineage, by_id)
            except DamagedPartError as damage:
                raise _LeftOutError(f"{error}, and {damage}") from damage
            self._report_replaced(tail, f"{error}", "the producers are those of the record batches")
        return content

    def _report_replaced(self, tail: Manifest, problem: str, by_what: str) -> None:
        self._find(object_key(tail.metadata, MANIFEST_SUFFIX), f"{problem}; {by_what}", _REPAIR)

    def _report_findings(self, lineage: TierLineage) -> None:
        where, skip_holes = str(lineage.topic_id_partition.topic_partition), self._skip_holes
        for hole in lineage.holes:
            advice = (
                "the partition starts after it"
                if skip_holes
                else (
                    "restore the segments from a backup, or use --skip-holes to start after the "
                    "last hole"
                )
            )
            self._find(
                where, f"no segment holds the offsets {hole}", advice, is_trouble=not skip_holes
            )
        if lineage.left_out:
            problem = (
                f"{counted(len(lineage.left_out), 'segment', 'is', 'are')} of a branch that a "
                "leader election cut off, or duplicates of others"
            )
            advice = (
                "they are left out; `tierlog tier scrub --unknown-segments` removes their objects"
            )
            self._find(where, problem, advice, is_trouble=False)


def derived_history(
    tail: RemoteLogSegmentMetadata, segments: Sequence[RemoteLogSegmentMetadata]
) -> EpochHistory | None:
    """The history of the log that ends with the tail, from the segments' own epochs.

    None if segments below the tail are of several branches: only the tail's history shows
    which of them a later leader cut off.
    """
    end = tail.end_offset + 1
    remote = remote_log_of(tail.topic_id_partition, segments)
    history = mended_history(remote, (), LogExtent(0, end, end)) or tail.segment_leader_epochs
    for segment in segments:
        for epoch, first, last in segment.epoch_ranges():
            for offset in {first, *(start for _, start in history if first <= start <= last)}:
                derived = epoch_of_offset(history, offset)
                if offset < tail.start_offset and derived not in (NO_EPOCH, epoch):
                    return None
    return history

"""Finds what another cluster's mounted tier contains; serving it is done elsewhere.

Each look lists the bucket, reads the manifests that are new since the last look, and chooses every
partition's log as a rebuild would (`lineage_choice.py`). A segment without a manifest is ignored. A
partition that cannot be read now (its tail was deleted between listing and reading) keeps the
result of the previous look.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.remote.remote_log import RemoteLog
from ..remote_storage import IndexType
from ..store.manifest import Manifest
from ..store.object_keys import object_stem
from .lineage_choice import TierLineage, after_last_hole, choose_lineage, remote_log_of, tail_of
from .rebuild_plan import description_of, newest_topics
from .stored_segments import StoredSegment, sort_out
from .tier_survey import (
    DamagedPartError,
    Survey,
    TierReader,
    read_part,
    survey_again,
)


class MountedTopic(NamedTuple):
    """A topic of the mounted tier."""

    name: str
    topic_id: Uuid
    partitions: int


@dataclass(frozen=True, slots=True)
class MountedPartition:
    """A partition's log in the mounted tier."""

    lineage: TierLineage
    remote: RemoteLog
    """Its segments, all finished, for readers."""


@dataclass(slots=True)
class MountedView:
    """The result of one look at the tier."""

    topics: dict[str, MountedTopic] = field(default_factory=dict[str, MountedTopic])
    partitions: dict[TopicIdPartition, MountedPartition] = field(
        default_factory=dict[TopicIdPartition, MountedPartition]
    )


class TierWatcher:
    """Looks at one tier repeatedly, and reads only new manifests."""

    def __init__(self, tier: TierReader, topics: frozenset[str]) -> None:
        self._tier = tier
        self._only = topics
        """The topics to mount; all if empty."""
        self._manifests: dict[str, Manifest] = {}
        self._segments_of: dict[TopicIdPartition, frozenset[str]] = {}
        self._view = MountedView()

    async def look(self) -> MountedView:
        """The current contents. Raises RemoteStorageError if the store does not answer."""
        listing = sort_out(await self._tier.list())
        survey = await survey_again(self._tier, listing, self._manifests, self._is_wanted)
        self._manifests = survey.manifests
        self._view = await self._decide(survey)
        return self._view

    def _is_wanted(self, segment: StoredSegment) -> bool:
        return not self._only or segment.topic_id_partition.topic in self._only

    async def _decide(self, survey: Survey) -> MountedView:
        names = newest_topics(survey.manifests.values())
        by_partition = {
            partition: manifests
            for partition, manifests in survey.partitions().items()
            if names.by_name[partition.topic] == partition.topic_id
        }
        view = MountedView()
        segments_of: dict[TopicIdPartition, frozenset[str]] = {}
        for partition, manifests in by_partition.items():
            stems = frozenset(object_stem(manifest.metadata) for manifest in manifests)
            before = self._view.partitions.get(partition)
            if before is not None and self._segments_of.get(partition) == stems:
                mount: MountedPartition | None = before
            else:
                mount = await self._decide_partition(manifests) or before
            if mount is not None:
                view.partitions[partition] = mount
                segments_of[partition] = stems
        self._segments_of = segments_of
        for name, topic_id in names.by_name.items():
            own = [each for each in by_partition if each.topic_id == topic_id]
            description = description_of(
                manifest for each in own for manifest in by_partition[each]
            )
            shown = max(each.partition for each in own) + 1
            count = max(shown, 0 if description is None else description.partitions)
            view.topics[name] = MountedTopic(name, topic_id, count)
        return view

    async def _decide_partition(self, manifests: list[Manifest]) -> MountedPartition | None:
        segments = [manifest.metadata for manifest in manifests]
        tail = tail_of(segments)
        manifest = next(each for each in manifests if each.metadata is tail)
        try:
            content = await read_part(self._tier, manifest, IndexType.LEADER_EPOCH.value)
            history = parse_epochs(content)
        except (DamagedPartError, MalformedCheckpointError):
            # Deleted meanwhile, or damaged: the next look tries again.
            return None
        # A reader that reached a hole would reset its offset forever.
        lineage = after_last_hole(choose_lineage(segments, history))
        return MountedPartition(lineage, remote_log_of(tail.topic_id_partition, segments))

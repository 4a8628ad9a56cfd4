"""Chooses the segments of a tier that make up each topic's log, for a scan.

They are chosen from the listing and the manifests, as in a rebuild
(`tiering/tools/lineage_choice.py`): only complete segments count, the newest leader's epoch history
decides, and of two topics with the same name the one that was written to last wins. A view says
which topic that is, by its id, for those who keep offsets until another scan. A stream refreshes
its view repeatedly, and reads only the new manifests each time.

Problems that the broker's own tools report as findings are errors here, because nobody would see
that a table lacks rows.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...tiering.remote_storage import IndexType
from ...tiering.store.manifest import Manifest
from ...tiering.store.object_keys import (
    MANIFEST_SUFFIX,
    object_key,
    object_stem,
    parse_object_key,
)
from ...tiering.tools.in_parallel import in_parallel
from ...tiering.tools.lineage_choice import TierLineage, choose_lineage, tail_of
from ...tiering.tools.rebuild_plan import description_of, newest_topics
from ...tiering.tools.stored_segments import Listing, StoredSegment, sort_out
from ...tiering.tools.tier_survey import (
    DamagedPartError,
    Finding,
    Survey,
    TierReader,
    read_part,
    survey_again,
)
from .scan_options import ScanError, ScanOptions, TopicIds
from .topic_ids import recreated_topic

if TYPE_CHECKING:
    from ...tiering.store.tier_store import TierObject

_NAMED_AT_MOST = 10

_LISTINGS_AT_ONCE = 4

_LOOKS = 3
"""The most attempts: a broker may delete a segment between our listing and our reading."""


class TierView(NamedTuple):
    """The lineages and manifests of the requested topics at one point in time."""

    lineages: Mapping[TopicPartition, TierLineage]
    """The lineages of partitions with a complete segment."""
    manifests: Mapping[str, Manifest]
    """The manifests of all complete segments, by the stem of their keys."""
    partition_counts: Mapping[str, int]
    """By topic; includes partitions without a segment if a manifest lists them."""
    topic_ids: TopicIds
    """The id of each topic: all lineages of its name are of this one."""

    def manifest_of(self, segment: RemoteLogSegmentMetadata) -> Manifest:
        """The manifest of a segment of a lineage."""
        return self.manifests[object_stem(segment)]


class TierLineages:
    """The lineages of some topics of one tier; each call of `look` reads only new manifests."""

    def __init__(
        self,
        tier: TierReader,
        where: str,
        topics: tuple[str, ...],
        partitions: frozenset[int] = frozenset(),
        topic_ids: TopicIds | None = None,
        assigned: frozenset[TopicPartition] = frozenset(),
    ) -> None:
        """`partitions` are the numbers of those to choose lineages for; all if empty.

        If `assigned` is not empty, these partitions are chosen instead.
        A look fails if a topic has another id than in `topic_ids`.
        """
        self._tier = tier
        self._where = where
        self._topics = topics
        self._partitions = partitions
        self._assigned = assigned
        self._topic_ids: TopicIds = topic_ids or {}
        self._manifests: dict[str, Manifest] = {}
        self._decided: dict[TopicIdPartition, tuple[frozenset[str], TierLineage]] = {}

    @classmethod
    def of(cls, tier: TierReader, options: ScanOptions) -> Self:
        """The lineages that a scan with these options reads."""
        where = str(options.location)
        return cls(
            tier, where, options.topics, options.partitions, options.topic_ids, options.assigned
        )

    def follow(self, topics: tuple[str, ...]) -> None:
        """Look at these topics from now on; what is known of their segments is kept."""
        self._topics = topics

    async def look(self) -> TierView:
        """The current view. Raises ScanError, RemoteStorageError."""
        view = await self._look_repeatedly([f"{topic}-" for topic in self._topics])
        for topic in self._topics:
            if topic not in view.partition_counts:
                raise await self._no_such_topic(topic)
        self.check_ids(view.topic_ids)
        return view

    async def look_at(self, prefixes: Sequence[str]) -> TierView:
        """The view of what is below these prefixes; it may lack topics, unlike that of `look`.

        For topics of whose names there is one id in the tier. Raises ScanError, RemoteStorageError.
        """
        return await self._look_repeatedly(prefixes)

    def check_ids(self, topic_ids: TopicIds) -> None:
        """Raise ScanError if a topic has another id than it should."""
        other = recreated_topic(self._topic_ids, topic_ids)
        if other is not None:
            raise ScanError(f"{self._where}: {other}")

    async def _look_repeatedly(self, prefixes: Sequence[str]) -> TierView:
        for _ in range(_LOOKS - 1):
            try:
                return await self._look(prefixes)
            except DamagedPartError:
                # Deleted since the listing, or damaged: only damage fails the last attempt too.
                continue
        try:
            return await self._look(prefixes)
        except DamagedPartError as error:
            raise ScanError(str(error)) from None

    async def _look(self, prefixes: Sequence[str]) -> TierView:
        listing = await self._listing(prefixes)
        survey = await survey_again(self._tier, listing, self._manifests, self._is_of_a_topic)
        for finding in survey.findings:
            if not self._may_pass_over(finding, survey):
                raise ScanError(f"{self._where}: {finding}")
        self._manifests = survey.manifests
        return await self._decide(survey)

    def _may_pass_over(self, finding: Finding, survey: Survey) -> bool:
        """Whether the scan may ignore a finding, because it is about a partition outside the scan.

        But the manifests of all partitions decide which of two topics with the same name was
        written to last. So if a topic has no readable manifest, no finding about it is ignored.
        """
        parsed = parse_object_key(finding.key)
        if parsed is None or self._wants(parsed.topic_id_partition):
            return False
        topic_id = parsed.topic_id_partition.topic_id
        return any(
            manifest.metadata.topic_id_partition.topic_id == topic_id
            for manifest in survey.manifests.values()
        )

    def _is_of_a_topic(self, segment: StoredSegment) -> bool:
        return segment.topic_id_partition.topic in self._topics

    def _wants(self, partition: TopicIdPartition) -> bool:
        if self._assigned:
            return partition.topic_partition in self._assigned
        return not self._partitions or partition.partition in self._partitions

    async def _listing(self, prefixes: Sequence[str]) -> Listing:
        """The objects below the prefixes, some of which may be of topics with longer names."""
        objects: list[TierObject] = []

        async def read(prefix: str) -> None:
            objects.extend(await self._tier.list(prefix))

        await in_parallel(prefixes, read, _LISTINGS_AT_ONCE)
        return sort_out(objects)

    async def _no_such_topic(self, topic: str) -> ScanError:
        keys = [parse_object_key(tier_object.key) for tier_object in await self._tier.list()]
        names = sorted({key.topic_id_partition.topic for key in keys if key is not None})
        if not names:
            return ScanError(f"There is no tier at {self._where}: no segment of any topic is there")
        if topic in names:
            return ScanError(f"The tier at {self._where} holds no whole segment of topic {topic!r}")
        shown = ", ".join(names[:_NAMED_AT_MOST])
        more = len(names) - _NAMED_AT_MOST
        return ScanError(
            f"The tier at {self._where} holds no topic {topic!r}; it holds {shown}"
            + (f" and {more} more" if more > 0 else "")
        )

    async def _decide(self, survey: Survey) -> TierView:
        newest = newest_topics(survey.manifests.values())
        lineages: dict[TopicPartition, TierLineage] = {}
        decided: dict[TopicIdPartition, tuple[frozenset[str], TierLineage]] = {}
        partitions = survey.partitions()
        shown = [each for each in partitions if newest.by_name[each.topic] == each.topic_id]
        for partition in filter(self._wants, shown):
            manifests = partitions[partition]
            stems = frozenset(object_stem(manifest.metadata) for manifest in manifests)
            before = self._decided.get(partition)
            if before is None or before[0] != stems:
                before = stems, await self._decide_partition(manifests)
            decided[partition] = before
            lineages[partition.topic_partition] = before[1]
        self._decided = decided
        counts = _partition_counts(survey.manifests, shown)
        topic_ids = {each.topic: each.topic_id for each in shown}
        return TierView(lineages, survey.manifests, counts, topic_ids)

    async def _decide_partition(self, manifests: list[Manifest]) -> TierLineage:
        segments = [manifest.metadata for manifest in manifests]
        tail = tail_of(segments)
        manifest = next(each for each in manifests if each.metadata is tail)
        try:
            history = parse_epochs(
                await read_part(self._tier, manifest, IndexType.LEADER_EPOCH.value)
            )
        except (DamagedPartError, MalformedCheckpointError) as error:
            key = object_key(tail, MANIFEST_SUFFIX).removesuffix(f".{MANIFEST_SUFFIX}")
            raise DamagedPartError(f"{self._where}: of segment {key}: {error}") from error
        return choose_lineage(segments, history)


def _partition_counts(
    manifests: Mapping[str, Manifest], partitions: Sequence[TopicIdPartition]
) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic_id, topic in {(partition.topic_id, partition.topic) for partition in partitions}:
        shown = 1 + max(partition.partition for partition in partitions if partition.topic == topic)
        description = description_of(
            manifest
            for manifest in manifests.values()
            if manifest.metadata.topic_id_partition.topic_id == topic_id
        )
        counts[topic] = max(shown, 0 if description is None else description.partitions)
    return counts

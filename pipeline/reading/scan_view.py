"""Looks at no more of a tier than one scan needs.

If a topic's name has one id in the tier, which a listing of its partitions' folders shows, only the
scan's partitions are looked at: inside their ranges if those are offsets (`partial_lineage.py`),
else at all their manifests. A damaged object that no range needs is then not noticed.

All manifests of the topic are read where they decide: if its name has several ids, to see which was
written to last; and if the options name a partition that has no segment, to see whether the topic
has it. A time needs all manifests of a partition, since timestamps need not grow with offsets, so
no search can leave out a segment unseen; `read_committed` does, since a transaction may end in any
later segment. What was read is kept for the next scans (`manifest_cache.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...tiering.store.object_keys import parse_partition_folder, partition_prefix
from ...tiering.tools.in_parallel import in_parallel
from .manifest_cache import TierLister
from .partial_lineage import OffsetWindow, PartialLineage, partial_lineage
from .scan_options import EARLIEST, LATEST, Bound, ScanOptions
from .tier_lineages import TierLineages, TierView

_PARTITIONS_AT_ONCE = 4


class _Folders(NamedTuple):
    """The partitions of every topic of this name that have an object in the tier."""

    topic: str
    partitions: Sequence[TopicIdPartition]
    are_alone: bool
    """Whether no other folder's name begins with the topic's and a hyphen."""

    def prefixes(self, chosen: frozenset[TopicIdPartition]) -> list[str]:
        """The prefixes of the keys of these partitions: one if they are all that there is."""
        if self.are_alone and chosen.issuperset(self.partitions):
            return [f"{self.topic}-"]
        return [f"{partition_prefix(each)}/" for each in self.partitions if each in chosen]


async def view_for(tier: TierLister, options: ScanOptions) -> TierView:
    """What a scan with these options needs of the tier. Raises ScanError, RemoteStorageError."""
    lineages = TierLineages.of(tier, options)
    folders = {topic: await _folders_of(tier, topic) for topic in options.topics}
    if any(len({each.topic_id for each in of.partitions}) != 1 for of in folders.values()):
        return await lineages.look()
    scanned = [
        each
        for of_topic in folders.values()
        for each in of_topic.partitions
        if options.chooses(each.topic_partition)
    ]
    partial: dict[TopicIdPartition, PartialLineage] = {}

    async def look(partition: TopicIdPartition) -> None:
        window = window_of(options, partition.topic_partition)
        if window is not None:
            part = await partial_lineage(tier, partition, window)
            if part is not None:
                partial[partition] = part

    await in_parallel(scanned, look, _PARTITIONS_AT_ONCE)
    whole = frozenset(scanned).difference(partial)
    prefixes = [prefix for of in folders.values() for prefix in of.prefixes(whole)]
    view = _joined(await lineages.look_at(prefixes), partial)
    if _needs_count(view, options):
        return await lineages.look()
    lineages.check_ids(view.topic_ids)
    return view


async def _folders_of(tier: TierLister, topic: str) -> _Folders:
    names = await tier.list_beginnings(f"{topic}-", "/")
    parsed = [parse_partition_folder(name.removesuffix("/")) for name in names]
    partitions = [each for each in parsed if each is not None and each.topic == topic]
    return _Folders(topic, partitions, len(partitions) == len(names))


def window_of(options: ScanOptions, partition: TopicPartition) -> OffsetWindow | None:
    """The offsets that a scan asks for in a partition; None if that is all, or not offsets."""
    if options.starting.by_time or options.ending.by_time or options.is_read_committed:
        return None
    first, end = (_place(bound, partition) for bound in (options.starting, options.ending))
    if first == EARLIEST and options.row_filter.first_offset > 0:
        first = options.row_filter.first_offset
    if end == LATEST and options.row_filter.end_offset < 2**63 - 1:
        end = options.row_filter.end_offset
    if first is None or end is None or (first, end) == (EARLIEST, LATEST):
        return None
    return None if first == LATEST or end == EARLIEST else OffsetWindow(first, end)


def _place(bound: Bound, partition: TopicPartition) -> int | None:
    return bound.each.get(partition) if bound.everywhere is None else bound.everywhere


def _joined(view: TierView, partial: dict[TopicIdPartition, PartialLineage]) -> TierView:
    lineages, manifests = dict(view.lineages), dict(view.manifests)
    counts, topic_ids = dict(view.partition_counts), dict(view.topic_ids)
    for partition, part in partial.items():
        lineages[partition.topic_partition] = part.lineage
        manifests.update(part.manifests)
        topic_ids[partition.topic] = partition.topic_id
        described = [each.topic.partitions for each in part.manifests.values() if each.topic]
        at_least = max((partition.partition + 1, *described))
        counts[partition.topic] = max(counts.get(partition.topic, 0), at_least)
    return TierView(lineages, manifests, counts, topic_ids)


def _needs_count(view: TierView, options: ScanOptions) -> bool:
    """Whether only all manifests of a topic can say if it has a partition that is named.

    Topics never lose partitions, so one manifest that says there are enough is enough.
    """
    named = {TopicPartition(topic, each) for topic in options.topics for each in options.partitions}
    named |= options.assigned
    for bound in (options.starting, options.ending):
        named |= {each for each in bound.each if each.topic in options.topics}
    counts = view.partition_counts
    return any(topic not in counts for topic in options.topics) or any(
        each.partition >= counts[each.topic] for each in named
    )

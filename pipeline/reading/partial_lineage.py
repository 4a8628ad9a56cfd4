"""The part of one partition's lineage that a range of offsets needs, from few requests.

A key holds a segment's start offset and newest leader epoch, but not its end, so keys alone say
neither which segment has an offset nor where the log ends. Read are, beside a listing that has one
entry a segment (`list_beginnings`), the manifests of

- the tail (`lineage_choice.py`): the highest epoch and, of that, the highest start offset with a
  manifest. Its checkpoint is the history that decides;
- the segment that starts last at or before the range, and all that start inside it.

From these alone the lineage is chosen as from all. It is used if they hold the whole range, without
a hole and without two segments that hold the same offsets. Everything else is left to a look at all
manifests of the partition, which also finds the words for what is wrong: an offset that the tier
does not hold, a hole, a damaged manifest, branches of an unclean election in the range.

Why the rows are the same: all complete segments that start inside the range are among those that
were read. One that was not read and holds an offset of the range starts before the range and holds
that offset in the same epoch, if the history lets it be read at all; and two copies of one offset
in one epoch hold the same record (KIP-101), so it does not matter which of them is read. Logs that
share their newest epoch share the history before it, so it does not matter either which segment of
that epoch is taken for the tail, except for where the log ends: for a range to the end, the segment
before the range is read as well, to see that it does not reach into the range.

Not seen are offsets above the range. So records that retention or DeleteRecords had deleted, and
whose objects are still there, may show where a look at everything sees that the log begins later.
"""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.remote.remote_lineage import EpochHistory
from ...tiering.remote_storage import IndexType
from ...tiering.store.manifest import Manifest
from ...tiering.store.object_keys import (
    MANIFEST_SUFFIX,
    object_stem,
    parse_object_key,
    partition_prefix,
)
from ...tiering.store.tier_store import TierObject
from ...tiering.tools.in_parallel import in_parallel
from ...tiering.tools.lineage_choice import TierLineage, choose_lineage, tail_of
from ...tiering.tools.stored_segments import StoredSegment, sort_out
from ...tiering.tools.tier_survey import WORKERS, DamagedPartError, read_part, survey_again
from .manifest_cache import TierLister
from .scan_options import EARLIEST, LATEST

FEW_SEGMENTS = 8
"""Of so few, a look at all of them costs no more requests than a search."""

_TRIES = 4
"""How many unfinished copies a search passes over before everything is looked at instead."""

_KEYS_PER_PAGE = 1000
_PARTS = 7
"""The most objects of a segment."""


class OffsetWindow(NamedTuple):
    """Offsets that a scan asks for; the end is exclusive."""

    first: int
    """Or EARLIEST."""
    end: int
    """Or LATEST."""


class PartialLineage(NamedTuple):
    """A lineage that is right inside a window, and the manifests of its segments."""

    lineage: TierLineage
    manifests: dict[str, Manifest]
    """By the stem of their keys."""


class _Stem(NamedTuple):
    """What the key of a segment's objects says, finished or not."""

    start_offset: int
    leader_epoch: int
    text: str


class _UndecidedError(Exception):
    """The manifests that were read do not decide."""


async def partial_lineage(
    tier: TierLister, partition: TopicIdPartition, window: OffsetWindow
) -> PartialLineage | None:
    """The lineage inside the window; None if all manifests of the partition have to decide.

    Raises RemoteStorageError if the store does not answer.
    """
    search = _Search(tier, partition)
    try:
        return await search.lineage(window)
    except (_UndecidedError, DamagedPartError, MalformedCheckpointError):
        return None


class _Search:
    """The manifests of one partition that were read, by the stem of their keys."""

    def __init__(self, tier: TierLister, partition: TopicIdPartition) -> None:
        self._tier = tier
        self._partition = partition
        self._folder = partition_prefix(partition) + "/"
        self._stems: list[_Stem] = []
        """By start offset."""
        self._looked_at: set[str] = set()
        self._manifests: dict[str, Manifest] = {}

    async def lineage(self, window: OffsetWindow) -> PartialLineage:
        self._stems = sorted(await self._list_stems())
        if len(self._stems) <= FEW_SEGMENTS:
            raise _UndecidedError
        history = await self._history()
        await self._read_window(window)
        manifests = sorted(self._manifests.values(), key=lambda each: each.metadata.start_offset)
        segments = [manifest.metadata for manifest in manifests]
        if any(one.end_offset >= other.start_offset for one, other in pairwise(segments)):
            raise _UndecidedError
        lineage = choose_lineage(segments, history)
        if not _holds(lineage, window):
            raise _UndecidedError
        return PartialLineage(lineage, self._manifests)

    async def _list_stems(self) -> list[_Stem]:
        stems: list[_Stem] = []
        for beginning in await self._tier.list_beginnings(self._folder, "."):
            key = parse_object_key(beginning + MANIFEST_SUFFIX)
            if key is not None and key.topic_id_partition == self._partition:
                text = beginning.removesuffix(".")
                stems.append(_Stem(key.start_offset, key.leader_epoch, text))
        return stems

    async def _history(self) -> EpochHistory:
        def age(stem: _Stem) -> tuple[int, int]:
            return stem.leader_epoch, stem.start_offset

        tails = await self._last_complete(self._stems, age)
        tail = tail_of([manifest.metadata for manifest in tails])
        manifest = self._manifests[object_stem(tail)]
        content = await read_part(self._tier, manifest, IndexType.LEADER_EPOCH.value)
        return parse_epochs(content)

    async def _read_window(self, window: OffsetWindow) -> None:
        """Read the manifests of all segments that may hold offsets of the window."""
        inside = self._stems
        if window.end != LATEST:
            inside = [stem for stem in inside if stem.start_offset < window.end]
        if window.first != EARLIEST:
            below = [stem for stem in inside if stem.start_offset <= window.first]
            begin = await self._last_start(below)
            inside = [stem for stem in inside if stem.start_offset >= begin]
            if window.end == LATEST:
                before = [stem for stem in below if stem.start_offset < begin]
                await self._last_start(before, at_least=0)
        await self._look_at(inside)

    async def _last_start(self, stems: Sequence[_Stem], at_least: int = 1) -> int:
        """The start offset of the complete segment that starts last."""
        if not stems and not at_least:
            return 0
        last = await self._last_complete(stems, lambda stem: (stem.start_offset,))
        return last[0].metadata.start_offset

    async def _last_complete(
        self, stems: Sequence[_Stem], order: Callable[[_Stem], tuple[int, ...]]
    ) -> list[Manifest]:
        """The manifests of the last in this order that are complete; several if they are equal."""
        ordered = sorted(stems, key=order, reverse=True)
        for tries, (_, group) in enumerate(groupby(ordered, order)):
            if tries == _TRIES:
                break
            equals = list(group)
            await self._look_at(equals)
            complete = [
                self._manifests[stem.text] for stem in equals if stem.text in self._manifests
            ]
            if complete:
                return complete
        raise _UndecidedError

    async def _look_at(self, stems: Sequence[_Stem]) -> None:
        """Read the manifests of these segments; those of unfinished copies are not there."""
        texts = {stem.text for stem in stems} - self._looked_at
        listing = sort_out(await self._objects_of(texts))

        def is_wanted(segment: StoredSegment) -> bool:
            return segment.stem in texts

        survey = await survey_again(self._tier, listing, {}, is_wanted)
        if survey.findings:
            raise _UndecidedError
        self._manifests.update(survey.manifests)
        self._looked_at |= texts

    async def _objects_of(self, texts: set[str]) -> list[TierObject]:
        if len(texts) > 1 + len(self._stems) * _PARTS // _KEYS_PER_PAGE:
            return await self._tier.list(self._folder)
        objects: list[TierObject] = []

        async def list_one(text: str) -> None:
            objects.extend(await self._tier.list(f"{text}."))

        await in_parallel(sorted(texts), list_one, min(len(texts), WORKERS))
        return objects


def _holds(lineage: TierLineage, window: OffsetWindow) -> bool:
    """Whether the lineage has every offset of the window."""
    first = lineage.log_start_offset if window.first == EARLIEST else window.first
    end = lineage.log_end_offset if window.end == LATEST else window.end
    if first == end == lineage.log_end_offset:
        return True
    offset = first
    for stretch in lineage.stretches:
        if stretch.first_offset <= offset < stretch.end_offset:
            offset = stretch.end_offset
    return first <= end <= offset and first < offset

"""Rules of manifests, lineages and rebuilds, each broken once, and what finds that.

A story of a bucket (`bucket_story.py`) has to complain of each: so it would of a mistake that
somebody makes there one day.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import pytest

from tierlog.storage.log.leader_epoch import EpochEntry, LeaderEpochCache
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.storage.remote.remote_lineage import Lineage, epoch_end_offsets
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation import bucket_replicas
from tierlog.tests.simulation.bucket_story import BucketStory
from tierlog.tests.simulation.bucket_truth import check
from tierlog.tiering.store.manifest import Manifest
from tierlog.tiering.task import segment_parts
from tierlog.tiering.tools import (
    lineage_choice,
    plan_rebuild as planning,
    producer_replay,
    rebuild_plan,
    segment_check,
    tier_survey,
)

Plant = Callable[[pytest.MonkeyPatch], None]
Loose: TypeAlias = Any
"""What the patched function gets or gives, which is handed on."""
_private: Callable[[object, str], Loose] = getattr


def demands_epochs_from_the_first_offset(patch: pytest.MonkeyPatch) -> None:
    """A segment in whose midst the log began counts as damaged."""
    original = _private(tier_survey, "_contradiction")

    def contradiction(segment: RemoteLogSegmentMetadata) -> Loose:
        if segment.segment_leader_epochs[0][1] != segment.start_offset:
            return "the leader epochs of the manifest do not match the offsets"
        return original(segment)

    patch.setattr(tier_survey, "_contradiction", contradiction)


def judges_batches_below_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """Batches of which the manifest has no epoch count as damaged."""
    patch.setattr(segment_check, "NO_EPOCH", -2)


def announces_the_first_epoch_alone(patch: pytest.MonkeyPatch) -> None:
    """The later epochs of a segment are not in its metadata."""
    original = LeaderEpochCache.entries_in_range

    def entries_in_range(self: LeaderEpochCache, start: int, end: int) -> list[EpochEntry]:
        return original(self, start, end)[:1]

    patch.setattr(LeaderEpochCache, "entries_in_range", entries_in_range)


def announces_deleted_offsets(patch: pytest.MonkeyPatch) -> None:
    """The epochs of a segment begin with it, though the log began in its midst."""
    original = LeaderEpochCache.entries_in_range

    def entries_in_range(self: LeaderEpochCache, start: int, end: int) -> list[EpochEntry]:
        first, *rest = original(self, start, end)
        return [first._replace(start_offset=start), *rest]

    patch.setattr(LeaderEpochCache, "entries_in_range", entries_in_range)


def stores_the_epochs_of_the_segment_alone(patch: pytest.MonkeyPatch) -> None:
    """The history beside a segment does not reach below it."""
    original = segment_parts.segment_facts

    def facts(*rest: Loose) -> Loose:
        found = original(*rest)
        return replace(found, epochs_up_to_end=found.segment_epochs)

    patch.setattr(bucket_replicas, "segment_facts", facts)


def keeps_epochs_below_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """The history of a log that begins later still tells of what was deleted."""

    def truncate_from_start(_: LeaderEpochCache, __: int) -> None:
        return None

    patch.setattr(LeaderEpochCache, "truncate_from_start", truncate_from_start)


def stores_no_producers(patch: pytest.MonkeyPatch) -> None:
    """The snapshot beside a segment is empty."""
    original = segment_parts.segment_facts

    def facts(*rest: Loose) -> Loose:
        return replace(original(*rest), producer_snapshot_path=None)

    patch.setattr(bucket_replicas, "segment_facts", facts)


def takes_what_lacks_a_part(patch: pytest.MonkeyPatch) -> None:
    """A segment without its log, or its index, counts as whole."""

    def missing_parts(*_: object) -> dict[str, str]:
        return {}

    patch.setattr(tier_survey, "missing_parts", missing_parts)


def takes_the_longest_branch(patch: pytest.MonkeyPatch) -> None:
    """The log ends with the highest offset, whoever wrote it."""

    def tail_of(segments: Sequence[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata:
        return max(segments, key=lambda each: (each.end_offset, each.event_timestamp_ms))

    patch.setattr(planning, "tail_of", tail_of)


def takes_the_copy_made_last(patch: pytest.MonkeyPatch) -> None:
    """The log ends with the youngest copy, which may be of its middle."""

    def tail_of(segments: Sequence[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata:
        return max(segments, key=lambda each: each.event_timestamp_ms)

    patch.setattr(planning, "tail_of", tail_of)


def reads_past_the_divergence(patch: pytest.MonkeyPatch) -> None:
    """An epoch of the log ends where the segment's does, not where the log's does."""
    original = epoch_end_offsets

    def ends(history: Loose, end: int) -> list[tuple[int, int]]:
        return [(epoch, 1 << 40) for epoch, _ in original(history, end)]

    patch.setattr(lineage_choice, "epoch_end_offsets", ends)


def begins_with_the_first_segment(patch: pytest.MonkeyPatch) -> None:
    """The log begins with the lowest offset of all, whether or not it can be read."""

    def first_readable(_: object, __: object, segments: Loose, at_least: int, end: int) -> int:
        starts: list[int] = [
            each.start_offset for each in segments if each.start_offset >= at_least
        ]
        return min([*starts, end])

    patch.setattr(lineage_choice, "_first_readable", first_readable)


def takes_what_was_deleted_for_a_hole(patch: pytest.MonkeyPatch) -> None:
    """A hole that ends where a log began stands in the way."""

    def deleted_below(_: object) -> None:
        return None

    patch.setattr(lineage_choice, "_deleted_below", deleted_below)


def starts_after_the_first_hole(patch: pytest.MonkeyPatch) -> None:
    """Of several holes, the first one is skipped."""

    def after(lineage: Loose) -> Loose:
        if not lineage.holes:
            return lineage
        return _private(lineage_choice, "_from_offset")(lineage, lineage.holes[0].last + 1)

    patch.setattr(planning, "after_last_hole", after)


def finds_the_segments_of_other_branches(patch: pytest.MonkeyPatch) -> None:
    """A gap is filled with whatever has its offsets."""

    def holds(self: Lineage, segment: RemoteLogSegmentMetadata, end: int) -> bool:
        return segment.end_offset < end

    patch.setattr(Lineage, "holds", holds)


def lets_one_topic_keep_back_another(patch: pytest.MonkeyPatch) -> None:
    """Nothing is restored if anything is wrong."""
    original = _private(planning, "_Planner").decide

    async def decide(self: Loose, *rest: Loose) -> None:
        await original(self, *rest)
        if self.plan.has_trouble:
            self.plan.topics = []

    patch.setattr(_private(planning, "_Planner"), "decide", decide)


def restores_over_a_hole(patch: pytest.MonkeyPatch) -> None:
    """A partition with a hole comes back, with the hole in it."""

    def after(lineage: Loose) -> Loose:
        return lineage

    patch.setattr(planning, "after_last_hole", after)


def asks_nobody_which_topic(patch: pytest.MonkeyPatch) -> None:
    """Of two topics with one name, the one written to last comes back, chosen or not."""
    original = rebuild_plan.newest_topics

    def newest(manifests: Iterable[Manifest], _: object = ()) -> Loose:
        return original(manifests)

    patch.setattr(planning, "newest_topics", newest)


def takes_the_oldest_configuration(patch: pytest.MonkeyPatch) -> None:
    """A topic comes back as it was made."""

    def description(manifests: Iterable[Manifest]) -> Loose:
        return min(manifests, key=lambda each: each.metadata.event_timestamp_ms).topic

    patch.setattr(planning, "description_of", description)


def forgets_lost_producers(patch: pytest.MonkeyPatch) -> None:
    """Where the snapshot of the tail is lost, nobody is known."""

    async def producers(*_: object) -> bytes:
        return encode_snapshot(())

    patch.setattr(planning, "producers_at_end", producers)


def replays_the_tail_alone(patch: pytest.MonkeyPatch) -> None:
    """Where the snapshot of the tail is lost, its own batches are all that is looked at."""
    original = producer_replay.producers_at_end

    async def producers(tier: Loose, lineage: Loose, manifests: Loose) -> bytes:
        only = replace(lineage, stretches=lineage.stretches[-1:])
        return await original(tier, only, manifests)

    patch.setattr(planning, "producers_at_end", producers)


def guesses_the_branch(patch: pytest.MonkeyPatch) -> None:
    """Where the history of the tail is lost, that of the tail's own offsets must do."""

    def derived(tail: RemoteLogSegmentMetadata, _: object) -> Loose:
        return tail.segment_leader_epochs

    patch.setattr(planning, "derived_history", derived)


BUCKET_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        demands_epochs_from_the_first_offset,
        judges_batches_below_the_log_start,
        announces_the_first_epoch_alone,
        announces_deleted_offsets,
        stores_the_epochs_of_the_segment_alone,
        keeps_epochs_below_the_log_start,
        stores_no_producers,
        takes_what_lacks_a_part,
        takes_the_longest_branch,
        takes_the_copy_made_last,
        reads_past_the_divergence,
        begins_with_the_first_segment,
        takes_what_was_deleted_for_a_hole,
        starts_after_the_first_hole,
        finds_the_segments_of_other_branches,
        lets_one_topic_keep_back_another,
        restores_over_a_hole,
        asks_nobody_which_topic,
        takes_the_oldest_configuration,
        forgets_lost_producers,
        replays_the_tail_alone,
        guesses_the_branch,
    )
}
"""By name."""


class Complaint(NamedTuple):
    """A seed whose story complains of a bug, and what it says."""

    seed: int
    error: BaseException


def find(name: str, seeds: Iterable[int]) -> Complaint | None:
    """The first seed whose story complains of a planted bug."""
    with pytest.MonkeyPatch.context() as patch:
        BUCKET_BUGS[name](patch)
        for seed in seeds:
            try:
                BucketStory(seed, check).run()
            except Exception as error:
                # Whatever a story says: a bug may end it in any way.
                return Complaint(seed, error)
    return None

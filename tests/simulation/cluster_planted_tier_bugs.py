"""Rules of the tier of a whole cluster, each broken once: see `cluster_planted_bugs.py`."""

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from tierlog.broker.tier.image_topics import ImageTopics, MemberTopics
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.follower.fetch_state import FollowedPartition
from tierlog.storage.log import unified_log
from tierlog.storage.log.log_retention import RetentionBounds
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.task import leader_term
from tierlog.tiering.task.copy_task import CopyTask
from tierlog.tiering.task.leader_term import LeaderTerm
from tierlog.tiering.task.partition_removal import PartitionRemovals

Plant = Callable[[pytest.MonkeyPatch], None]
Loose: TypeAlias = Any
"""What the patched function gets or gives, which is handed on."""
_private: Callable[[object, str], Loose] = getattr


def _yes(*_: object) -> bool:
    return True


def _nothing(*_: object, **__: object) -> None:
    return None


def finishes_before_the_upload_ends(patch: pytest.MonkeyPatch) -> None:
    """A copy counts, whether or not its objects have arrived."""
    original = _private(CopyTask, "_store")

    async def store(self: CopyTask, *rest: Loose) -> bytes | None:
        try:
            custom: bytes | None = await original(self, *rest)
        except RemoteStorageError:
            return None
        return custom

    patch.setattr(CopyTask, "_store", store)


def deletes_above_the_copied_offset(patch: pytest.MonkeyPatch) -> None:
    """Local segments go, whether or not they are in the tier."""

    def bounds(*fields: Loose) -> RetentionBounds:
        of_log = RetentionBounds(*fields)
        return of_log._replace(highest_remote_offset=of_log.high_watermark)

    patch.setattr(unified_log, "RetentionBounds", bounds)
    patch.setattr(UnifiedLog, "_may_be_deleted", _yes)


def keeps_the_copied_offset_of_an_old_term(patch: pytest.MonkeyPatch) -> None:
    """A leader takes what it has ever had for copied."""

    def copied_up_to(_: object, __: object, bounds: Loose) -> Loose:
        return bounds.local_log_start_offset + 40

    patch.setattr(leader_term, "copied_up_to", copied_up_to)


def copies_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A segment is copied before its records are on others."""

    def copy_candidates(self: UnifiedLog, from_offset: int) -> list[Loose]:
        return [each for each, _ in pairwise(self.local.segments.from_offset(from_offset))]

    patch.setattr(UnifiedLog, "copy_candidates", copy_candidates)


def cleans_up_finished_copies(patch: pytest.MonkeyPatch) -> None:
    """A leader takes every copy that it did not make for an unfinished one."""
    original = _private(CopyTask, "_clean_up")

    async def clean_up(self: CopyTask, log: UnifiedLog, remote: RemoteLog) -> None:
        await original(self, log, remote)
        attempts = _private(self, "_attempts")
        for epoch in [entry.epoch for entry in log.leader_epochs.entries][:-1]:
            for metadata in remote.segments_for_epoch(epoch):
                if metadata.id not in attempts and metadata.broker_id != _broker_of(self):
                    await _private(self, "_delete")(metadata)

    patch.setattr(CopyTask, "_clean_up", clean_up)


def _broker_of(task: CopyTask) -> Loose:
    return _private(task, "_tools").deletion.broker_id


def deletes_what_it_has_not_heard_of(patch: pytest.MonkeyPatch) -> None:
    """A topic that is not in the image counts as deleted, at once."""
    original = _private(PartitionRemovals, "look")

    def look(self: PartitionRemovals, *rest: Loose) -> Loose:
        patience = _private(self, "_patience")
        vars(self)["_patience"] = patience._replace(gone=0)
        return original(self, *rest)

    def was_deleted(self: MemberTopics, topic_id: Uuid) -> bool:
        return topic_id not in self.image().topics_by_id

    def watched_partitions(self: MemberTopics) -> Collection[int] | None:
        return ImageTopics.watched_partitions(self)

    patch.setattr(PartitionRemovals, "look", look)
    patch.setattr(MemberTopics, "was_deleted", was_deleted)
    patch.setattr(MemberTopics, "watched_partitions", watched_partitions)


def removes_nothing_of_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """The objects of a deleted topic stay for ever."""

    def look(*_: object) -> list[Loose]:
        return []

    patch.setattr(PartitionRemovals, "look", look)


def truncates_before_aux_is_at_hand(patch: pytest.MonkeyPatch) -> None:
    """A follower empties its log as soon as it hears that the rest is in the tier."""
    original = _private(FollowedPartition, "fetched")

    def fetched(self: FollowedPartition, ask: Loose, answer: Loose, *times: Loose) -> bool:
        if answer.error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self.log.truncate_fully_and_start_at(0)
        is_used: bool = original(self, ask, answer, *times)
        return is_used

    patch.setattr(FollowedPartition, "fetched", fetched)


def leads_on_in_the_tier(patch: pytest.MonkeyPatch) -> None:
    """Who has ceased to lead goes on to copy and to delete."""
    patch.setattr(LeaderTerm, "is_current", property(_yes))
    patch.setattr(LeaderTerm, "end", _nothing)


TIER_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        finishes_before_the_upload_ends,
        deletes_above_the_copied_offset,
        keeps_the_copied_offset_of_an_old_term,
        copies_what_is_not_committed,
        cleans_up_finished_copies,
        deletes_what_it_has_not_heard_of,
        removes_nothing_of_deleted_topics,
        truncates_before_aux_is_at_hand,
        leads_on_in_the_tier,
    )
}
"""By name."""

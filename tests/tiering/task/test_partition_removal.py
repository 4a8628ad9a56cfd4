"""Whose task the removal of a deleted partition is, and when: every case of the decision."""

from collections.abc import Collection

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import Applied, RemoteLog
from tierlog.storage.remote.remote_segment import RemotePartitionDeleteState
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.task.partition_removal import PartitionRemovals, Patience, Removal, RemovalStep

MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

PARTITION = TopicIdPartition(Uuid(b"topic id, 16 by."), "orders", 0)
PATIENCE = Patience(gone=60, takeover=1000)
HERE, THERE = 1, 2


class Topics:
    """A cluster in whose metadata log it stands that the topics of these ids were deleted."""

    def __init__(self, *deleted: Uuid) -> None:
        self.deleted = deleted

    def has_metadata_topic(self) -> bool:
        return True

    def watched_partitions(self) -> Collection[int] | None:
        return None

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        """All is on record."""

    def was_deleted(self, topic_id: Uuid) -> bool:
        return topic_id in self.deleted


DELETED = Topics(PARTITION.topic_id)


def remote_log(segments: int, *steps: tuple[RemotePartitionDeleteState, int]) -> RemoteLog:
    remote = RemoteLog(PARTITION)
    for number in range(1, segments + 1):
        remote.apply_copy_started(segment_metadata(number, partition=PARTITION))
    for state, broker_id in steps:
        assert remote.apply_partition_delete(state, broker_id) is Applied.YES
    return remote


def removals() -> PartitionRemovals:
    return PartitionRemovals(HERE, PATIENCE)


@pytest.mark.parametrize(
    ("steps", "segments", "unmoved", "expected"),
    [
        # Its own are taken up at once, at whatever point they were left.
        ([(MARKED, HERE)], 2, 0, RemovalStep.REMOVE),
        ([(MARKED, HERE)], 0, 0, RemovalStep.REMOVE),
        ([(MARKED, HERE), (STARTED, HERE)], 2, 0, RemovalStep.REMOVE),
        # Those of another only once nothing has moved for long.
        ([(MARKED, THERE)], 2, 999, None),
        ([(MARKED, THERE)], 2, 1000, RemovalStep.REMOVE),
        ([(MARKED, THERE), (STARTED, THERE)], 2, 999, None),
        # A minute longer where it only waits for uploads that arrive late.
        ([(MARKED, THERE), (STARTED, THERE)], 0, 1059, None),
        ([(MARKED, THERE), (STARTED, THERE)], 0, 1060, RemovalStep.REMOVE),
        # Who was first to mark, or last to take over, has it.
        ([(MARKED, HERE), (MARKED, THERE)], 2, 0, RemovalStep.REMOVE),
        ([(MARKED, THERE), (MARKED, HERE)], 2, 0, None),
        ([(MARKED, THERE), (STARTED, THERE), (STARTED, HERE)], 2, 0, RemovalStep.REMOVE),
        ([(MARKED, HERE), (STARTED, HERE), (STARTED, THERE)], 2, 0, None),
        # After the end nothing is done, but for segments that were told of late.
        ([(MARKED, HERE), (STARTED, HERE), (FINISHED, HERE)], 0, 9999, None),
        ([(MARKED, HERE), (STARTED, HERE), (FINISHED, HERE)], 1, 999, None),
        ([(MARKED, HERE), (STARTED, HERE), (FINISHED, HERE)], 1, 1000, RemovalStep.SWEEP),
        ([(MARKED, THERE), (STARTED, THERE), (FINISHED, THERE)], 1, 1999, None),
        ([(MARKED, THERE), (STARTED, THERE), (FINISHED, THERE)], 1, 2000, RemovalStep.SWEEP),
    ],
)
def test_whose_removal_it_is(
    steps: list[tuple[RemotePartitionDeleteState, int]],
    segments: int,
    unmoved: float,
    expected: RemovalStep | None,
) -> None:
    """(KAFKA-15313)"""
    remote, decisions = remote_log(segments, *steps), removals()
    first = decisions.look([remote], DELETED, 50)
    found = decisions.look([remote], DELETED, 50 + unmoved) if unmoved else first
    assert found == ([] if expected is None else [Removal(PARTITION, expected)])


def test_a_removal_that_moves_is_not_taken_over() -> None:
    remote, decisions = remote_log(3, (MARKED, THERE), (STARTED, THERE)), removals()
    assert decisions.look([remote], DELETED, 0) == []
    remote.apply_copy_started(segment_metadata(9, partition=PARTITION))
    assert decisions.look([remote], DELETED, 1000) == []
    assert decisions.look([remote], DELETED, 1999) == []
    assert decisions.look([remote], DELETED, 2000) == [Removal(PARTITION, RemovalStep.REMOVE)]


def test_a_topic_whose_deletion_nobody_marked_is_marked_after_a_grace() -> None:
    remote, decisions = remote_log(1), removals()
    assert decisions.look([remote], DELETED, 0) == []
    assert decisions.look([remote], DELETED, 59) == []
    assert decisions.look([remote], DELETED, 60) == [Removal(PARTITION, RemovalStep.MARK)]


@pytest.mark.parametrize("topics", [None, Topics()])
def test_a_topic_that_the_cluster_has_not_heard_of_is_not_a_deleted_one(
    topics: Topics | None,
) -> None:
    """Its record may not have come to this broker yet."""
    decisions = removals()
    for now in (0, 1000, 100_000):
        assert decisions.look([remote_log(1)], topics, now) == []
    assert not decisions.unproven


@pytest.mark.parametrize(
    "steps",
    [
        [(MARKED, HERE)],
        [(MARKED, HERE), (STARTED, HERE)],
        [(MARKED, HERE), (STARTED, HERE), (FINISHED, HERE)],
    ],
)
@pytest.mark.parametrize("topics", [None, Topics()])
def test_an_event_alone_deletes_nothing(
    steps: list[tuple[RemotePartitionDeleteState, int]], topics: Topics | None
) -> None:
    decisions = removals()
    for now in (0, 1000, 100_000):
        assert decisions.look([remote_log(2, *steps)], topics, now) == []
    assert decisions.unproven == {PARTITION}


def test_a_partition_without_segments_needs_no_removal() -> None:
    decisions = removals()
    for now in (0, 1000):
        assert decisions.look([remote_log(0)], DELETED, now) == []


def test_a_topic_made_again_under_its_name_is_another() -> None:
    """Names play no part: only the old id was deleted (KAFKA-17020)."""
    again = PARTITION._replace(topic_id=Uuid(b"another id, 16b."))
    living = RemoteLog(again)
    living.apply_copy_started(segment_metadata(1, partition=again))
    decisions = removals()
    assert decisions.look([remote_log(1), living], DELETED, 0) == []
    due = decisions.look([remote_log(1), living], DELETED, 60)
    assert due == [Removal(PARTITION, RemovalStep.MARK)]

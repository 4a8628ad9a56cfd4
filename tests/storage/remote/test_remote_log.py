"""RemoteLog answers as Kafka's RemoteLogMetadataCache does, and better where segments overlap."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import Applied, RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)

PARTITION = TopicIdPartition(Uuid(b"T" * 16), "orders", 0)
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def segment(
    number: int, start: int, end: int, epochs: dict[int, int], *, txn_index_empty: bool = False
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, Uuid(number.to_bytes(16, "big"))),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=0,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_bytes=end - start + 1,
        segment_leader_epochs=tuple(epochs.items()),
        txn_index_empty=txn_index_empty,
    )


def move(
    log: RemoteLog, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
) -> Applied:
    return log.apply_update(
        RemoteLogSegmentMetadataUpdate(
            segment_id=metadata.segment_id, event_timestamp_ms=1, state=state, broker_id=0
        )
    )


def log_of(*segments: RemoteLogSegmentMetadata) -> RemoteLog:
    log = RemoteLog(PARTITION)
    for each in segments:
        assert log.apply_copy_started(each) is Applied.YES
        assert move(log, each, FINISHED) is Applied.YES
    return log


def found(log: RemoteLog, epoch: int, offset: int) -> int | None:
    metadata = log.segment_for(epoch, offset)
    return None if metadata is None else int.from_bytes(metadata.id, "big")


LIFECYCLE = (
    segment(0, 0, 100, {0: 0, 1: 20, 2: 80}),
    segment(1, 101, 200, {2: 101}),
    segment(2, 201, 300, {2: 201, 3: 240}),
    segment(3, 250, 400, {3: 250, 4: 370}),
)


@pytest.mark.scenario("4.9")
def test_lookup_finds_the_segment_of_the_epoch() -> None:
    log = log_of(*LIFECYCLE)
    answers = {
        (1, 40): 0,
        (2, 110): 1,
        (3, 240): 2,
        (3, 250): 3,
        (4, 375): 3,
        (1, 110): None,
        (4, 401): None,
        (5, 301): None,
    }
    assert {key: found(log, *key) for key in answers} == answers


@pytest.mark.scenario("4.9")
def test_highest_offset_of_an_epoch_outlives_its_segments() -> None:
    log = log_of(*LIFECYCLE)
    highest = [log.highest_offset_for_epoch(epoch) for epoch in range(6)]
    assert highest == [19, 79, 239, 369, 400, None]
    move(log, LIFECYCLE[0], DELETING)
    move(log, LIFECYCLE[0], DELETED)
    assert log.highest_offset_for_epoch(0) == 19


@pytest.mark.scenario("4.9")
def test_a_segment_is_read_only_between_copy_finished_and_delete_started() -> None:
    log = RemoteLog(PARTITION)
    each = segment(7, 0, 9, {0: 0})
    seen: list[tuple[int | None, int, int]] = []

    def look() -> None:
        seen.append((found(log, 0, 5), len(log.segments_for_epoch(0)), log.finished_bytes))

    log.apply_copy_started(each)
    look()
    for state in (FINISHED, DELETING, DELETED):
        assert move(log, each, state) is Applied.YES
        look()
    assert seen == [(None, 1, 0), (7, 1, 10), (None, 1, 0), (None, 0, 0)]
    assert len(log) == 0


def test_events_may_repeat() -> None:
    log = log_of(*LIFECYCLE)
    for each in LIFECYCLE:
        assert move(log, each, FINISHED) is Applied.YES
    assert found(log, 3, 250) == 3
    assert log.finished_bytes == 101 + 100 + 100 + 151


def test_an_announcement_may_repeat_only_before_the_copy_ends() -> None:
    log = RemoteLog(PARTITION)
    each = segment(1, 0, 9, {0: 0})
    assert log.apply_copy_started(each) is Applied.YES
    assert log.apply_copy_started(each) is Applied.YES
    move(log, each, FINISHED)
    assert log.apply_copy_started(each) is Applied.INVALID_TRANSITION
    assert found(log, 0, 3) == 1


@pytest.mark.scenario("4.9")
def test_what_the_state_machine_does_not_allow_changes_nothing() -> None:
    log = log_of(*LIFECYCLE)
    move(log, LIFECYCLE[1], DELETING)
    assert move(log, LIFECYCLE[1], FINISHED) is Applied.INVALID_TRANSITION
    assert move(log, LIFECYCLE[0], DELETED) is Applied.INVALID_TRANSITION
    assert found(log, 2, 110) is None
    assert found(log, 0, 10) == 0


def test_an_update_of_an_unknown_segment_is_reported() -> None:
    log = log_of()
    assert move(log, segment(9, 0, 1, {0: 0}), FINISHED) is Applied.UNKNOWN_SEGMENT


def test_a_failed_copy_leaves_without_ever_being_readable() -> None:
    log = RemoteLog(PARTITION)
    each = segment(1, 0, 9, {0: 0})
    log.apply_copy_started(each)
    assert move(log, each, DELETING) is Applied.YES
    assert move(log, each, DELETED) is Applied.YES
    assert log.highest_offset_for_epoch(0) is None
    assert log.segments() == []


def test_a_segment_that_covers_the_end_of_an_epoch_makes_the_covered_ones_unreferenced() -> None:
    covered = [segment(1, 10, 19, {0: 10}), segment(2, 20, 29, {0: 20})]
    log = log_of(segment(0, 0, 9, {0: 0}), *covered, segment(3, 5, 40, {0: 5}))
    assert [found(log, 0, offset) for offset in (4, 5, 15, 25, 40)] == [0, 3, 3, 3, 3]
    assert len(log.segments_for_epoch(0)) == 4


def test_a_late_shorter_copy_does_not_hide_the_longer_one() -> None:
    long, short = segment(1, 0, 99, {0: 0}), segment(2, 0, 49, {0: 0})
    inside = segment(3, 60, 69, {0: 60})
    log = log_of(long, short, inside)
    assert [found(log, 0, offset) for offset in (10, 55, 65, 80)] == [1, 1, 3, 1]


def test_what_was_covered_is_read_again_once_the_cover_is_deleted() -> None:
    long, short = segment(1, 0, 99, {0: 0}), segment(2, 0, 49, {0: 0})
    log = log_of(long, short)
    move(log, long, DELETING)
    assert [found(log, 0, offset) for offset in (10, 55)] == [2, None]


@pytest.mark.scenario("3.5")
def test_scenario_5_both_branches_stay_reachable_by_their_epochs() -> None:
    log = log_of(
        segment(1, 0, 3, {0: 0}), segment(2, 0, 3, {0: 0, 1: 2}), segment(3, 4, 5, {0: 4, 2: 5})
    )
    assert found(log, 0, 2) == 1
    assert found(log, 1, 3) == 2
    assert [found(log, 0, 4), found(log, 2, 5)] == [3, 3]


def test_a_partition_is_marked_before_its_removal_starts() -> None:
    log = RemoteLog(PARTITION)
    steps = [
        (RemotePartitionDeleteState.DELETE_PARTITION_STARTED, Applied.INVALID_TRANSITION),
        (RemotePartitionDeleteState.DELETE_PARTITION_MARKED, Applied.YES),
        (RemotePartitionDeleteState.DELETE_PARTITION_STARTED, Applied.YES),
        (RemotePartitionDeleteState.DELETE_PARTITION_MARKED, Applied.INVALID_TRANSITION),
        (RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, Applied.YES),
    ]
    assert [log.apply_partition_delete(state) for state, _ in steps] == [end for _, end in steps]
    assert log.partition_delete_state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from([FINISHED, DELETING])),
    max_size=12,
)


@given(RANGES)
def test_an_offset_is_found_exactly_if_a_finished_segment_holds_it(
    ranges: list[tuple[int, int, RemoteLogSegmentState]],
) -> None:
    log = RemoteLog(PARTITION)
    readable: list[RemoteLogSegmentMetadata] = []
    for number, (start, length, last_state) in enumerate(ranges):
        each = segment(number, start, start + length, {0: start})
        log.apply_copy_started(each)
        move(log, each, FINISHED)
        readable.append(each)
        if last_state is DELETING:
            move(log, each, DELETING)
            readable.remove(each)
    for offset in range(92):
        holders = {each.id for each in readable if each.start_offset <= offset <= each.end_offset}
        answer = log.segment_for(0, offset)
        assert (answer is not None) == bool(holders)
        assert answer is None or answer.id in holders
    assert log.finished_bytes == sum(each.segment_size_bytes for each in readable)

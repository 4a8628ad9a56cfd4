"""How a leader answers fetches, at once or later, and what it knows of its quorum."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.replication.raft.leading import diverging_or_snapshot
from tierlog.replication.raft.raft_actions import HighWatermark
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from tierlog.replication.raft.raft_state import Resigned
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.raft.members import (
    CLUSTER,
    Batch,
    Member,
    MemoryLog,
    quorum_of,
    voters_of,
)

SNAPSHOT = OffsetAndEpoch(1, 1)


def leader_of_three() -> tuple[Member, list[int]]:
    """A leader of epoch 1 with one committed record, and the two others' ids; all else is cut."""
    quorum = quorum_of(3)
    leader = quorum.leader()
    leader.now_ms = quorum.now_ms
    # The fetches of the real followers are gone.
    leader.leader_state().waiting.clear()
    return leader, [each for each in (1, 2, 3) if each != leader.node_id]


def fetch(replica_id: int, offset: int = 1, **more: int) -> FetchRequest:
    request = FetchRequest(CLUSTER, replica_id, ZERO_UUID, 1, offset, 1, max_wait_ms=500)
    return request._replace(**more)  # type: ignore[arg-type]  # fields by their names


def test_records_are_sent_at_once() -> None:
    leader, (one, _) = leader_of_three()
    leader.append("a", "b")
    response = leader.ask(fetch(one))
    assert isinstance(response, FetchResponse)
    assert [batch.base_offset for batch in response.records] == [1, 2]
    assert (response.leader_id, response.leader_epoch) == (leader.node_id, 1)
    assert (response.high_watermark, response.log_start_offset) == (1, 0)


def test_a_fetch_at_the_end_waits_for_records() -> None:
    leader, (one, _) = leader_of_three()
    token = object()
    leader.perform(leader.core.handle_request(token, fetch(one), leader.now_ms))
    assert leader.response_to(token) is None
    leader.append("a")
    response = leader.response_to(token)
    assert isinstance(response, FetchResponse)
    assert len(response.records) == 1


def test_a_fetch_at_the_end_waits_for_the_high_watermark() -> None:
    """KIP-1166: who knows the old one hears of the new one at once."""
    leader, (one, other) = leader_of_three()
    leader.append("a")
    token = object()
    waits = fetch(one, 2, high_watermark=1)
    leader.holds_flushes = True
    leader.append("b")
    leader.ask(fetch(one, 3, high_watermark=1, max_wait_ms=0))
    leader.perform(leader.core.handle_request(token, waits._replace(fetch_offset=3), leader.now_ms))
    # The first fetch at 2 has committed "a" already.
    assert leader.high_watermark == 2
    response = leader.response_to(token)
    assert isinstance(response, FetchResponse)
    assert response.high_watermark == 2
    again = object()
    leader.perform(
        leader.core.handle_request(again, fetch(one, 3, high_watermark=2), leader.now_ms)
    )
    assert leader.response_to(again) is None
    leader.ask(fetch(other, 3, high_watermark=0))
    response = leader.response_to(again)
    assert isinstance(response, FetchResponse)
    assert response.high_watermark == 3


@pytest.mark.parametrize(("wait_ms", "high_watermark"), [(0, 1), (500, 0)])
def test_a_fetch_without_wait_or_behind_the_high_watermark_does_not_wait(
    wait_ms: int, high_watermark: int
) -> None:
    leader, (one, _) = leader_of_three()
    response = leader.ask(fetch(one, max_wait_ms=wait_ms, high_watermark=high_watermark))
    assert isinstance(response, FetchResponse)
    assert response.high_watermark == 1


def test_a_replica_waits_once() -> None:
    leader, (one, _) = leader_of_three()
    first, second = object(), object()
    leader.perform(leader.core.handle_request(first, fetch(one), leader.now_ms))
    leader.perform(leader.core.handle_request(second, fetch(one), leader.now_ms))
    assert leader.response_to(first) is not None
    assert leader.response_to(second) is None
    assert len(leader.leader_state().waiting) == 1


def test_who_waits_is_sent_to_the_next_leader() -> None:
    leader, (one, other) = leader_of_three()
    token = object()
    leader.perform(leader.core.handle_request(token, fetch(one), leader.now_ms))
    leader.ask(BeginQuorumEpochRequest(CLUSTER, leader.node_id, ZERO_UUID, other, 2))
    response = leader.response_to(token)
    assert response is not None
    assert response.partition_error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (response.leader_id, response.leader_epoch) == (other, 2)


def test_a_position_that_is_not_in_the_log_says_nothing_about_the_replica() -> None:
    """KAFKA-13141: a diverging fetch moved the high watermark."""
    leader, (one, other) = leader_of_three()
    leader.append("a")
    for offset, last_fetched_epoch in ((2, 0), (7, 1)):
        response = leader.ask(fetch(one, offset, last_fetched_epoch=last_fetched_epoch))
        assert isinstance(response, FetchResponse)
        assert response.diverging_epoch is not None
    assert leader.high_watermark == 1
    leader.ask(fetch(other, 2, max_wait_ms=0))
    assert leader.high_watermark == 2


def test_what_is_not_synced_here_counts_when_two_others_have_it() -> None:
    leader, (one, other) = leader_of_three()
    leader.holds_flushes = True
    leader.append("a")
    leader.ask(fetch(one, 2, max_wait_ms=0))
    assert leader.high_watermark == 1
    leader.ask(fetch(other, 2, max_wait_ms=0))
    assert leader.high_watermark == 2


def test_a_fetch_of_a_snapshot_keeps_the_leader() -> None:
    leader, (one, _) = leader_of_three()
    leader.log.snapshots[SNAPSHOT] = b"0123456789"
    leader.now_ms += 500
    request = FetchSnapshotRequest(CLUSTER, one, ZERO_UUID, 1, SNAPSHOT, 4, 3)
    response = leader.ask(request)
    assert isinstance(response, FetchSnapshotResponse)
    assert (response.size, response.position, response.unaligned_records) == (10, 4, b"456")
    assert leader.leader_state().progress.check_quorum_deadline_ms == leader.now_ms + 3000


def log_with_snapshot() -> MemoryLog:
    """Offsets 4 and 5 of epoch 3, 6 of epoch 5; the log starts at the snapshot 4-2."""
    log = MemoryLog([Batch(4, 3), Batch(5, 3), Batch(6, 5)], 4, 7)
    log.snapshots = {OffsetAndEpoch(4, 2): b"old", OffsetAndEpoch(6, 3): b"new"}
    return log


LATEST = OffsetAndEpoch(6, 3)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        # An empty log is always sent to the latest snapshot.
        (0, 0, (None, LATEST)),
        # Below the start, or at it with another history, or of an epoch before the snapshot.
        (3, 2, (None, LATEST)),
        (4, 1, (None, LATEST)),
        (5, 1, (None, LATEST)),
        (4, 2, (None, None)),
        (5, 3, (None, None)),
        (6, 3, (None, None)),
        (7, 5, (None, None)),
        # Beyond the epoch's end, of an epoch that is not here, beyond the log.
        (7, 3, (OffsetAndEpoch(6, 3), None)),
        (6, 4, (OffsetAndEpoch(6, 3), None)),
        (8, 5, (OffsetAndEpoch(7, 5), None)),
        (8, 9, (OffsetAndEpoch(7, 5), None)),
    ],
)
def test_where_a_position_stands_to_the_log(
    offset: int, epoch: int, expected: tuple[OffsetAndEpoch | None, OffsetAndEpoch | None]
) -> None:
    assert diverging_or_snapshot(log_with_snapshot(), offset, epoch) == expected


def test_an_empty_log_begins_with_the_first_record_if_there_is_no_snapshot_to_load() -> None:
    log = MemoryLog([Batch(0, 3)])
    assert diverging_or_snapshot(log, 0, 0) == (None, None)
    log.snapshots = {OffsetAndEpoch(0, 0): b"bootstrap"}
    assert diverging_or_snapshot(log, 0, 0) == (None, None)


def test_the_leader_describes_the_quorum() -> None:
    leader, (one, other) = leader_of_three()
    leader.append("a")
    leader.ask(fetch(one, 2, max_wait_ms=0))
    leader.ask(fetch(9, 1, max_wait_ms=0))
    description = leader.core.describe_quorum(leader.now_ms)
    assert (description.leader_id, description.leader_epoch) == (leader.node_id, 1)
    assert description.high_watermark == 2
    ends = {each.replica_id: each.log_end_offset for each in description.current_voters}
    assert ends == {leader.node_id: 2, one: 2, other: 1}
    assert [each.replica_id for each in description.observers] == [9]
    own = next(each for each in description.current_voters if each.replica_id == leader.node_id)
    assert own.last_fetch_timestamp == own.last_caught_up_timestamp == leader.now_ms


def test_a_description_does_not_take_the_high_watermark_from_who_waits_for_it() -> None:
    leader, (one, _) = leader_of_three()
    leader.log.append(1, "a")
    leader.ask(fetch(one, 2, max_wait_ms=0))
    # The record is on the disk, but the core has not heard of it yet.
    leader.log.flushed_offset = 2
    leader.core.describe_quorum(leader.now_ms)
    assert HighWatermark(2) in leader.flush()


def test_only_the_leader_describes_the_quorum() -> None:
    member = Member(1, voters_of(1, 2, 3))
    member.start()
    description = member.core.describe_quorum(0)
    assert description.partition_error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert description.leader_id == -1


def test_the_controller_resigns_only_from_the_epoch_that_it_means() -> None:
    leader, _ = leader_of_three()
    leader.perform(leader.core.resign(0, leader.now_ms))
    assert leader.core.is_leader
    leader.perform(leader.core.resign(1, leader.now_ms))
    assert isinstance(leader.state, Resigned)


def test_a_leader_hears_of_a_later_one_in_an_answer_to_its_own_request() -> None:
    leader, (one, other) = leader_of_three()
    leader.sent.clear()
    leader.at(leader.now_ms + 1000)
    send = next(send for send in leader.sent if send.destination.node_id == one)
    assert isinstance(send.request, BeginQuorumEpochRequest)
    error = ErrorCode.FENCED_LEADER_EPOCH
    leader.answer(send, BeginQuorumEpochResponse(ErrorCode.NONE, error, other, 2))
    assert leader.core.leader_id == other

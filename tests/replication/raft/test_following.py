"""How a node fetches, and what each response does to it and to its log."""

from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft_actions import Send
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NodeEndpoint,
)
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.raft_state import Role
from tierlog.replication.raft.voter_set import VoterSet
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.raft.members import (
    CLUSTER,
    CONTROLLER,
    Batch,
    Member,
    MemoryLog,
    address_of,
    kinds,
    voters_of,
)

E = ErrorCode
EPOCH = 5


def log_of(*epochs: int) -> MemoryLog:
    """A synced log with one record of each epoch."""
    log = MemoryLog()
    for epoch in epochs:
        log.append(epoch, f"record {log.end_offset}")
    log.flushed_offset = log.end_offset
    return log


def follower(log: MemoryLog | None = None, *, node_id: int = 1) -> Member:
    """A follower of node 2 in epoch 5."""
    member = Member(
        node_id, voters_of(1, 2, 3), persisted=ElectionState(EPOCH, 2), log=log or log_of(1, 1, 2)
    )
    member.start()
    return member


def pending(member: Member) -> Send:
    """The only request in flight."""
    (send,) = member.sent
    return send


def answer(member: Member, response: FetchResponse | FetchSnapshotResponse) -> list[str]:
    return kinds(member.answer(pending(member), response))


FROM_2 = FetchResponse(leader_id=2, leader_epoch=EPOCH)


@pytest.fixture
def member() -> Member:
    return follower()


def test_a_fetch_says_where_the_log_ends_and_what_is_committed(member: Member) -> None:
    assert pending(member).destination == (2, address_of(2))
    assert pending(member).request == FetchRequest(
        CLUSTER, 1, ZERO_UUID, EPOCH, 3, 2, high_watermark=-1, max_wait_ms=500
    )
    answer(member, FROM_2._replace(high_watermark=2))
    request = pending(member).request
    assert isinstance(request, FetchRequest)
    assert request.high_watermark == 2


def test_a_node_that_is_named_as_a_leader_it_never_was_says_why_it_ends() -> None:
    member = Member(1, voters_of(1, 2, 3), log=log_of())
    member.start()
    answer(member, FetchResponse(leader_id=1, leader_epoch=EPOCH))
    assert member.fatal is not None
    assert "another process has the same node.id" in member.fatal


def test_one_fetch_is_in_flight_whatever_happens(member: Member) -> None:
    for now_ms in range(0, 1900, 100):
        member.at(now_ms)
        member.perform(member.core.handle_log_changed(now_ms))
    assert len(member.sent) == 1


def test_a_voter_syncs_what_it_appended_before_it_fetches_again(member: Member) -> None:
    member.holds_flushes = True
    batches = (Batch(3, EPOCH),)
    assert answer(member, FROM_2._replace(records=batches)) == ["AppendFetched", "Flush"]
    assert not member.sent
    member.flush()
    request = pending(member).request
    assert isinstance(request, FetchRequest)
    assert request.fetch_offset == 4


def test_a_voter_syncs_first_of_all_what_it_found_unsynced() -> None:
    log = log_of(1, 1)
    log.append(2, "unsynced")
    assert [kind for kind in kinds(follower(log).actions) if kind in ("Flush", "Send")] == [
        "Flush",
        "Send",
    ]


def test_an_observer_without_a_vote_ever_does_not_sync() -> None:
    options = RaftOptions(9, cluster_id=CLUSTER, can_be_voter=False)
    member = Member(9, voters_of(1, 2, 3), persisted=ElectionState(EPOCH, 2), options=options)
    member.start()
    assert answer(member, FROM_2._replace(records=(Batch(0, EPOCH),))) == ["AppendFetched", "Send"]


def test_who_follows_nobody_asks_the_other_voters_in_turn() -> None:
    member = Member(1, voters_of(1, 2, 3))
    member.start()
    asked = set[str]()
    for now_ms in range(50, 900, 50):
        send = pending(member)
        asked.add(send.destination.address.host)
        member.sent.clear()
        member.perform(member.core.handle_failure(send.request_id, member.now_ms))
        member.at(now_ms)
    assert asked == {"node2", "node3"}


def test_bootstrap_servers_are_asked_before_any_voter_is_known() -> None:
    options = RaftOptions(
        9,
        cluster_id=CLUSTER,
        endpoints={CONTROLLER: address_of(9)},
        bootstrap_servers=(address_of(9), address_of(2)),
    )
    member = Member(9, VoterSet(), options=options)
    member.start()
    assert pending(member).destination.address == address_of(2)
    assert pending(member).destination.node_id < 0


def test_while_the_leaders_connection_rests_others_are_asked(member: Member) -> None:
    send = pending(member)
    member.sent.clear()
    member.perform(member.core.handle_failure(send.request_id, 0))
    assert pending(member).destination.node_id < 0


def test_records_are_appended_and_what_is_committed_is_announced(member: Member) -> None:
    batches = (Batch(3, 4), Batch(4, EPOCH))
    assert answer(member, FROM_2._replace(records=batches, high_watermark=4)) == [
        "AppendFetched",
        "HighWatermark",
        "Flush",
        "Send",
    ]
    assert member.high_watermark == 4
    assert member.log.end_offset == 5
    assert member.follower_state().has_fetched


def test_no_more_is_committed_here_than_is_here(member: Member) -> None:
    answer(member, FROM_2._replace(high_watermark=1000))
    assert member.high_watermark == 3


def test_a_batch_of_a_later_epoch_ends_what_is_appended(member: Member) -> None:
    """KAFKA-18723: the response of a leader that this node does not follow yet."""
    answer(member, FROM_2._replace(records=(Batch(3, EPOCH), Batch(4, EPOCH + 1), Batch(5, EPOCH))))
    assert member.log.end_offset == 4


def test_a_batch_elsewhere_is_not_appended(member: Member) -> None:
    answer(member, FROM_2._replace(records=(Batch(7, EPOCH),)))
    assert member.log.end_offset == 3


def test_batches_that_are_all_unusable_are_not_fetched_again_at_once(member: Member) -> None:
    answer(member, FROM_2._replace(records=(Batch(3, EPOCH + 1),)))
    assert not member.follower_state().has_fetched
    assert pending(member).destination.node_id < 0


def test_a_response_comes_once(member: Member) -> None:
    send = pending(member)
    response = FROM_2._replace(records=(Batch(3, EPOCH),))
    member.answer(send, response)
    assert member.answer(send, response) == []
    assert member.log.end_offset == 4


def test_a_response_of_before_the_leader_changed_is_ignored(member: Member) -> None:
    send = pending(member)
    begin = BeginQuorumEpochRequest(CLUSTER, 1, ZERO_UUID, 3, EPOCH + 1)
    assert member.ask(begin) is not None
    assert member.answer(send, FROM_2._replace(records=(Batch(3, EPOCH),))) == []
    assert member.log.end_offset == 3


def test_a_high_watermark_that_falls_is_fatal(member: Member) -> None:
    answer(member, FROM_2._replace(high_watermark=3))
    answer(member, FROM_2._replace(high_watermark=2))
    assert member.fatal is not None
    assert "below this node's 3" in member.fatal


class Divergence(NamedTuple):
    """The epochs of a log, where the leader says they diverge, and where the log is cut."""

    epochs: list[int]
    leader_end: OffsetAndEpoch
    end: int


@pytest.mark.parametrize(
    "case",
    [
        # The leader's epoch 1 ends earlier, or later, than this log's.
        Divergence([1, 1, 1, 2], OffsetAndEpoch(2, 1), 2),
        Divergence([1, 1, 2, 2], OffsetAndEpoch(5, 1), 2),
        # This log has nothing of the leader's epoch 2: cut back to the end of epoch 1.
        Divergence([1, 1, 3, 3], OffsetAndEpoch(4, 2), 2),
        # The leader knows no epoch of this log.
        Divergence([3, 3], OffsetAndEpoch(0, 0), 0),
        Divergence([3, 3], OffsetAndEpoch(7, 2), 0),
    ],
)
def test_the_log_is_cut_where_it_diverges(case: Divergence) -> None:
    member = follower(log_of(*case.epochs))
    diverged = FROM_2._replace(diverging_epoch=case.leader_end)
    assert answer(member, diverged) == ["TruncateTo", "Send"]
    assert member.log.end_offset == case.end
    assert member.follower_state().has_fetched


def test_committed_records_are_never_cut(member: Member) -> None:
    answer(member, FROM_2._replace(high_watermark=3))
    answer(member, FROM_2._replace(diverging_epoch=OffsetAndEpoch(2, 2)))
    assert member.fatal is not None
    assert "below its high watermark 3" in member.fatal
    assert member.log.end_offset == 3
    assert member.at(5000) == []
    assert member.core.deadline_ms is None


def test_after_a_start_the_records_of_a_snapshot_are_known_to_be_committed() -> None:
    log = log_of(1, 1, 2)
    log.snapshots[OffsetAndEpoch(2, 1)] = b"committed"
    member = follower(log)
    answer(member, FROM_2._replace(diverging_epoch=OffsetAndEpoch(1, 1)))
    assert member.fatal is not None
    assert "below its high watermark 2" in member.fatal
    assert member.log.end_offset == 3


def test_an_end_of_an_epoch_that_makes_no_sense_cuts_nothing(member: Member) -> None:
    answer(member, FROM_2._replace(diverging_epoch=OffsetAndEpoch(-1, 0)))
    assert member.fatal is None
    assert member.log.end_offset == 3


SNAPSHOT = OffsetAndEpoch(40, 4)


def chunk(position: int, content: bytes, size: int) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        leader_id=2,
        leader_epoch=EPOCH,
        snapshot_id=SNAPSHOT,
        size=size,
        position=position,
        unaligned_records=content,
    )


def test_a_snapshot_comes_chunk_by_chunk_and_the_log_begins_again_at_its_end(
    member: Member,
) -> None:
    assert answer(member, FROM_2._replace(snapshot_id=SNAPSHOT)) == ["CreateSnapshot", "Send"]
    request = pending(member).request
    assert isinstance(request, FetchSnapshotRequest)
    assert (request.snapshot_id, request.position) == (SNAPSHOT, 0)
    assert answer(member, chunk(0, b"abc", 5)) == ["WriteSnapshotChunk", "Send"]
    request = pending(member).request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.position == 3
    assert answer(member, chunk(3, b"de", 5)) == [
        "WriteSnapshotChunk",
        "TruncateFullyToSnapshot",
        "HighWatermark",
        "Send",
    ]
    assert member.log.snapshots == {SNAPSHOT: b"abcde"}
    assert member.high_watermark == 40
    request = pending(member).request
    assert isinstance(request, FetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (40, 4)


@pytest.mark.parametrize("error", [E.SNAPSHOT_NOT_FOUND, E.POSITION_OUT_OF_RANGE])
def test_a_snapshot_that_is_gone_is_given_up_for_a_fetch(member: Member, error: ErrorCode) -> None:
    answer(member, FROM_2._replace(snapshot_id=SNAPSHOT))
    answer(member, chunk(0, b"abc", 5))
    gone = chunk(3, b"", 5)._replace(partition_error_code=error)
    assert answer(member, gone) == ["DropSnapshot", "Send"]
    assert isinstance(pending(member).request, FetchRequest)


def test_another_leader_ends_the_download(member: Member) -> None:
    answer(member, FROM_2._replace(snapshot_id=SNAPSHOT))
    member.actions.clear()
    member.ask(BeginQuorumEpochRequest(CLUSTER, 1, ZERO_UUID, 3, EPOCH + 1))
    assert "DropSnapshot" in kinds(member.actions)
    assert isinstance(member.sent[-1].request, FetchRequest)


def test_bytes_of_another_place_are_fatal(member: Member) -> None:
    answer(member, FROM_2._replace(snapshot_id=SNAPSHOT))
    answer(member, chunk(3, b"de", 5))
    assert member.fatal is not None


@pytest.mark.parametrize("snapshot_id", [OffsetAndEpoch(-1, 4), OffsetAndEpoch(40, EPOCH + 1)])
def test_a_snapshot_id_that_makes_no_sense_is_not_fetched(
    member: Member, snapshot_id: OffsetAndEpoch
) -> None:
    answer(member, FROM_2._replace(snapshot_id=snapshot_id))
    assert member.follower_state().download is None


def test_a_snapshot_never_replaces_committed_records_after_it(member: Member) -> None:
    answer(member, FROM_2._replace(high_watermark=3))
    answer(member, FROM_2._replace(snapshot_id=OffsetAndEpoch(2, 1)))
    assert member.fatal is not None
    assert "below its high watermark 3" in member.fatal


def test_an_empty_part_of_a_snapshot_is_not_asked_for_again_at_once(member: Member) -> None:
    """Or the two nodes would do nothing else."""
    answer(member, FROM_2._replace(snapshot_id=SNAPSHOT))
    # The leader is left alone for a while; somebody else may know a better one.
    assert answer(member, chunk(0, b"", 5)) == ["Send"]
    assert isinstance(pending(member).request, FetchRequest)
    assert pending(member).destination.node_id < 0


def test_a_response_of_an_older_epoch_is_ignored(member: Member) -> None:
    answer(member, FetchResponse(leader_id=3, leader_epoch=EPOCH - 1, records=(Batch(3, 1),)))
    assert member.core.leader_id == 2
    assert member.log.end_offset == 3


def test_who_has_not_heard_of_the_epoch_is_not_asked_again_at_once() -> None:
    member = Member(1, voters_of(1, 2), persisted=ElectionState(EPOCH))
    member.start()
    error = E.UNKNOWN_LEADER_EPOCH
    member.answer(pending(member), FetchResponse(E.NONE, error, -1, EPOCH - 1))
    assert not member.sent
    member.at(19)
    assert not member.sent
    member.at(20)
    assert isinstance(pending(member).request, FetchRequest)


def test_an_unknown_leader_epoch_is_ignored(member: Member) -> None:
    answer(member, FROM_2._replace(partition_error_code=E.UNKNOWN_LEADER_EPOCH))
    assert member.role() is Role.FOLLOWER
    assert not member.follower_state().has_fetched


@pytest.mark.parametrize(
    "error", [E.NONE, E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR]
)
def test_a_higher_epoch_and_its_leader_are_followed(member: Member, error: ErrorCode) -> None:
    answer(member, FetchResponse(E.NONE, error, 3, EPOCH + 1))
    assert (member.core.leader_id, member.core.epoch) == (3, EPOCH + 1)
    assert member.persisted == ElectionState(EPOCH + 1, 3, None, (1, 2, 3))


def test_a_higher_epoch_without_a_leader_is_followed_by_nobody(member: Member) -> None:
    answer(member, FetchResponse(E.NONE, E.FENCED_LEADER_EPOCH, -1, EPOCH + 1))
    assert member.role() is Role.UNATTACHED
    assert member.persisted == ElectionState(EPOCH + 1, None, None, (1, 2, 3))


def test_a_leader_without_a_known_address_is_remembered(member: Member) -> None:
    answer(member, FetchResponse(E.NONE, E.FENCED_LEADER_EPOCH, 8, EPOCH + 1))
    assert member.role() is Role.UNATTACHED
    assert member.persisted.leader_id == 8


def test_the_address_in_a_response_is_taken(member: Member) -> None:
    endpoints = (NodeEndpoint(8, address_of(8)),)
    answer(member, FetchResponse(E.NONE, E.FENCED_LEADER_EPOCH, 8, EPOCH + 1, endpoints))
    assert pending(member).destination == (8, address_of(8))


def test_the_leader_of_the_same_epoch_is_followed_where_none_was_known() -> None:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(EPOCH))
    member.start()
    answer(member, FetchResponse(E.NONE, E.NOT_LEADER_OR_FOLLOWER, 3, EPOCH))
    assert member.core.leader_id == 3


def test_the_records_of_a_leader_that_was_not_known_are_taken_at_once() -> None:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(EPOCH))
    member.start()
    answer(member, FROM_2._replace(records=(Batch(0, EPOCH),)))
    assert member.core.leader_id == 2
    assert member.log.end_offset == 1


def test_two_leaders_of_one_epoch_are_fatal(member: Member) -> None:
    answer(member, FetchResponse(E.NONE, E.NOT_LEADER_OR_FOLLOWER, 3, EPOCH))
    assert member.fatal is not None
    assert "epoch 5" in member.fatal


def test_this_node_as_the_leader_of_an_epoch_that_it_does_not_know_is_fatal(member: Member) -> None:
    answer(member, FetchResponse(E.NONE, E.FENCED_LEADER_EPOCH, 1, EPOCH + 1))
    assert member.fatal is not None


@pytest.mark.parametrize("error", [E.BROKER_NOT_AVAILABLE, E.UNKNOWN_SERVER_ERROR])
def test_other_errors_make_it_rest_and_ask_elsewhere(member: Member, error: ErrorCode) -> None:
    answer(member, FROM_2._replace(partition_error_code=error))
    assert member.role() is Role.FOLLOWER
    assert pending(member).destination.node_id < 0


def test_an_error_of_the_whole_response_makes_it_rest(member: Member) -> None:
    answer(member, FetchResponse(E.CLUSTER_AUTHORIZATION_FAILED))
    assert member.fatal is None
    assert pending(member).destination.node_id < 0


def test_an_invalid_request_is_a_mistake_of_ours(member: Member) -> None:
    answer(member, FROM_2._replace(partition_error_code=E.INVALID_REQUEST))
    assert member.fatal is not None


def test_a_resigned_leader_that_names_itself_is_not_asked_without_end(member: Member) -> None:
    answer(member, FROM_2._replace(partition_error_code=E.NOT_LEADER_OR_FOLLOWER))
    assert member.core.leader_id == 2
    assert pending(member).destination.node_id < 0


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_a_resigned_leader_does_not_follow_itself(kind: type) -> None:
    """KAFKA-18379: messages of its own past arrive."""
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(EPOCH, 1))
    member.start()
    if kind is BeginQuorumEpochRequest:
        member.ask(BeginQuorumEpochRequest(CLUSTER, 1, ZERO_UUID, 1, EPOCH))
    else:
        member.ask(EndQuorumEpochRequest(CLUSTER, 1, EPOCH))
    assert member.fatal is None
    assert member.role() is Role.RESIGNED

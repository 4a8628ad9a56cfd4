"""Voters come, go and move, one at a time (KIP-853)."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.raft_actions import Send
from tierlog.replication.raft.raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
    VoterChangeResponse,
)
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.raft_state import Role
from tierlog.replication.raft.voter_set import Address, KRaftVersionRange, Voter, VoterKey, VoterSet
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.raft.members import (
    CLUSTER,
    CONTROLLER,
    Member,
    MemoryLog,
    Quorum,
    address_of,
    kinds,
    quorum_of,
    voters_of,
)

E = ErrorCode
VERSIONS = KRaftVersionRange(0, 1)


def key_of(node_id: int) -> VoterKey:
    return VoterKey(node_id, Uuid(node_id.to_bytes(16, "big")))


def dynamic(*node_ids: int) -> VoterSet:
    return VoterSet(
        Voter(key_of(each), {CONTROLLER: address_of(each)}, VERSIONS) for each in node_ids
    )


def member(node_id: int, voters: VoterSet) -> Member:
    options = RaftOptions(
        node_id,
        key_of(node_id).directory_id,
        CLUSTER,
        endpoints={CONTROLLER: address_of(node_id)},
        bootstrap_servers=tuple(address_of(each) for each in voters.ids),
    )
    return Member(node_id, voters, options=options, seed=node_id)


def led(*node_ids: int, observer: int | None = None) -> tuple[Quorum, Member]:
    """Voters with a leader, and perhaps an observer that has caught up."""
    voters = dynamic(*node_ids)
    nodes = (*node_ids, observer) if observer is not None else node_ids
    quorum = Quorum(*(member(each, voters) for each in nodes))
    quorum.start()
    quorum.run(4000)
    return quorum, quorum.leader()


def change(leader: Member, request: VoterChangeRequest) -> object:
    token = object()
    leader.perform(leader.core.handle_voter_change(token, request, leader.now_ms))
    return token


def response_to(leader: Member, token: object) -> VoterChangeResponse | None:
    return next((response for each, response in leader.voter_changes if each is token), None)


def update_error(leader: Member, request: UpdateVoterRequest) -> ErrorCode:
    response = leader.ask(request)
    assert response is not None
    return response.partition_error_code


def error_of(leader: Member, request: VoterChangeRequest) -> ErrorCode | None:
    response = response_to(leader, change(leader, request))
    return None if response is None else response.error_code


def add(node_id: int) -> AddVoterRequest:
    return AddVoterRequest(
        CLUSTER,
        node_id,
        key_of(node_id).directory_id,
        ((CONTROLLER, address_of(node_id)),),
        timeout_ms=1000,
        kraft_version=VERSIONS,
    )


def remove(node_id: int) -> RemoveVoterRequest:
    return RemoveVoterRequest(CLUSTER, node_id, key_of(node_id).directory_id, timeout_ms=1000)


def test_the_first_leader_records_its_voters() -> None:
    _, leader = led(1)
    assert leader.log.batches[0].voters == dynamic(1)


def test_an_observer_becomes_a_voter_when_the_new_majority_has_the_record() -> None:
    quorum, leader = led(1, observer=2)
    token = change(leader, add(2))
    # In effect at once, and not committed: node 1 alone is no majority any more.
    assert leader.core.voters == dynamic(1, 2)
    assert response_to(leader, token) is None
    quorum.exchange()
    response = response_to(leader, token)
    assert response is not None
    assert response.error_code is E.NONE
    assert quorum.members[2].core.voters == dynamic(1, 2)
    assert error_of(leader, add(2)) is E.DUPLICATE_VOTER


def test_the_versions_of_a_new_voter_are_asked_for() -> None:
    _, leader = led(1, observer=2)
    request = add(2)._replace(kraft_version=None)
    token = change(leader, request)
    (asked,) = leader.asked_versions
    assert (asked.token, asked.destination) == (token, (2, address_of(2)))
    assert leader.core.voters == dynamic(1)
    assert error_of(leader, request._replace(is_unreachable=True)) is E.REQUEST_TIMED_OUT
    old = request._replace(kraft_version=KRaftVersionRange(0, 0))
    assert error_of(leader, old) is E.INVALID_REQUEST


def test_one_change_at_a_time_and_none_that_is_not_committed() -> None:
    quorum, leader = led(1, observer=2)
    quorum.cut = {2}
    token = change(leader, add(2))
    assert error_of(leader, remove(1)) is E.REQUEST_TIMED_OUT
    leader.at(leader.now_ms + 1000)
    response = response_to(leader, token)
    assert response is not None
    assert response.error_code is E.REQUEST_TIMED_OUT
    assert error_of(leader, remove(1)) is E.REQUEST_TIMED_OUT


def test_an_answer_at_the_append_does_not_wait_for_the_commit() -> None:
    quorum, leader = led(1, observer=2)
    quorum.cut = {2}
    assert error_of(leader, add(2)._replace(ack_when_committed=False)) is E.NONE


def test_a_node_that_is_not_caught_up_is_not_added() -> None:
    _, leader = led(1)
    assert error_of(leader, add(2)) is E.REQUEST_TIMED_OUT


ADD_FAULTS = [
    ({"cluster_id": "another"}, E.INCONSISTENT_CLUSTER_ID),
    ({"voter_directory_id": ZERO_UUID}, E.INVALID_REQUEST),
    ({"listeners": (("OTHER", Address("node2", 1)),)}, E.INVALID_REQUEST),
]


@pytest.mark.parametrize(("fault", "error"), ADD_FAULTS)
def test_an_addition_that_makes_no_sense(fault: dict[str, object], error: ErrorCode) -> None:
    _, leader = led(1, observer=2)
    assert error_of(leader, add(2)._replace(**fault)) is error  # type: ignore[arg-type]  # fields by their names


def test_only_the_leader_changes_the_voters() -> None:
    quorum, leader = led(1, observer=2)
    assert error_of(quorum.members[2], add(2)) is E.NOT_LEADER_OR_FOLLOWER
    token = change(leader, add(2))
    leader.perform(leader.core.resign(leader.core.epoch, leader.now_ms))
    response = response_to(leader, token)
    assert response is not None
    assert response.error_code is E.NOT_LEADER_OR_FOLLOWER


def test_static_voters_are_not_changed() -> None:
    quorum = quorum_of(3)
    assert error_of(quorum.leader(), add(4)) is E.UNSUPPORTED_VERSION


def test_a_voter_is_removed_and_counts_no_more() -> None:
    quorum, leader = led(1, 2, 3)
    gone = next(each for each in (1, 2, 3) if each != leader.node_id)
    token = change(leader, remove(gone))
    quorum.exchange()
    response = response_to(leader, token)
    assert response is not None
    assert response.error_code is E.NONE
    assert gone not in leader.core.voters.ids
    assert error_of(leader, remove(gone)) is E.VOTER_NOT_FOUND
    quorum.run(quorum.now_ms + 100)
    observers = leader.core.describe_quorum(quorum.now_ms).observers
    assert gone in [each.replica_id for each in observers]


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    quorum, leader = led(1, 2, 3)
    token = change(leader, remove(leader.node_id))
    assert leader.role() is Role.LEADER
    quorum.exchange()
    response = response_to(leader, token)
    assert response is not None
    assert response.error_code is E.NONE
    assert leader.role() is Role.RESIGNED
    quorum.run(quorum.now_ms + 5000)
    assert quorum.leader() is not leader
    assert leader.role() in (Role.FOLLOWER, Role.UNATTACHED)


def test_two_voters_do_not_stop_each_other_when_one_is_being_removed() -> None:
    """The record of the removal is on the removed leader only: the other never gets its vote."""
    quorum, leader = led(1, 2)
    (other,) = (each for each in quorum.members.values() if each is not leader)
    quorum.cut = {other.node_id}
    leader.append("a change")
    change(leader, remove(leader.node_id))
    assert leader.core.voters == dynamic(other.node_id)
    quorum.run(quorum.now_ms + 10_000)
    assert not leader.core.is_leader
    quorum.cut = set()
    quorum.run(quorum.now_ms + 20_000)
    assert quorum.leader() is other
    assert other.core.voters == dynamic(other.node_id)
    assert leader.log.end_offset == other.high_watermark


def test_the_only_voter_is_not_removed() -> None:
    _, leader = led(1)
    assert error_of(leader, remove(1)) is E.VOTER_NOT_FOUND


def test_a_voter_tells_where_it_has_moved() -> None:
    _, leader = led(1, 2, 3)
    other = next(each for each in (1, 2, 3) if each != leader.node_id)
    moved = Address("elsewhere", 9)
    request = UpdateVoterRequest(
        CLUSTER,
        leader.core.epoch,
        other,
        key_of(other).directory_id,
        ((CONTROLLER, moved),),
        VERSIONS,
    )
    assert update_error(leader, request._replace(current_leader_epoch=0)) is E.FENCED_LEADER_EPOCH
    assert update_error(leader, request) is E.NONE
    assert leader.core.voters.address(other, CONTROLLER) == moved
    # Nothing new, nothing appended; but the record before is not committed yet.
    assert update_error(leader, request) is E.REQUEST_TIMED_OUT


def updates(member: Member) -> list[UpdateVoterRequest]:
    sends = (each for each in member.actions if isinstance(each, Send))
    return [each.request for each in sends if isinstance(each.request, UpdateVoterRequest)]


def test_a_follower_that_has_moved_tells_the_leader_once_the_update_timer_ends() -> None:
    quorum, leader = led(1, 2, 3)
    assert not any(updates(each) for each in quorum.members.values())
    other = next(each for each in quorum.members.values() if each is not leader)
    moved = VoterSet(
        each._replace(endpoints={CONTROLLER: Address("elsewhere", 9)})
        if each.key == other.options.key
        else each
        for each in leader.core.voters
    )
    # As if it had been recorded with an address that it no longer has.
    update = UpdateVoterRequest(
        CLUSTER,
        leader.core.epoch,
        *other.options.key,
        listeners=tuple(moved.voter(other.node_id).endpoints.items()),  # type: ignore[union-attr]  # it is one of them
        kraft_version=VERSIONS,
    )
    assert update_error(leader, update) is E.NONE
    quorum.run(quorum.now_ms + 3000)
    assert updates(other)
    assert leader.core.voters.address(other.node_id, CONTROLLER) == address_of(other.node_id)
    assert not any(each.fatal for each in quorum.members.values())


def test_each_leader_of_static_voters_hears_of_them_once() -> None:
    voters = voters_of(1, 2, 3)
    quorum = Quorum(*(member(each, voters) for each in (1, 2, 3)))
    quorum.start()
    quorum.run(12_000)
    leader = quorum.leader()
    for each in quorum.members.values():
        assert len(updates(each)) == (0 if each is leader else 1)
    assert leader.core.voters == voters


def test_a_leader_writes_its_own_new_address_with_the_first_record_of_its_epoch() -> None:
    voters = dynamic(1)
    options = RaftOptions(
        1, key_of(1).directory_id, CLUSTER, endpoints={CONTROLLER: Address("elsewhere", 9)}
    )
    log = MemoryLog(start_offset=5, flushed_offset=5, snapshots={OffsetAndEpoch(5, 1): b"all"})
    alone = Member(1, voters, options=options, log=log)
    # The voters stand in the snapshot already, so only the address is new.
    alone.core.load_snapshot_voters(5, voters)
    alone.start()
    assert alone.core.voters.address(1, CONTROLLER) == Address("elsewhere", 9)


def test_a_snapshot_has_the_voters_of_its_end() -> None:
    quorum, leader = led(1, observer=2)
    change(leader, add(2))
    quorum.exchange()
    offset = next(each.base_offset for each in leader.log.batches if each.value == "voters")
    assert leader.core.voters_at(offset) == dynamic(1)
    assert leader.core.voters_at(offset + 1) == dynamic(1, 2)


def test_truncation_takes_a_voter_back() -> None:
    quorum, leader = led(1, 2, 3, observer=4)
    quorum.cut = {leader.node_id}
    change(leader, add(4))
    assert leader.core.voters == dynamic(1, 2, 3, 4)
    quorum.run(quorum.now_ms + 8000)
    new = quorum.leader()
    new.append("committed")
    quorum.cut = set()
    quorum.run(quorum.now_ms + 8000)
    assert "TruncateTo" in kinds(leader.actions)
    assert leader.core.voters == dynamic(1, 2, 3)

"""Each request is refused for the first of Kafka's reasons that holds."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from tierlog.replication.raft.raft_state import Role
from tierlog.replication.raft.request_checks import EPOCH_MAX
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.raft.members import CLUSTER, Member, quorum_of, voters_of

E = ErrorCode
OTHER_DIRECTORY = Uuid(bytes(15) + b"\x09")
EPOCH = 5


def errors(member: Member, request: object) -> tuple[ErrorCode, ErrorCode]:
    """The errors of the whole response and of its partition."""
    response = member.ask(request)
    assert response is not None
    return response.error_code, response.partition_error_code


def member_in_epoch(epoch: int) -> Member:
    """Voter 1 of three, unattached in an epoch."""
    member = Member(1, voters_of(1, 2, 3))
    member.start()
    member.ask(VOTE._replace(pre_vote=True, replica_epoch=epoch))
    assert member.core.epoch == epoch
    return member


VOTE = VoteRequest(
    cluster_id=CLUSTER,
    voter_id=1,
    voter_directory_id=ZERO_UUID,
    replica_id=2,
    replica_directory_id=ZERO_UUID,
    replica_epoch=EPOCH,
    last_offset=10,
    last_offset_epoch=4,
)
VOTE_FAULTS = [
    ({"cluster_id": "another"}, (E.INCONSISTENT_CLUSTER_ID, E.NONE)),
    ({"is_metadata_partition": False}, (E.INVALID_REQUEST, E.NONE)),
    ({"last_offset": -1}, (E.NONE, E.INVALID_REQUEST)),
    ({"replica_epoch": EPOCH - 1, "last_offset_epoch": 0}, (E.NONE, E.FENCED_LEADER_EPOCH)),
    ({"replica_id": -1}, (E.NONE, E.INVALID_REQUEST)),
    ({"voter_id": 3}, (E.NONE, E.INVALID_VOTER_KEY)),
]


@pytest.mark.parametrize("first", range(len(VOTE_FAULTS)))
def test_a_vote_is_refused_for_its_first_fault(first: int) -> None:
    """The faults from the `first` on at once: only the first is told."""
    faulty = VOTE
    for fault, _ in reversed(VOTE_FAULTS[first:]):
        faulty = faulty._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    assert errors(member_in_epoch(EPOCH), faulty) == VOTE_FAULTS[first][1]


@pytest.mark.parametrize(
    ("last_epoch", "pre_vote", "is_valid"),
    [(4, False, True), (5, False, False), (5, True, True), (6, True, False), (-1, True, False)],
)
def test_a_candidates_log_ends_before_its_epoch(
    last_epoch: int, pre_vote: bool, is_valid: bool
) -> None:
    request = VOTE._replace(last_offset_epoch=last_epoch, pre_vote=pre_vote)
    expected = E.NONE if is_valid else E.INVALID_REQUEST
    assert errors(member_in_epoch(EPOCH), request) == (E.NONE, expected)


def test_no_cluster_id_and_no_voter_key_fit_everybody() -> None:
    request = VOTE._replace(cluster_id=None, voter_id=-1)
    assert errors(member_in_epoch(EPOCH), request) == (E.NONE, E.NONE)


def test_a_wrong_voter_key_teaches_the_epoch_all_the_same() -> None:
    member = member_in_epoch(EPOCH)
    request = VOTE._replace(replica_epoch=EPOCH + 2, voter_id=3)
    assert errors(member, request) == (E.NONE, E.INVALID_VOTER_KEY)
    assert member.core.epoch == EPOCH + 2
    assert member.persisted.voted_key is None


def test_a_directory_that_is_not_ours_is_a_wrong_key() -> None:
    request = VOTE._replace(voter_directory_id=OTHER_DIRECTORY)
    assert errors(member_in_epoch(EPOCH), request) == (E.NONE, E.INVALID_VOTER_KEY)


BEGIN = BeginQuorumEpochRequest(
    cluster_id=CLUSTER, voter_id=1, voter_directory_id=ZERO_UUID, leader_id=2, leader_epoch=EPOCH
)
END = EndQuorumEpochRequest(cluster_id=CLUSTER, leader_id=2, leader_epoch=EPOCH)
EPOCH_FAULTS = [
    ({"cluster_id": "another"}, (E.INCONSISTENT_CLUSTER_ID, E.NONE)),
    ({"is_metadata_partition": False}, (E.INVALID_REQUEST, E.NONE)),
    ({"leader_epoch": EPOCH - 1}, (E.NONE, E.FENCED_LEADER_EPOCH)),
    ({"leader_id": -1}, (E.NONE, E.INVALID_REQUEST)),
]


@pytest.mark.parametrize("request_without_faults", [BEGIN, END], ids=["begin", "end"])
@pytest.mark.parametrize("first", range(len(EPOCH_FAULTS)))
def test_the_requests_of_a_leader_are_refused_for_their_first_fault(
    request_without_faults: BeginQuorumEpochRequest | EndQuorumEpochRequest, first: int
) -> None:
    faulty = request_without_faults
    for fault, _ in reversed(EPOCH_FAULTS[first:]):
        faulty = faulty._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    member = member_in_epoch(EPOCH)
    assert errors(member, faulty) == EPOCH_FAULTS[first][1]
    assert member.role() is Role.UNATTACHED


@pytest.mark.parametrize("request_of_a_leader", [BEGIN, END], ids=["begin", "end"])
@pytest.mark.parametrize(("leader_id", "epoch"), [(3, EPOCH), (1, EPOCH), (1, EPOCH + 1)])
def test_a_request_of_a_second_leader_is_refused_and_stops_nobody_here(
    request_of_a_leader: BeginQuorumEpochRequest | EndQuorumEpochRequest, leader_id: int, epoch: int
) -> None:
    member = member_in_epoch(EPOCH)
    member.ask(BEGIN)
    false = request_of_a_leader._replace(leader_id=leader_id, leader_epoch=epoch)
    assert errors(member, false) == (E.NONE, E.INVALID_REQUEST)
    assert member.fatal is None
    assert (member.core.leader_id, member.core.epoch) == (2, EPOCH)


def test_a_leader_is_followed_even_if_it_meant_another_voter() -> None:
    member = member_in_epoch(EPOCH)
    assert errors(member, BEGIN._replace(voter_id=3)) == (E.NONE, E.INVALID_VOTER_KEY)
    assert member.core.leader_id == 2
    assert member.persisted.leader_id == 2


FETCH = FetchRequest(
    cluster_id=CLUSTER,
    replica_id=2,
    replica_directory_id=ZERO_UUID,
    current_leader_epoch=1,
    fetch_offset=1,
    last_fetched_epoch=1,
)
FETCH_FAULTS = [
    ({"cluster_id": "another"}, (E.INCONSISTENT_CLUSTER_ID, E.NONE)),
    ({"is_metadata_partition": False}, (E.INVALID_REQUEST, E.NONE)),
    ({"max_wait_ms": -1}, (E.NONE, E.INVALID_REQUEST)),
    ({"current_leader_epoch": 0, "last_fetched_epoch": 0}, (E.NONE, E.FENCED_LEADER_EPOCH)),
]


@pytest.mark.parametrize("first", range(len(FETCH_FAULTS)))
def test_a_fetch_is_refused_for_its_first_fault(first: int) -> None:
    leader = quorum_of(3).leader()
    faulty = FETCH
    for fault, _ in reversed(FETCH_FAULTS[first:]):
        faulty = faulty._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    assert errors(leader, faulty) == FETCH_FAULTS[first][1]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"fetch_offset": -1}, E.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, E.INVALID_REQUEST),
        ({"last_fetched_epoch": 2}, E.INVALID_REQUEST),
        ({"current_leader_epoch": 2}, E.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_that_makes_no_sense(fault: dict[str, int], error: ErrorCode) -> None:
    request = FETCH._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    assert errors(quorum_of(3).leader(), request) == (E.NONE, error)


def test_a_follower_names_the_leader_instead_of_answering() -> None:
    quorum = quorum_of(3)
    leader = quorum.leader()
    follower = next(each for each in quorum.members.values() if each is not leader)
    response = follower.ask(FETCH)
    assert response is not None
    assert response.partition_error_code is E.NOT_LEADER_OR_FOLLOWER
    assert (response.leader_id, response.leader_epoch) == (leader.node_id, 1)
    assert [each.node_id for each in response.node_endpoints] == [leader.node_id]


SNAPSHOT = FetchSnapshotRequest(
    cluster_id=CLUSTER,
    replica_id=2,
    replica_directory_id=ZERO_UUID,
    current_leader_epoch=1,
    snapshot_id=OffsetAndEpoch(1, 1),
    position=0,
    max_bytes=100,
)
SNAPSHOT_FAULTS = [
    ({"cluster_id": "another"}, (E.INCONSISTENT_CLUSTER_ID, E.NONE)),
    ({"is_single_partition": False}, (E.INVALID_REQUEST, E.NONE)),
    ({"is_metadata_partition": False}, (E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION)),
    ({"current_leader_epoch": 0}, (E.NONE, E.FENCED_LEADER_EPOCH)),
    ({"snapshot_id": OffsetAndEpoch(2, 1)}, (E.NONE, E.SNAPSHOT_NOT_FOUND)),
    ({"position": 10}, (E.NONE, E.POSITION_OUT_OF_RANGE)),
]


def leader_with_snapshot() -> Member:
    leader = quorum_of(3).leader()
    leader.log.snapshots[OffsetAndEpoch(1, 1)] = b"0123456789"
    leader.log.snapshots[OffsetAndEpoch(0, 0)] = b"bootstrap"
    return leader


@pytest.mark.parametrize("first", range(len(SNAPSHOT_FAULTS)))
def test_a_fetch_of_a_snapshot_is_refused_for_its_first_fault(first: int) -> None:
    faulty = SNAPSHOT
    for fault, _ in reversed(SNAPSHOT_FAULTS[first:]):
        faulty = faulty._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    assert errors(leader_with_snapshot(), faulty) == SNAPSHOT_FAULTS[first][1]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"current_leader_epoch": 2}, E.UNKNOWN_LEADER_EPOCH),
        ({"snapshot_id": OffsetAndEpoch(0, 0)}, E.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, E.POSITION_OUT_OF_RANGE),
        ({"position": 9}, E.NONE),
    ],
)
def test_a_position_in_a_snapshot(fault: dict[str, object], error: ErrorCode) -> None:
    request = SNAPSHOT._replace(**fault)  # type: ignore[arg-type]  # fields by their names
    assert errors(leader_with_snapshot(), request) == (E.NONE, error)


def test_an_epoch_without_a_next_one_is_not_taken_up() -> None:
    member = member_in_epoch(EPOCH)
    last = VOTE._replace(replica_epoch=EPOCH_MAX + 1)
    assert errors(member, last) == (E.NONE, E.INVALID_REQUEST)
    assert member.core.epoch == EPOCH
    assert errors(member, VOTE._replace(replica_epoch=EPOCH_MAX)) == (E.NONE, E.NONE)

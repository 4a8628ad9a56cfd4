"""What a voter must never forget, in the file that Kafka reads, too."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import uuid_from_string
from tierlog.replication.raft.election_state import (
    ElectionState,
    parse_election_state,
    read_election_state,
    write_election_state,
)
from tierlog.replication.raft.voter_set import VoterKey
from tierlog.tests.replication.raft.members import Member, voters_of
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

DIRECTORY = uuid_from_string("AAAAAAAAAAAAAAAAAAABcQ")
VOTERS = (1, 2, 3)
VOTED = VoterKey(3, DIRECTORY)

# What FileQuorumStateStore of Apache Kafka 4.3.1 has written for the same states.
KAFKAS = [
    (
        ElectionState(4, 2, None, VOTERS),
        b'{"clusterId":"","leaderId":2,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}',
        b'{"leaderId":2,"leaderEpoch":4,"votedId":-1,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    ),
    (
        ElectionState(5, None, VOTED, VOTERS),
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}',
        b'{"leaderId":-1,"leaderEpoch":5,"votedId":3,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAABcQ","data_version":1}',
    ),
    (
        ElectionState(7, 2, VOTED, VOTERS),
        b'{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}',
        b'{"leaderId":2,"leaderEpoch":7,"votedId":3,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAABcQ","data_version":1}',
    ),
]


@pytest.mark.parametrize(("state", "version_0", "version_1"), KAFKAS)
def test_both_versions_are_those_that_kafka_writes(
    state: ElectionState, version_0: bytes, version_1: bytes
) -> None:
    assert state.to_json(0) == version_0
    assert state.to_json(1) == version_1
    assert parse_election_state(version_1) == state._replace(voter_ids=())
    without_directory = None if state.voted_key is None else VoterKey(state.voted_key.id)
    assert parse_election_state(version_0) == state._replace(voted_key=without_directory)


def test_a_sole_voter_leaves_the_bytes_of_the_broker_with_one_voter() -> None:
    member = Member(1, voters_of(1))
    member.start()
    assert member.persisted.to_json(0) == ElectionState(1, 1, voter_ids=(1,)).to_json(0)
    member.restart()
    assert member.persisted.to_json(0) == ElectionState(2, 1, voter_ids=(1,)).to_json(0)


def test_a_vote_without_directory_counts_for_the_id_in_any_directory() -> None:
    assert ElectionState(1, None, VoterKey(3)).is_voted(VOTED)
    assert ElectionState(1, None, VOTED).is_voted(VOTED)
    assert not ElectionState(1, None, VOTED).is_voted(VoterKey(3))
    assert not ElectionState(1, None, VOTED).is_voted(VoterKey(2, DIRECTORY))
    assert not ElectionState(1).is_voted(VOTED)


def test_the_file_is_read_back() -> None:
    files = SimulatedFiles(SimulatedDisk())
    assert read_election_state(files, "/quorum-state") == ElectionState()
    state = ElectionState(5, None, VOTED)
    write_election_state(files, "/quorum-state", state, 1)
    assert read_election_state(files, "/quorum-state") == state


@pytest.mark.parametrize("more", [b"\n", bytes(12), b"\xff{"])
def test_what_stands_behind_the_state_says_nothing(more: bytes) -> None:
    """Kafka's parser does not look at it either."""
    state = ElectionState(4, 2, None, VOTERS)
    assert parse_election_state(state.to_json(0) + more) == state


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"leaderEpoch":"x","leaderId":1,"data_version":0}',
        b'{"leaderEpoch":1,"data_version":0}',
        b'{"leaderEpoch":1,"leaderId":1,"votedId":2,"data_version":2}',
        b'{"leaderEpoch":1,"leaderId":1,"votedId":2,"votedDirectoryId":"x","data_version":1}',
    ],
)
def test_an_epoch_is_never_guessed(content: bytes) -> None:
    files = SimulatedFiles(SimulatedDisk())
    files.atomic_replace("/quorum-state", content)
    with pytest.raises(KafkaError) as refused:
        read_election_state(files, "/quorum-state")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

"""What a voter must never forget, in the file that Kafka reads, too."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.raft.election_state import (
    ElectionState,
    read_election_state,
    write_election_state,
)
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

KAFKAS = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)


def test_the_file_is_the_one_that_kafka_writes() -> None:
    files = SimulatedFiles(SimulatedDisk())
    state = ElectionState(1, 1, voter_ids=(1,))
    write_election_state(files, "/quorum-state", state, 0)
    assert files.read("/quorum-state") == KAFKAS
    assert read_election_state(files, "/quorum-state") == state


@pytest.mark.parametrize("more", [b"\n", bytes(12), b"\xff{", KAFKAS])
def test_what_stands_behind_the_state_says_nothing(more: bytes) -> None:
    """Kafka's parser does not look at it either."""
    files = SimulatedFiles(SimulatedDisk())
    files.atomic_replace("/quorum-state", KAFKAS + more)
    assert read_election_state(files, "/quorum-state") == ElectionState(1, 1, voter_ids=(1,))


def test_who_has_never_voted_knows_nothing() -> None:
    files = SimulatedFiles(SimulatedDisk())
    assert read_election_state(files, "/quorum-state") == ElectionState()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"leaderEpoch":"x","leaderId":1}', b'{"leaderEpoch":1}']
)
def test_an_epoch_is_never_guessed(content: bytes) -> None:
    files = SimulatedFiles(SimulatedDisk())
    files.atomic_replace("/quorum-state", content)
    with pytest.raises(KafkaError) as refused:
        read_election_state(files, "/quorum-state")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

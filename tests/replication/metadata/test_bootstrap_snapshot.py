"""What a formatted directory has before its first start."""

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.brokers.broker_control import bootstrap_records
from tierlog.replication.metadata.bootstrap_snapshot import (
    BOOTSTRAP_FILE,
    FIRST_SNAPSHOT_FILE,
    bootstrap_snapshot,
    first_snapshot,
    read_bootstrap,
    read_first_snapshot,
    recorded_voters,
)
from tierlog.replication.metadata.snapshot_format import SnapshotContent, SnapshotId
from tierlog.replication.raft.voter_set import Address, KRaftVersionRange, Voter, VoterKey, VoterSet
from tierlog.storage.directory.log_dir import LogDirError
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from .opened_metadata import DIRECTORY, NODE_ID, Metadata

CHECKPOINT = f"{DIRECTORY}/{FIRST_SNAPSHOT_FILE}"


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(
        Voter(
            VoterKey(node_id, Uuid(bytes([node_id]) * 16)),
            {"CONTROLLER": Address("localhost", node_id)},
            KRaftVersionRange(0, 1),
        )
        for node_id in node_ids
    )


@pytest.fixture
def files() -> SimulatedFiles:
    made = SimulatedFiles(SimulatedDisk())
    made.mkdirs(DIRECTORY)
    return made


def test_the_features_of_a_new_cluster_are_a_snapshot_of_nothing() -> None:
    content = SnapshotContent(SnapshotId(0, 0), bootstrap_snapshot(bootstrap_records(), 7))
    assert [list(records) for records in content.records()] == [bootstrap_records()]
    assert content.quorum == []


def test_the_first_records_come_back_from_a_formatted_directory(files: SimulatedFiles) -> None:
    assert read_bootstrap(files, DIRECTORY) is None
    content = bootstrap_snapshot(bootstrap_records(), 7)
    files.atomic_replace(f"{DIRECTORY}/{BOOTSTRAP_FILE}", content)
    assert read_bootstrap(files, DIRECTORY) == bootstrap_records()
    files.atomic_replace(f"{DIRECTORY}/{BOOTSTRAP_FILE}", content[:-1])
    with pytest.raises(LogDirError, match="cannot be read"):
        read_bootstrap(files, DIRECTORY)


def test_the_first_voters_come_back_from_the_first_snapshot(files: SimulatedFiles) -> None:
    assert read_first_snapshot(files, DIRECTORY) is None
    files.atomic_replace(CHECKPOINT, first_snapshot(voters(1, 2, 3), 7))
    content = read_first_snapshot(files, DIRECTORY)
    assert content is not None
    assert recorded_voters(content.quorum) == voters(1, 2, 3)
    assert recorded_voters([]) is None


def test_a_first_snapshot_that_is_damaged_is_not_passed_over(files: SimulatedFiles) -> None:
    files.atomic_replace(CHECKPOINT, first_snapshot(voters(1), 7)[:-1])
    with pytest.raises(LogDirError, match="is damaged"):
        read_first_snapshot(files, DIRECTORY)


def test_a_node_formatted_as_one_of_three_does_not_lead_alone(files: SimulatedFiles) -> None:
    files.atomic_replace(CHECKPOINT, first_snapshot(voters(NODE_ID, 2, 3), 7))
    with pytest.raises(LogDirError, match="has the voters 1, 2, 3, but the properties name only"):
        Metadata(files).log.become_leader(7)


def test_a_node_formatted_as_the_only_voter_leads(files: SimulatedFiles) -> None:
    files.atomic_replace(CHECKPOINT, first_snapshot(voters(NODE_ID), 7))
    metadata = Metadata(files)
    metadata.log.become_leader(7)
    assert metadata.log.epoch == 1

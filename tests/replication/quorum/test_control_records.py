"""The quorum's control records, byte by byte as Kafka's classes write them."""

from pathlib import Path

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.kafka_uuid import uuid_from_string
from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.replication.quorum.control_records import (
    decode_voters,
    encode_voters,
    start_of_epoch_batch,
    voter_sets,
    voters_batch,
)
from tierlog.replication.raft.raft_actions import AppendStartOfEpoch
from tierlog.replication.raft.voter_set import Address, KRaftVersionRange, Voter, VoterKey, VoterSet

KAFKAS_LOG = Path(__file__).parents[1] / "metadata" / "kafka_metadata_log.hex"
DIRECTORY = uuid_from_string("AAAAAAAAAAAAAAAAAAABcQ")

# What the generated classes of Apache Kafka 4.3.1 have written.
LEADER_CHANGE = bytes.fromhex("000000000002030000000100000000020002000000020000")
KRAFT_VERSION_1 = bytes.fromhex("0000000100")
VOTERS = bytes.fromhex(
    "0000020000000200000000000000000000000000000171020b434f4e54524f4c4c4552066e6f646532238500"
    "00000001000000"
)
VOTER_2 = Voter(
    VoterKey(2, DIRECTORY), {"CONTROLLER": Address("node2", 9093)}, KRaftVersionRange(0, 1)
)


def only_batch(content: bytes | bytearray) -> RecordBatch:
    (batch,) = batches(content)
    assert batch.is_control
    assert batch.crc_is_valid()
    return batch


def test_a_static_voter_begins_its_epoch_as_kafka_does() -> None:
    theirs = next(iter(batches(bytes.fromhex(KAFKAS_LOG.read_text()))))
    action = AppendStartOfEpoch(1, 1, (VoterKey(1),), (VoterKey(1),))
    ours = only_batch(start_of_epoch_batch(action, theirs.base_timestamp))
    assert [(each.key, each.value) for each in ours.records()] == [
        (each.key, each.value) for each in theirs.records()
    ]
    assert ours.base_timestamp == theirs.base_timestamp


def test_voters_with_directories_are_recorded_with_the_first_leader() -> None:
    keys = (VoterKey(1, DIRECTORY), VoterKey(2, DIRECTORY))
    action = AppendStartOfEpoch(1, 2, keys, keys[1:], 1, VoterSet([VOTER_2]))
    batch = only_batch(start_of_epoch_batch(action, 5))
    assert [(ControlRecordType.parse(each.key), each.value) for each in batch.records()] == [
        (ControlRecordType.LEADER_CHANGE, LEADER_CHANGE),
        (ControlRecordType.KRAFT_VERSION, KRAFT_VERSION_1),
        (ControlRecordType.KRAFT_VOTERS, VOTERS),
    ]
    assert list(voter_sets(batch)) == [(2, VoterSet([VOTER_2]))]


def test_a_voter_set_is_read_back() -> None:
    voters = VoterSet([VOTER_2, Voter(VoterKey(1, DIRECTORY))])
    assert decode_voters(encode_voters(voters)) == voters
    assert list(voter_sets(only_batch(voters_batch(voters, 5)))) == [(0, voters)]


def test_a_torn_voters_record_is_refused() -> None:
    with pytest.raises(KafkaError):
        decode_voters(VOTERS[:-9])

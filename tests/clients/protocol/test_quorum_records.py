"""Control records of a metadata log, as a real Kafka writes them, are read and written back."""

from pathlib import Path

import pytest

from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from tierlog.clients.protocol.messages.quorum_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType

GOLDEN = Path(__file__).parents[2] / "golden" / "quorum"
VALUES: dict[ControlRecordType, type[Message]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


def control_records(name: str) -> list[list[tuple[ControlRecordType, bytes]]]:
    """The keys and values of each batch in the golden file of that name."""
    lines = (GOLDEN / f"{name}.hex").read_text().splitlines()
    data = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    found: list[list[tuple[ControlRecordType, bytes]]] = []
    for batch in batches(data):
        assert batch.is_control
        assert batch.crc_is_valid()
        records = [(each.key, each.value or b"") for each in batch.records()]
        found.append([(ControlRecordType.parse(key), value) for key, value in records])
        assert [key for key, _ in records] == [kind.key() for kind, _ in found[-1]]
    return found


def understood(kind: ControlRecordType, value: bytes) -> Message:
    """A value, which is the same when it is written again."""
    message, end = decode(VALUES[kind], 0, value)
    assert end == len(value)
    assert encode_bytes(message, 0) == value
    return message


def test_a_snapshot_begins_with_its_voters_and_ends_with_its_footer() -> None:
    first, last = control_records("bootstrap-checkpoint")
    header, version, voters = (understood(*each) for each in first)
    assert isinstance(header, SnapshotHeaderRecord)
    assert version == KRaftVersionRecord(kraft_version=1)
    assert isinstance(voters, VotersRecord)
    (voter,) = voters.voters
    assert voter.voter_id == 3
    assert voter.endpoints == [Endpoint(name="CONTROLLER", host="127.0.0.1", port=19093)]
    assert voter.kraft_version_feature == KRaftVersionFeature(max_supported_version=1)
    assert [understood(*each) for each in last] == [SnapshotFooterRecord()]


def test_an_epoch_begins_with_its_leader_and_the_voters_of_the_snapshot() -> None:
    """With kraft.version 1, too, Kafka writes version 0 of LeaderChangeMessage: no directories."""
    (records,) = control_records("first-batch")
    kinds = ControlRecordType
    assert [kind for kind, _ in records] == [
        kinds.LEADER_CHANGE,
        kinds.KRAFT_VERSION,
        kinds.KRAFT_VOTERS,
    ]
    leader, version, voters = (understood(*each) for each in records)
    only = [Voter(voter_id=3)]
    assert leader == LeaderChangeMessage(leader_id=3, voters=only, granting_voters=only)
    _, *in_snapshot = control_records("bootstrap-checkpoint")[0]
    assert [version, voters] == [understood(*each) for each in in_snapshot]


@pytest.mark.parametrize("cls", VALUES.values())
def test_a_value_has_a_version_of_its_own(cls: type[Message]) -> None:
    assert "version" in cls.__declared__

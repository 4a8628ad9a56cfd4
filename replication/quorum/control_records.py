"""The quorum's control records: LeaderChange, KRaftVersion, Voters (KIP-595, KIP-853).

Every epoch begins with one control batch of its leader. Its LeaderChange has version 0, which names
no directories, as Kafka 4.3 writes it with each `kraft.version`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.messages import quorum_records as records
from ...clients.protocol.messages.leader_change_message import LeaderChangeMessage, Voter as Elector
from ...clients.record.batch import RecordBatch
from ...clients.record.builder import RecordBatchBuilder
from ...clients.record.control import ControlRecordType
from ..raft.voter_set import Address, KRaftVersionRange, Voter, VoterKey, VoterSet

if TYPE_CHECKING:
    from ..raft.raft_actions import AppendStartOfEpoch


def start_of_epoch_batch(action: "AppendStartOfEpoch", now_ms: int) -> bytearray:
    """The first batch of an epoch; its offset and epoch are stamped when it is appended."""
    builder = _new_epoch_batch(action.leader_id, action.voters, action.granting_voters, now_ms)
    if action.kraft_version is not None:
        record = records.KRaftVersionRecord(version=0, kraft_version=action.kraft_version)
        builder.append(now_ms, ControlRecordType.KRAFT_VERSION.key(), encode_bytes(record, 0))
    if action.voter_set is not None:
        builder.append(
            now_ms, ControlRecordType.KRAFT_VOTERS.key(), encode_voters(action.voter_set)
        )
    return builder.build()


def sole_voter_batch(leader: VoterKey, now_ms: int) -> bytearray:
    """The first batch of an epoch whose leader is the only voter."""
    return _new_epoch_batch(leader.id, (leader,), (leader,), now_ms).build()


def _new_epoch_batch(
    leader_id: int, voters: Sequence[VoterKey], granting: Sequence[VoterKey], now_ms: int
) -> RecordBatchBuilder:
    """A batch that begins with the LeaderChange of an epoch."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[_voter(key) for key in voters],
        granting_voters=[_voter(key) for key in granting],
    )
    builder = RecordBatchBuilder(is_control=True)
    builder.append(now_ms, ControlRecordType.LEADER_CHANGE.key(), encode_bytes(message, 0))
    return builder


def _voter(key: VoterKey) -> Elector:
    return Elector(voter_id=key.id)


def voters_batch(voters: VoterSet, now_ms: int) -> bytearray:
    """A control batch with one Voters record."""
    builder = RecordBatchBuilder(is_control=True)
    builder.append(now_ms, ControlRecordType.KRAFT_VOTERS.key(), encode_voters(voters))
    return builder.build()


def encode_voters(voters: VoterSet) -> bytes:
    """The value of a Voters record, version 0."""
    record = records.VotersRecord(
        version=0,
        voters=[
            records.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    records.Endpoint(name=name, host=address.host, port=address.port)
                    for name, address in voter.endpoints.items()
                ],
                kraft_version_feature=records.KRaftVersionFeature(
                    min_supported_version=voter.kraft_version.minimum,
                    max_supported_version=voter.kraft_version.maximum,
                ),
            )
            for voter in voters
        ],
    )
    return encode_bytes(record, 0)


def decode_voters(value: bytes) -> VoterSet:
    """The voter set of a Voters record. Raises KafkaError(CORRUPT_MESSAGE) for anything else."""
    record = decode(records.VotersRecord, 0, memoryview(value))[0]
    return VoterSet(
        Voter(
            VoterKey(voter.voter_id, voter.voter_directory_id),
            {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
            KRaftVersionRange(
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            ),
        )
        for voter in record.voters
    )


def voter_sets(batch: RecordBatch) -> Iterator[tuple[int, VoterSet]]:
    """The Voters records of a control batch, with their offsets, for `RaftCore.handle_voters`."""
    for record in batch.records() if batch.is_control else ():
        if ControlRecordType.parse(record.key) is ControlRecordType.KRAFT_VOTERS:
            yield record.offset, decode_voters(record.value or b"")

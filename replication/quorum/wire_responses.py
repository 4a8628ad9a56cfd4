"""Responses of the quorum, from the core's values to the wire and back."""

import logging
from collections.abc import Iterable, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages import (
    begin_quorum_epoch as begin,
    end_quorum_epoch as end,
    fetch,
    fetch_snapshot as snapshot,
    update_raft_voter as update,
    vote,
)
from ...clients.protocol.messages.raft_endpoints import NodeEndpoint
from ...clients.protocol.schema import Chunk, Message
from ...clients.record.batch import RecordBatch, batches
from ...storage.files import FileRegion
from ...storage.manager.log_dirs import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..raft import raft_messages as core
from ..raft.voter_set import Address

_NO_ADDRESS = Address("", 0)

_log = logging.getLogger(__name__)

RESPONSE_CLASSES: dict[type[object], type[Message]] = {
    core.VoteRequest: vote.VoteResponse,
    core.BeginQuorumEpochRequest: begin.BeginQuorumEpochResponse,
    core.EndQuorumEpochRequest: end.EndQuorumEpochResponse,
    core.FetchRequest: fetch.FetchResponse,
    core.FetchSnapshotRequest: snapshot.FetchSnapshotResponse,
    core.UpdateVoterRequest: update.UpdateRaftVoterResponse,
}
"""The message that answers each request."""


def wire_response(
    response: core.RaftResponse, records: bytes | memoryview | FileRegion | None = None
) -> Message:
    """The message to be sent. `records` are those of a Fetch or FetchSnapshot response."""
    match response:
        case core.VoteResponse():
            return _vote(response)
        case core.BeginQuorumEpochResponse():
            return _begin(response)
        case core.EndQuorumEpochResponse():
            return _end(response)
        case core.FetchResponse():
            return _fetch(response, records)
        case core.FetchSnapshotResponse():
            return _snapshot(response, records)
        case core.UpdateVoterResponse():
            return _update(response)


def _endpoints(endpoints: Iterable[core.NodeEndpoint]) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(
            node_id=endpoint.node_id, host=endpoint.address.host, port=endpoint.address.port
        )
        for endpoint in endpoints
    ]


def _vote(response: core.VoteResponse) -> Message:
    message = vote.VoteResponse(
        error_code=response.error_code, node_endpoints=_endpoints(response.node_endpoints)
    )
    if not response.error_code:
        partition = vote.PartitionData(
            error_code=response.partition_error_code,
            leader_id=response.leader_id,
            leader_epoch=response.leader_epoch,
            vote_granted=response.vote_granted,
        )
        message.topics = [vote.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    return message


def _leader_topic(
    response: core.BeginQuorumEpochResponse | core.EndQuorumEpochResponse,
) -> list[begin.TopicData]:
    if response.error_code:
        return []
    partition = begin.PartitionData(
        error_code=response.partition_error_code,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
    )
    return [begin.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]


def _begin(response: core.BeginQuorumEpochResponse) -> Message:
    return begin.BeginQuorumEpochResponse(
        error_code=response.error_code,
        topics=_leader_topic(response),
        node_endpoints=_endpoints(response.node_endpoints),
    )


def _end(response: core.EndQuorumEpochResponse) -> Message:
    return end.EndQuorumEpochResponse(
        error_code=response.error_code,
        topics=_leader_topic(response),
        node_endpoints=_endpoints(response.node_endpoints),
    )


def _fetch(
    response: core.FetchResponse, records: bytes | memoryview | FileRegion | None
) -> Message:
    message = fetch.FetchResponse(
        error_code=response.error_code,
        node_endpoints=[
            fetch.NodeEndpoint(
                node_id=endpoint.node_id, host=endpoint.address.host, port=endpoint.address.port
            )
            for endpoint in response.node_endpoints
        ],
    )
    if response.error_code:
        return message
    partition = fetch.PartitionData(
        error_code=response.partition_error_code,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.leader_epoch
        ),
        records=b"" if records is None else records,
    )
    if response.diverging_epoch is not None:
        diverging = response.diverging_epoch
        partition.diverging_epoch = fetch.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.offset
        )
    if response.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            end_offset=response.snapshot_id.offset, epoch=response.snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    message.responses = [topic]
    return message


def _snapshot(
    response: core.FetchSnapshotResponse, records: bytes | memoryview | FileRegion | None
) -> Message:
    message = snapshot.FetchSnapshotResponse(
        error_code=response.error_code, node_endpoints=_endpoints(response.node_endpoints)
    )
    if response.error_code:
        return message
    partition = snapshot.PartitionSnapshot(
        error_code=response.partition_error_code,
        snapshot_id=snapshot.SnapshotId(
            end_offset=response.snapshot_id.offset, epoch=response.snapshot_id.epoch
        ),
        current_leader=snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.leader_epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.unaligned_records if records is None else records,
    )
    topic = snapshot.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    message.topics = [topic]
    return message


def _update(response: core.UpdateVoterResponse) -> Message:
    message = update.UpdateRaftVoterResponse(
        error_code=response.error_code or response.partition_error_code
    )
    if not response.error_code:
        addresses = {endpoint.node_id: endpoint.address for endpoint in response.node_endpoints}
        host, port = addresses.get(response.leader_id, _NO_ADDRESS)
        message.current_leader = update.CurrentLeader(
            leader_id=response.leader_id, leader_epoch=response.leader_epoch, host=host, port=port
        )
    return message


def core_response(message: Message) -> core.RaftResponse | None:
    """The value that the core handles; None if the response names anything but one partition.

    Raises KafkaError(CORRUPT_MESSAGE) for records without an undamaged batch.
    """
    match message:
        case vote.VoteResponse():
            return _core_vote(message)
        case begin.BeginQuorumEpochResponse():
            return _core_begin(message)
        case end.EndQuorumEpochResponse():
            return _core_end(message)
        case fetch.FetchResponse():
            return _core_fetch(message)
        case snapshot.FetchSnapshotResponse():
            return _core_snapshot(message)
        case update.UpdateRaftVoterResponse():
            return _core_update(message)
        case _:
            raise AssertionError(f"{type(message).__name__} is not a response of the quorum.")


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        # A later version of Kafka may have more of them.
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _core_endpoints(
    endpoints: Sequence[NodeEndpoint] | Sequence[fetch.NodeEndpoint],
) -> tuple[core.NodeEndpoint, ...]:
    return tuple(
        core.NodeEndpoint(endpoint.node_id, Address(endpoint.host, endpoint.port))
        for endpoint in endpoints
    )


def _core_vote(message: vote.VoteResponse) -> core.VoteResponse | None:
    if message.error_code:
        return core.VoteResponse(error_code=_error(message.error_code))
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    (partition,) = message.topics[0].partitions
    return core.VoteResponse(
        partition_error_code=_error(partition.error_code),
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        node_endpoints=_core_endpoints(message.node_endpoints),
        vote_granted=partition.vote_granted,
    )


def _core_begin(
    message: begin.BeginQuorumEpochResponse,
) -> core.BeginQuorumEpochResponse | None:
    if message.error_code:
        return core.BeginQuorumEpochResponse(error_code=_error(message.error_code))
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    (partition,) = message.topics[0].partitions
    return core.BeginQuorumEpochResponse(
        partition_error_code=_error(partition.error_code),
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        node_endpoints=_core_endpoints(message.node_endpoints),
    )


def _core_end(message: end.EndQuorumEpochResponse) -> core.EndQuorumEpochResponse | None:
    if message.error_code:
        return core.EndQuorumEpochResponse(error_code=_error(message.error_code))
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    (partition,) = message.topics[0].partitions
    return core.EndQuorumEpochResponse(
        partition_error_code=_error(partition.error_code),
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        node_endpoints=_core_endpoints(message.node_endpoints),
    )


def _core_fetch(message: fetch.FetchResponse) -> core.FetchResponse | None:
    if message.error_code:
        return core.FetchResponse(error_code=_error(message.error_code))
    if len(message.responses) != 1 or len(message.responses[0].partitions) != 1:
        return None
    (partition,) = message.responses[0].partitions
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    return core.FetchResponse(
        partition_error_code=_error(partition.error_code),
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        node_endpoints=_core_endpoints(message.node_endpoints),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=(
            OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None
        ),
        snapshot_id=(
            OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch)
            if snapshot_id.epoch >= 0
            else None
        ),
        records=_sound(partition.records),
    )


def _sound(records: Chunk | None) -> list[RecordBatch]:
    """The batches up to the first damaged or torn one (KAFKA-18723).

    Raises KafkaError(CORRUPT_MESSAGE) if there is none before it.
    """
    sound: list[RecordBatch] = []
    if not isinstance(records, bytes | bytearray | memoryview):
        return sound
    try:
        for batch in batches(memoryview(records)):
            if not batch.crc_is_valid():
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"The CRC of the batch at offset {batch.base_offset} is wrong.",
                )
            sound.append(batch)
    except KafkaError as error:
        _log.warning("A Fetch response of the quorum's leader is damaged: %s", error)
    if records and not sound:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, "A Fetch response of the leader has no undamaged batch."
        )
    return sound


def _core_snapshot(
    message: snapshot.FetchSnapshotResponse,
) -> core.FetchSnapshotResponse | None:
    if message.error_code:
        return core.FetchSnapshotResponse(error_code=_error(message.error_code))
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    (partition,) = message.topics[0].partitions
    records = partition.unaligned_records
    return core.FetchSnapshotResponse(
        partition_error_code=_error(partition.error_code),
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        node_endpoints=_core_endpoints(message.node_endpoints),
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        unaligned_records=records if isinstance(records, bytes | memoryview) else b"",
    )


def _core_update(message: update.UpdateRaftVoterResponse) -> core.UpdateVoterResponse:
    leader, error = message.current_leader, _error(message.error_code)
    if leader.leader_epoch < 0:
        return core.UpdateVoterResponse(error_code=error)
    address = Address(leader.host, leader.port)
    return core.UpdateVoterResponse(
        partition_error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        node_endpoints=(core.NodeEndpoint(leader.leader_id, address),) if leader.host else (),
    )

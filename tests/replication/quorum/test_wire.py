"""The quorum's requests and responses survive the wire, in every version that has their fields."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages import fetch as fetch_wire, vote as vote_wire
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.replication.quorum.wire_requests import core_request, wire_request
from tierlog.replication.quorum.wire_responses import RESPONSE_CLASSES, core_response, wire_response
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NodeEndpoint,
    RaftRequest,
    RaftResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from tierlog.replication.raft.voter_set import Address, KRaftVersionRange, VoterKey
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

DIRECTORY = Uuid(b"a directory of 2")
ADDRESS = Address("127.0.0.1", 9093)
ENDPOINTS = (NodeEndpoint(2, ADDRESS),)
LISTENERS = (("CONTROLLER", ADDRESS),)

REQUESTS: list[tuple[RaftRequest, int]] = [
    (VoteRequest("c", 1, DIRECTORY, 2, DIRECTORY, 7, 100, 6, pre_vote=True), 2),
    (VoteRequest(None, 1, DIRECTORY, 2, DIRECTORY, 7, 100, 6), 1),
    (VoteRequest("c", -1, ZERO_UUID, 2, ZERO_UUID, 7, 100, 6), 0),
    (BeginQuorumEpochRequest("c", 1, DIRECTORY, 2, 7, LISTENERS), 1),
    (BeginQuorumEpochRequest("c", -1, ZERO_UUID, 2, 7), 0),
    (EndQuorumEpochRequest("c", 2, 7, (VoterKey(3, DIRECTORY), VoterKey(1)), LISTENERS), 1),
    (EndQuorumEpochRequest("c", 2, 7, (VoterKey(3), VoterKey(1))), 0),
    (FetchRequest("c", 2, DIRECTORY, 7, 100, 6, high_watermark=90, max_wait_ms=500), 18),
    (FetchRequest("c", 2, DIRECTORY, 7, 100, 6, max_wait_ms=500), 17),
    (FetchRequest("c", 2, ZERO_UUID, 7, 100, 6, max_wait_ms=500), 15),
    (FetchSnapshotRequest("c", 2, DIRECTORY, 7, OffsetAndEpoch(50, 3), 4096, 1 << 20), 1),
    (FetchSnapshotRequest(None, 2, ZERO_UUID, 7, OffsetAndEpoch(50, 3), 4096, 1 << 20), 0),
    (UpdateVoterRequest("c", 7, 1, DIRECTORY, LISTENERS, KRaftVersionRange(0, 1)), 0),
]

RESPONSES: list[tuple[type[RaftRequest], RaftResponse, int]] = [
    (VoteRequest, VoteResponse(leader_id=2, leader_epoch=7, node_endpoints=ENDPOINTS), 2),
    (VoteRequest, VoteResponse(leader_epoch=7, vote_granted=True), 0),
    (VoteRequest, VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), 1),
    (
        BeginQuorumEpochRequest,
        BeginQuorumEpochResponse(ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, 2, 7, ENDPOINTS),
        1,
    ),
    (BeginQuorumEpochRequest, BeginQuorumEpochResponse(leader_id=2, leader_epoch=7), 0),
    (EndQuorumEpochRequest, EndQuorumEpochResponse(leader_epoch=7), 0),
    (EndQuorumEpochRequest, EndQuorumEpochResponse(leader_epoch=7, node_endpoints=ENDPOINTS), 1),
    (
        FetchRequest,
        FetchResponse(
            leader_id=2,
            leader_epoch=7,
            node_endpoints=ENDPOINTS,
            high_watermark=90,
            log_start_offset=3,
            records=[],
        ),
        18,
    ),
    (FetchRequest, FetchResponse(diverging_epoch=OffsetAndEpoch(60, 5), records=[]), 17),
    (FetchRequest, FetchResponse(snapshot_id=OffsetAndEpoch(60, 5), records=[]), 12),
    (FetchRequest, FetchResponse(error_code=ErrorCode.INVALID_REQUEST), 15),
    (
        FetchSnapshotRequest,
        FetchSnapshotResponse(
            leader_id=2,
            leader_epoch=7,
            node_endpoints=ENDPOINTS,
            snapshot_id=OffsetAndEpoch(50, 3),
            size=8192,
            position=4096,
            unaligned_records=b"some bytes",
        ),
        1,
    ),
    (FetchSnapshotRequest, FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), 0),
    (UpdateVoterRequest, UpdateVoterResponse(ErrorCode.INCONSISTENT_CLUSTER_ID), 0),
    (
        UpdateVoterRequest,
        UpdateVoterResponse(ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 7, ENDPOINTS),
        0,
    ),
    (UpdateVoterRequest, UpdateVoterResponse(leader_epoch=7), 0),
]


def over_the_wire(message: Message, version: int) -> Message:
    decoded, _ = decode(type(message), version, memoryview(encode_bytes(message, version)))
    return decoded


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_a_request_arrives_as_it_was_sent(request_: RaftRequest, version: int) -> None:
    assert core_request(over_the_wire(wire_request(request_), version), version) == request_


@pytest.mark.parametrize(("asked", "response", "version"), RESPONSES)
def test_a_response_arrives_as_it_was_sent(
    asked: type[RaftRequest], response: RaftResponse, version: int
) -> None:
    message = over_the_wire(wire_response(response), version)

    assert isinstance(message, RESPONSE_CLASSES[asked])
    received = core_response(message)
    assert received == response


def test_a_request_for_another_partition_is_distinguished() -> None:
    for change in ("another topic", "another partition", "two topics", "no topic"):
        message = wire_request(VoteRequest("c", 1, DIRECTORY, 2, DIRECTORY, 7, 100, 6))
        assert isinstance(message, vote_wire.VoteRequest)
        (topic,) = message.topics
        match change:
            case "another topic":
                topic.topic_name = "orders"
            case "another partition":
                topic.partitions[0].partition_index = 1
            case "two topics":
                message.topics.append(topic)
            case _:
                message.topics.clear()
        request = core_request(over_the_wire(message, 2), 2)
        assert isinstance(request, VoteRequest)
        assert not request.is_metadata_partition, change


def fetched(records: bytes) -> FetchResponse:
    message = wire_response(FetchResponse(leader_id=2, leader_epoch=7), records)
    received = core_response(over_the_wire(message, 17))
    assert isinstance(received, FetchResponse)
    return received


def test_batches_arrive_up_to_the_first_damaged_or_torn_one() -> None:
    def batch(first: int) -> bytes:
        builder = RecordBatchBuilder()
        builder.append(1_000, None, b"value")
        built = builder.build()
        built[:8] = first.to_bytes(8, "big")
        return bytes(built)

    whole = batch(0) + batch(1)
    assert [each.base_offset for each in fetched(whole + batch(2)).records] == [0, 1, 2]
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    assert [each.base_offset for each in fetched(whole + damaged + batch(3)).records] == [0, 1]
    assert [each.base_offset for each in fetched(whole + batch(2)[:-1]).records] == [0, 1]
    assert [each.base_offset for each in fetched(whole + bytes(80)).records] == [0, 1]
    with pytest.raises(KafkaError, match="no undamaged batch"):
        fetched(bytes(damaged) + batch(3))


def test_a_response_without_its_partition_is_no_response() -> None:
    assert core_response(vote_wire.VoteResponse()) is None
    assert core_response(fetch_wire.FetchResponse()) is None


def test_an_error_code_of_a_later_kafka_is_an_unknown_error() -> None:
    response = core_response(vote_wire.VoteResponse(error_code=30_000))
    assert response is not None
    assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR

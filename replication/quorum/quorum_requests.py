"""Answers the quorum's requests as they come from the wire (Kafka's `KafkaRaftClient.handle`)."""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ..raft import raft_messages as core
from .quorum import Quorum
from .wire_requests import core_request
from .wire_responses import wire_response

_REFUSED: dict[type[core.RaftRequest], type[core.RaftResponse]] = {
    core.VoteRequest: core.VoteResponse,
    core.BeginQuorumEpochRequest: core.BeginQuorumEpochResponse,
    core.EndQuorumEpochRequest: core.EndQuorumEpochResponse,
    core.FetchRequest: core.FetchResponse,
    core.FetchSnapshotRequest: core.FetchSnapshotResponse,
    core.UpdateVoterRequest: core.UpdateVoterResponse,
}
_FIRST_WITH_ENDPOINTS: dict[type[core.RaftRequest], int] = {
    core.VoteRequest: 1,
    core.BeginQuorumEpochRequest: 1,
    core.EndQuorumEpochRequest: 1,
    core.FetchRequest: 16,
    core.FetchSnapshotRequest: 1,
    core.UpdateVoterRequest: 0,
}
"""The first version of each response that holds the leader's address (KIP-853)."""

_FIRST_FETCH_WITH_EPOCHS = 12
"""The first version of Fetch that a replica of the metadata log may use (KIP-595)."""


async def answer(quorum: Quorum, message: Message, version: int) -> Message:
    """The response to a request of another node: each has a key in `_REFUSED`.

    `version` is that of the request. A node that stops, or that has failed, answers
    BROKER_NOT_AVAILABLE. A Fetch waits as long as its sender allows.
    """
    request = core_request(message, version)
    kind = type(request)
    if kind is core.FetchRequest and version < _FIRST_FETCH_WITH_EPOCHS:
        return wire_response(core.FetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    try:
        response, records = await quorum.handle(request)
    except KafkaError as error:
        return wire_response(_REFUSED[kind](error_code=error.code))
    if version < _FIRST_WITH_ENDPOINTS[kind]:
        response = response._replace(node_endpoints=())
    return wire_response(response, records)

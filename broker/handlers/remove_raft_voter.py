"""RemoveRaftVoter (key 81), version 0: a voter becomes an observer (KIP-853)."""

from ...clients.errors import KafkaError
from ...clients.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ...replication.raft.raft_messages import RemoveVoterRequest
from ..request.context import NodeContext, RequestContext

_TIMEOUT_MS = "controller.quorum.request.timeout.ms"


async def handle(
    node: NodeContext, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Remove the voter, and answer when that is committed."""
    assert node.member is not None, "Only a member of a cluster serves it."
    change = RemoveVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        timeout_ms=node.config.values.integer(_TIMEOUT_MS),
    )
    try:
        response = await node.member.quorum.quorum.handle_voter_change(change)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    return RemoveRaftVoterResponse(
        error_code=response.error_code, error_message=response.error_message
    )

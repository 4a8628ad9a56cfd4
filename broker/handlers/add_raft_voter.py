"""AddRaftVoter (key 80), versions 0-1: a controller becomes a voter (KIP-853).

v1: may be answered before the new set of voters is committed
"""

from ...clients.errors import KafkaError
from ...clients.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ...replication.raft.raft_messages import AddVoterRequest
from ...replication.raft.voter_set import Address
from ..request.context import NodeContext, RequestContext

_TIMEOUT_MS = "controller.quorum.request.timeout.ms"
"""How long Kafka's leader waits for the commit, whatever the request says."""


async def handle(
    node: NodeContext, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Add the voter, and answer when that is committed."""
    assert node.member is not None, "Only a member of a cluster serves it."
    change = AddVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        listeners=tuple(
            (listener.name, Address(listener.host, listener.port)) for listener in request.listeners
        ),
        timeout_ms=node.config.values.integer(_TIMEOUT_MS),
        ack_when_committed=request.ack_when_committed,
    )
    try:
        response = await node.member.quorum.quorum.handle_voter_change(change)
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
    return AddRaftVoterResponse(
        error_code=response.error_code, error_message=response.error_message
    )

"""UpdateRaftVoter (key 82), version 0: a voter sends the leader its endpoints (KIP-853)."""

from ....clients.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ....clients.protocol.schema import Message
from ....replication.quorum.quorum_requests import answer
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: UpdateRaftVoterRequest
) -> Message:
    """Answer it, when the leader has appended the change."""
    assert node.member is not None, "Only a member of a cluster serves it."
    return await answer(node.member.quorum.quorum, request, context.api_version)

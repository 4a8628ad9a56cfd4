"""Vote (key 52), versions 0-2: asks for this node's vote in an epoch (KIP-595, KIP-996)."""

from ....clients.protocol.messages.vote_request import VoteRequest
from ....clients.protocol.schema import Message
from ....replication.quorum.quorum_requests import answer
from ...request.context import NodeContext, RequestContext


async def handle(node: NodeContext, context: RequestContext, request: VoteRequest) -> Message:
    """Answer it, when the quorum has performed what it takes."""
    assert node.member is not None, "Only a member of a cluster serves it."
    return await answer(node.member.quorum.quorum, request, context.api_version)

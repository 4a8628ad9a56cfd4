"""Fetch (key 1) of the metadata log: replicas of it fetch from the quorum's leader (KIP-595)."""

from ....clients.protocol.messages.fetch import FetchRequest
from ....clients.protocol.schema import Message
from ....replication.quorum.quorum_requests import answer
from ...request.context import NodeContext, RequestContext


async def handle(node: NodeContext, context: RequestContext, request: FetchRequest) -> Message:
    """Answer it, when the quorum has performed what it takes."""
    assert node.member is not None, "Only a member of a cluster serves it."
    return await answer(node.member.quorum.quorum, request, context.api_version)

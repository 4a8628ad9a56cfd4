"""EndQuorumEpoch (key 54), versions 0-1: a leader says that it resigns (KIP-595)."""

from ....clients.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ....clients.protocol.schema import Message
from ....replication.quorum.quorum_requests import answer
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: EndQuorumEpochRequest
) -> Message:
    """Answer it, when the quorum has performed what it takes."""
    assert node.member is not None, "Only a member of a cluster serves it."
    return await answer(node.member.quorum.quorum, request, context.api_version)

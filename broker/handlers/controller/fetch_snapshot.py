"""FetchSnapshot (key 59), versions 0-1: bytes of a metadata snapshot (KIP-630)."""

from ....clients.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ....clients.protocol.schema import Message
from ....replication.quorum.quorum_requests import answer
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: FetchSnapshotRequest
) -> Message:
    """Answer it, when the quorum has performed what it takes."""
    assert node.member is not None, "Only a member of a cluster serves it."
    return await answer(node.member.quorum.quorum, request, context.api_version)

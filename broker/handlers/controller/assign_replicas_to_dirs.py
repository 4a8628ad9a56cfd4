"""AssignReplicasToDirs (key 73), version 0: where a broker has its replicas (KIP-858)."""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, _context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Record each replica's directory; the response is sent once the changes are committed."""
    try:
        return await cluster_control(node).assign_replicas(request)
    except KafkaError as error:
        return AssignReplicasToDirsResponse(error_code=error.code)

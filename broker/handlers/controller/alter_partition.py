"""AlterPartition (key 56), versions 2-3: a leader asks for another ISR (KIP-497).

v2: topic ids (KIP-841)
v3: the broker epochs of the ISR's members (KIP-903)
"""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, _context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Decide on each partition; the response is sent once the changes are committed."""
    try:
        return await cluster_control(node).alter_partition(request)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)

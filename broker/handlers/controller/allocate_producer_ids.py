"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker (KIP-730)."""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, _context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Allocate a block; the response is sent once its record is committed."""
    try:
        first, count = await cluster_control(node).allocate_producer_ids(
            request.broker_id, request.broker_epoch
        )
    except KafkaError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=count)

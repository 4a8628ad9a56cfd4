"""BrokerHeartbeat (key 63), versions 0-2: a broker is alive, and may serve or stop (KIP-631).

v1: failed log directories (KIP-858)
v2: log directories that get no new replicas
"""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ....replication.control.brokers.broker_states import Heartbeat
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Note the heartbeat; the response is sent once what it changes is committed."""
    heartbeat = Heartbeat(
        request.current_metadata_offset, request.want_fence, request.want_shut_down
    )
    try:
        answer = await cluster_control(node).heartbeat(
            request.broker_id,
            request.broker_epoch,
            heartbeat,
            request.offline_log_dirs,
            request.cordoned_log_dirs,
            context.connection,
        )
    except KafkaError as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )

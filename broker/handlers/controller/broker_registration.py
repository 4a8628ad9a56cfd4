"""BrokerRegistration (key 62), versions 0-4: a broker that starts gets an epoch (KIP-631).

v1: flag of migrations from ZooKeeper
v2: log directories (KIP-858); without them a registration is refused
v3: the broker epoch before a clean stop (KIP-966)
v4: features whose lowest version is 0
"""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ....replication.control.brokers.registration import BrokerRegistrationData
from ....replication.metadata.cluster_image import Endpoint
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, _context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Register the broker; the response is sent once the record is committed."""
    data = BrokerRegistrationData(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        # Of two listeners of one name the last counts.
        endpoints=list(
            {
                listener.name: Endpoint(
                    listener.name, listener.host, listener.port, listener.security_protocol
                )
                for listener in request.listeners
            }.values()
        ),
        features={
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
        directories=request.log_dirs,
        rack=request.rack,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        previous_broker_epoch=request.previous_broker_epoch,
    )
    try:
        epoch = await cluster_control(node).register_broker(data)
    except KafkaError as error:
        return BrokerRegistrationResponse(error_code=error.code)
    return BrokerRegistrationResponse(broker_epoch=epoch)

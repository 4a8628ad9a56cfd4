"""ControllerRegistration (key 70), version 0: a controller's addresses and features (KIP-919)."""

from ....clients.errors import KafkaError
from ....clients.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ....replication.control.brokers.registration import ControllerRegistrationData
from ....replication.metadata.cluster_image import Endpoint
from ...request.cluster_control import cluster_control
from ...request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, _context: RequestContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Register the controller; the response is sent once the record is committed."""
    data = ControllerRegistrationData(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=[
            Endpoint(listener.name, listener.host, listener.port, listener.security_protocol)
            for listener in request.listeners
        ],
        features={
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
        zk_migration_ready=request.zk_migration_ready,
    )
    try:
        await cluster_control(node).register_controller(data)
    except KafkaError as error:
        return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
    return ControllerRegistrationResponse()

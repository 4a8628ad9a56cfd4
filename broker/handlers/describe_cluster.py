"""DescribeCluster (key 60), versions 0-2: the brokers, without topics, or the controllers.

v1: says whether brokers or controllers are meant, which must fit the listener (KIP-919)
v2: may request fenced brokers too (KIP-1073)
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.api import ListenerKind
from ...clients.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ...security.access import access_of
from ..request.authorized_operations import OPERATIONS_NOT_REQUESTED, cluster_operations
from ..request.context import NodeContext, RequestContext
from ..request.controller_id import controller_id

_ENDPOINT_TYPES = {1: ListenerKind.BROKER, 2: ListenerKind.CONTROLLER}


def handle(
    broker: NodeContext, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the cluster."""
    kind = context.listener_kind
    described = _ENDPOINT_TYPES.get(request.endpoint_type)
    if described is None:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    if described is not kind:
        # Clients of version 0 do not know the newer error.
        is_known = context.api_version >= 1
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if is_known
            else ErrorCode.INVALID_REQUEST,
            error_message=f"The request was sent to an endpoint of type {kind.value}, but we wanted"
            f" an endpoint of type {described.value}",
        )
    image = broker.controller.image
    is_requested = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=image.cluster_id,
        controller_id=controller_id(broker, context),
        brokers=(
            _brokers(broker, context.listener, request.include_fenced_brokers)
            if kind is ListenerKind.BROKER
            else _controllers(broker, context.listener)
        ),
        cluster_authorized_operations=cluster_operations(access_of(broker, context))
        if is_requested
        else OPERATIONS_NOT_REQUESTED,
    )


def _controllers(broker: NodeContext, listener: str) -> list[DescribeClusterBroker]:
    """The registered controllers; without others, this process is the only one."""
    if broker.member is not None:
        return [
            DescribeClusterBroker(
                broker_id=controller.controller_id, host=endpoint.host, port=endpoint.port
            )
            for controller in broker.controller.image.controllers.values()
            if (endpoint := controller.endpoints.get(listener)) is not None
        ]
    return [
        DescribeClusterBroker(
            broker_id=broker.config.node_id, host=controller.host, port=controller.port
        )
        for controller in broker.listeners.advertised_controllers
        if controller.name == listener
    ]


def _brokers(
    broker: NodeContext, listener: str, includes_fenced: bool
) -> list[DescribeClusterBroker]:
    image = broker.controller.image
    brokers: list[DescribeClusterBroker] = []
    for each in image.brokers.values():
        endpoint = each.endpoints.get(listener)
        if endpoint is None or (each.fenced and not includes_fenced):
            continue
        brokers.append(
            DescribeClusterBroker(
                broker_id=each.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=each.rack,
                is_fenced=each.fenced,
            )
        )
    return brokers

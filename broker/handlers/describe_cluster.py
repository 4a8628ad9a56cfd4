"""DescribeCluster (key 60), versions 0-2: the brokers, without topics.

v1: may request controllers instead (KIP-919), whose listener a single voter does not open
v2: may request fenced brokers too (KIP-1073)
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..request.authorized_operations import CLUSTER_OPERATIONS, OPERATIONS_NOT_REQUESTED
from ..request.context import BrokerContext, RequestContext

_BROKERS = 1
_CONTROLLERS = 2


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the cluster."""
    if request.endpoint_type != _BROKERS:
        unknown = request.endpoint_type != _CONTROLLERS
        code = (
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE if unknown else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=code,
            error_message="The request was sent to an endpoint of type BROKER, but it wants an"
            f" endpoint of type {'UNKNOWN' if unknown else 'CONTROLLER'}",
        )
    image = broker.controller.image
    brokers: list[DescribeClusterBroker] = []
    for each in image.brokers.values():
        endpoint = each.endpoints.get(context.listener)
        if endpoint is None or (each.fenced and not request.include_fenced_brokers):
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
    is_requested = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if is_requested
        else OPERATIONS_NOT_REQUESTED,
    )

"""ListConfigResources (key 74), versions 0-1: the resources that have a configuration.

v0: client metrics subscriptions only (KIP-1000)
v1: the requested types: topics, brokers, and groups and subscriptions with properties set
    (KIP-1142)
"""

from collections.abc import Iterable

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ...replication.metadata.cluster_image import ClusterImage, ConfigResourceType
from ..request.context import BrokerContext, RequestContext

# In Kafka's order.
_LISTED = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


def handle(
    broker: BrokerContext, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources, type by type."""
    if context.api_version == 0:
        resource_types = {int(ConfigResourceType.CLIENT_METRICS)}
    else:
        resource_types = set(request.resource_types) or set(map(int, _LISTED))
    if not resource_types.issubset(_LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = broker.controller.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _LISTED
            if kind in resource_types
            for name in _names(image, kind)
        ]
    )


def _names(image: ClusterImage, kind: ConfigResourceType) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return image.topics_by_name
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return map(str, image.brokers)
    return [name for resource_type, name in image.configs if resource_type == kind]

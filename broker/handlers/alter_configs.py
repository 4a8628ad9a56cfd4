"""AlterConfigs (key 33), versions 0-2: replaces the whole configuration of resources.

A property that the request does not name returns to its default. Superseded by
IncrementalAlterConfigs, key 44 (KIP-339).

v1: throttles after the response
v2: flexible
"""

from ...clients.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from ...replication.control.configs.alter_configs import (
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
)
from ...replication.metadata.cluster_image import ConfigResource
from ..request.config_changes import change_configs
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Make the valid changes; each resource has its own result."""
    alterations = [
        ConfigAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            [
                ConfigChange(config.name, ConfigOperation.SET, config.value)
                for config in resource.configs
            ],
            replaces=True,
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(
        responses=await change_configs(broker, context, alterations, request.validate_only)
    )

"""AlterConfigs (key 33), versions 0-2: replaces the whole configuration of resources.

A property that the request does not name returns to its default. Superseded by
IncrementalAlterConfigs, key 44 (KIP-339).

v1: throttles after the response
v2: flexible
"""

from ...clients.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
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
    results = await change_configs(broker, context, alterations, request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=each.error_code,
                error_message=each.error_message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in results
        ]
    )

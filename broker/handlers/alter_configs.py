"""AlterConfigs (key 33), versions 0-2: gives resources a whole new configuration; what is not named
goes back to its default. Key 44 has superseded it (KIP-339).

1 throttles after the answer, 2 is the first flexible version.
"""

from ...clients.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ...replication.controller.alter_configs import ConfigAlteration, ConfigChange, ConfigOperation
from ...replication.metadata.cluster_image import ConfigResource
from ..request.config_changes import change_configs
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Change what can be changed; each resource is answered by itself."""
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
    results = await change_configs(broker, alterations, request.validate_only)
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

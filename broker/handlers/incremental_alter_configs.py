"""IncrementalAlterConfigs (key 44), versions 0-1: changes single properties (KIP-339).

Resources are topics, this broker or all brokers, this broker's loggers, groups and client metrics
subscriptions.

v1: flexible; nothing else changed
"""

from ...clients.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...replication.control.configs.alter_configs import ConfigAlteration, ConfigChange
from ...replication.metadata.cluster_image import ConfigResource
from ..request.config_changes import change_configs
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Make the valid changes; each resource has its own result."""
    alterations = [
        ConfigAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            [
                ConfigChange(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
        )
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(
        responses=await change_configs(broker, context, alterations, request.validate_only)
    )

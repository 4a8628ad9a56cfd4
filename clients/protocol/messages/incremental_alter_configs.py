"""IncrementalAlterConfigs (key 44): changes individual properties of resources (KIP-339).

Versions: 1 flexible.
"""

from ..schema import Message, Struct, field, int8, int32
from .alter_configs import AlterConfigsResourceResponse


class AlterableConfig(Struct):
    """One change: 0 set, 1 delete, 2 append to a list, 3 subtract from it."""

    name: str = field("0+")
    config_operation: int8 = field("0+")
    value: str | None = field("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """A resource and its configuration changes."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[AlterableConfig] = field("0+")


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """The resources with their changes."""

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    """The result for each resource."""

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")

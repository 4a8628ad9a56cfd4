"""AlterConfigs (key 33): replaces the whole configuration of resources; superseded by key 44.

Versions: 1 throttles after the response; 2 flexible.
"""

from ..schema import Message, Struct, field, int8, int16, int32


class AlterableConfig(Struct):
    """One property and its value."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """A resource and its complete new configuration."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[AlterableConfig] = field("0+")


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    """The resources with their new configurations."""

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    """The result for each resource."""

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")

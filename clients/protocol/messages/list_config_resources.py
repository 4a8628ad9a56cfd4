"""ListConfigResources (key 74): the resources that have a configuration (KIP-1142).

Versions: 0 lists client metrics only (KIP-1000); 1 selects resource types.
"""

from ..schema import Message, Struct, field, int8, int16, int32


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    """The resource types to list; an empty list means all."""

    resource_types: list[int8] = field("1+")


class ConfigResource(Struct):
    """One resource."""

    resource_name: str = field("0+")
    resource_type: int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    """The existing resources."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    config_resources: list[ConfigResource] = field("0+")

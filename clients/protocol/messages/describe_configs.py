"""DescribeConfigs (key 32): configuration of brokers, topics and groups, and its sources.

Versions: 1 synonyms and the source of each value (KIP-226); 3 type and documentation; 4 flexible.
"""

from ..schema import Message, Struct, field, int8, int16, int32


class DescribeConfigsResource(Struct):
    """One resource, and the configs to describe; null means all."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configuration_keys: list[str] | None = field("0+", nullable="0+")


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    """The resources to describe."""

    resources: list[DescribeConfigsResource] = field("0+")
    include_synonyms: bool = field("1+")
    include_documentation: bool = field("3+")


class DescribeConfigsSynonym(Struct):
    """A possible source of the value; synonyms are in order of precedence."""

    name: str = field("1+")
    value: str | None = field("1+", nullable="0+")
    source: int8 = field("1+")


class DescribeConfigsResourceResult(Struct):
    """One config with its value, which is null if sensitive."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")
    read_only: bool = field("0+")
    config_source: int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: bool = field("0+")
    synonyms: list[DescribeConfigsSynonym] = field("1+", ignorable=True)
    config_type: int8 = field("3+", ignorable=True)
    documentation: str | None = field("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The configuration of one resource."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[DescribeConfigsResourceResult] = field("0+")


class DescribeConfigsResponse(Message, key=32, versions="1-4", flexible="4+"):
    """The resources, each with its configs or an error."""

    throttle_time_ms: int32 = field("0+")
    results: list[DescribeConfigsResult] = field("0+")

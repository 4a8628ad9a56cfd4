"""DescribeAcls (key 29): access control entries that match a filter.

Versions: 1 pattern types (KIP-290); 2 flexible; 3 user resource type (KIP-373).
"""

from ..schema import Message, Struct, field, int8, int16, int32


class DescribeAclsRequest(Message, key=29, versions="1-3", flexible="2+"):
    """The filter; null matches any name, principal or host."""

    resource_type_filter: int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class AclDescription(Struct):
    """One entry: principal, host, operation, and whether it is allowed."""

    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DescribeAclsResource(Struct):
    """The entries of one resource."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: int8 = field("1+", default=3)
    acls: list[AclDescription] = field("0+")


class DescribeAclsResponse(Message, key=29, versions="1-3", flexible="2+"):
    """The entries by resource."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resources: list[DescribeAclsResource] = field("0+")

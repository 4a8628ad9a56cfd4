"""DeleteAcls (key 31): deletes access control entries that match filters.

Versions: 1 pattern types (KIP-290); 2 flexible; 3 user resource type (KIP-373).
"""

from ..schema import Message, Struct, field, int8, int16, int32


class DeleteAclsFilter(Struct):
    """One filter; null matches any name, principal or host."""

    resource_type_filter: int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    """The filters."""

    filters: list[DeleteAclsFilter] = field("0+")


class DeleteAclsMatchingAcl(Struct):
    """A matching entry, and the result of its deletion."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DeleteAclsFilterResult(Struct):
    """The entries that one filter matched."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field("0+")


class DeleteAclsResponse(Message, key=31, versions="1-3", flexible="2+"):
    """The results, in the order of the filters."""

    throttle_time_ms: int32 = field("0+")
    filter_results: list[DeleteAclsFilterResult] = field("0+")

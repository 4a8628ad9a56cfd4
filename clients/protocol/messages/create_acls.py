"""CreateAcls (key 30): new access control entries.

Versions: 1 pattern types (KIP-290); 2 flexible; 3 user resource type (KIP-373).
"""

from ..schema import Message, Struct, field, int8, int16, int32


class AclCreation(Struct):
    """One entry."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    resource_pattern_type: int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    """The entries to create."""

    creations: list[AclCreation] = field("0+")


class AclCreationResult(Struct):
    """The result for one entry."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class CreateAclsResponse(Message, key=30, versions="1-3", flexible="2+"):
    """The results, in the order of the request."""

    throttle_time_ms: int32 = field("0+")
    results: list[AclCreationResult] = field("0+")

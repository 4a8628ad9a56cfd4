"""What requests say about access control entries: the entries' elements, and filters of them."""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.delete_acls import DeleteAclsFilter
from ...clients.protocol.messages.describe_acls import DescribeAclsRequest
from ...replication.authorizer.acl import AclFilter
from ...replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)


def acl_elements(
    kind: int, pattern: int, operation: int, permission: int, refusal: str
) -> tuple[ResourceType, PatternType, AclOperation, AclPermission]:
    """The four numbers as elements of an entry.

    Raises KafkaError with the message `refusal` for the number of UNKNOWN, which Kafka does not
    read.
    """
    if 0 in (kind, pattern, operation, permission):
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)
    return (
        ResourceType(kind),
        PatternType(pattern),
        AclOperation(operation),
        AclPermission(permission),
    )


def acl_filter(said: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter. Raises KafkaError for the number of UNKNOWN, which Kafka does not read."""
    kind, pattern, operation, permission = acl_elements(
        said.resource_type_filter,
        said.pattern_type_filter,
        said.operation,
        said.permission_type,
        "a filter of access control entries has unknown elements",
    )
    return AclFilter(
        kind,
        said.resource_name_filter,
        pattern,
        said.principal_filter,
        said.host_filter,
        operation,
        permission,
    )

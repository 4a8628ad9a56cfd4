"""Filters of access control entries, as requests have them."""

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


def acl_filter(said: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter. Raises KafkaError for the number of UNKNOWN, which Kafka does not read."""
    numbers = (
        said.resource_type_filter,
        said.pattern_type_filter,
        said.operation,
        said.permission_type,
    )
    if 0 in numbers:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a filter of access control entries has unknown elements"
        )
    kind, pattern, operation, permission = numbers
    return AclFilter(
        ResourceType(kind),
        said.resource_name_filter,
        PatternType(pattern),
        said.principal_filter,
        said.host_filter,
        AclOperation(operation),
        AclPermission(permission),
    )

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
    """The filter. Raises KafkaError for a code that does not exist: Kafka does not read it."""
    made = AclFilter(
        ResourceType(said.resource_type_filter),
        said.resource_name_filter,
        PatternType(said.pattern_type_filter),
        said.principal_filter,
        said.host_filter,
        AclOperation(said.operation),
        AclPermission(said.permission_type),
    )
    if 0 in (made.resource_type, made.pattern, made.operation, made.permission):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "a filter of access control entries contains unknown elements",
        )
    return made

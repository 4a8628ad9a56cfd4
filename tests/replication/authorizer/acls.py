"""An access control entry and a filter of all entries, which tests change as they need."""

from tierlog.replication.authorizer.acl import Acl, AclFilter
from tierlog.replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

ANY = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY
)
ONE = Acl(
    ResourceType.TOPIC,
    "foo-bar",
    PatternType.LITERAL,
    "User:a",
    "10.0.0.1",
    AclOperation.READ,
    AclPermission.ALLOW,
)

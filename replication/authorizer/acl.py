"""One access control entry, which entries a filter matches, and which may be created.

An entry is what a binding of Kafka's is (`AclBinding`): a pattern of resources, and who may or may
not do what to them, from which address.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from .authorizer import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)


class Acl(NamedTuple):
    """One entry. Entries with equal fields are one: a second one is never created."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """Which entries are meant; None and ANY match everything."""

    resource_type: ResourceType
    name: str | None
    pattern: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission


def matcher(sought: AclFilter) -> Callable[[Acl], bool]:
    """Whether an entry matches the filter (`AclBindingFilter.matches`)."""
    kind, name, pattern, principal, host, operation, permission = sought

    def matches(acl: Acl) -> bool:
        return (
            kind in (ResourceType.ANY, acl.resource_type)
            and principal in (None, acl.principal)
            and host in (None, acl.host)
            and operation in (AclOperation.ANY, acl.operation)
            and permission in (AclPermission.ANY, acl.permission)
            and _is_named(acl, name, pattern)
        )

    return matches


def matching(acls: Iterable[Acl], sought: AclFilter) -> list[Acl]:
    """The entries that a filter matches, in an order that keeps those of a pattern together."""
    return sorted(filter(matcher(sought), acls))


def _is_named(acl: Acl, name: str | None, pattern: PatternType) -> bool:
    """Whether pattern type and name match (`ResourcePatternFilter.matches`)."""
    if pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
        return False
    if name is None or name == acl.name:
        return True
    if pattern is not PatternType.MATCH:
        return False
    if acl.pattern is PatternType.LITERAL:
        return acl.name == WILDCARD
    return acl.pattern is PatternType.PREFIXED and name.startswith(acl.name)


def check_new(acl: Acl) -> None:
    """Raise KafkaError(INVALID_REQUEST) if the entry may not be created.

    The error messages are Kafka's (`AclApis`, `AclControlManager.validateNewAcl`).
    """
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _refusal(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _refusal("Invalid empty resource name")
    if acl.resource_type <= ResourceType.ANY:
        raise _refusal(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refusal(f"Invalid patternType {acl.pattern.name}")
    if acl.operation <= AclOperation.ANY:
        raise _refusal(f"Invalid operation {acl.operation.name}")
    if acl.permission <= AclPermission.ANY:
        raise _refusal(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        raise _refusal(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )


def check_filter(each: AclFilter) -> None:
    """Raise KafkaError(INVALID_REQUEST) for a filter with UNKNOWN fields."""
    if ResourceType.UNKNOWN in (each.resource_type, each.pattern):
        raise _refusal("Unknown patternFilter.")
    if AclOperation.UNKNOWN in (each.operation, each.permission):
        raise _refusal("Unknown entryFilter.")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)

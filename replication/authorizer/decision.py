"""The decision: pure functions of the entries and a question (KIP-11, KIP-290, KIP-679, KIP-801).

Rules (`StandardAuthorizerData`, `Authorizer.authorizeByResourceType`):

- an entry counts if it is for the principal or for everybody, for the host or for every host, and
  covers the resource: by its name, by a prefix of it, or by the wildcard;
- one that denies wins over all that allow; ALL stands for every operation;
- who may READ, WRITE, DELETE or ALTER may DESCRIBE, and who may ALTER_CONFIGS may
  DESCRIBE_CONFIGS; but what denies the first does not deny the second.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from .acl_index import NOBODY, AclIndex
from .authorizer import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from .host_text import host_text

_ALL = AclOperation.ALL


class Verdict(IntEnum):
    """What the entries say about a question; of several, the greatest counts."""

    UNCOVERED = 0
    """No entry at all covers the resource, be it for whomever and for whatever operation."""
    UNMATCHED = 1
    """Entries cover the resource, but none is for this principal, host and operation."""
    ALLOWED = 2
    DENIED = 3


def _allowing(operation: AclOperation) -> frozenset[AclOperation]:
    allowing = {operation, _ALL}
    if operation is AclOperation.DESCRIBE:
        allowing |= {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    elif operation is AclOperation.DESCRIBE_CONFIGS:
        allowing.add(AclOperation.ALTER_CONFIGS)
    return frozenset(allowing)


_ALLOWING: Mapping[AclOperation, frozenset[AclOperation]] = MappingProxyType(
    {operation: _allowing(operation) for operation in AclOperation}
)
"""The operations whose permission permits an operation."""


def decide(
    index: AclIndex, principal: str, host: str, operation: AclOperation, resource: Resource
) -> Verdict:
    """What the entries say about one operation on one resource."""
    verdict = Verdict.UNCOVERED
    host = host_text(host)
    allowing = _ALLOWING[operation]
    for rules in index.covering(resource):
        verdict = verdict or Verdict.UNMATCHED
        for who in (principal, ANY_PRINCIPAL):
            for where, what, denies in rules.get(who, NOBODY).values():
                if where not in (host, WILDCARD):
                    continue
                if not denies:
                    if what in allowing:
                        verdict = Verdict.ALLOWED
                elif what in (operation, _ALL):
                    return Verdict.DENIED
    return verdict


def allows_any(
    index: AclIndex, principal: str, host: str, operation: AclOperation, kind: ResourceType
) -> bool:
    """Whether an entry allows the operation on a resource of a type, and none denies all of that.

    A denial covers a permission if it is for the same name, for a prefix of it, or for the
    wildcard. An entry for another operation implies nothing here.
    """
    host = host_text(host)
    allowed: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
    denied: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
    for who in {principal, ANY_PRINCIPAL}:
        for acl in index.entries_of(kind, who):
            if acl.operation not in (operation, _ALL):
                continue
            if host_text(acl.host) not in (host, WILDCARD):
                continue
            names = allowed if acl.permission is AclPermission.ALLOW else denied
            if acl.pattern in names:
                names[acl.pattern].add(acl.name)
    if WILDCARD in denied[PatternType.LITERAL]:
        return False
    if WILDCARD in allowed[PatternType.LITERAL]:
        return True
    prefixes = denied[PatternType.PREFIXED]
    return any(
        not _has_prefix(name, prefixes)
        for name in allowed[PatternType.LITERAL] - denied[PatternType.LITERAL]
    ) or any(not _has_prefix(name, prefixes) for name in allowed[PatternType.PREFIXED])


def _has_prefix(name: str, prefixes: set[str]) -> bool:
    return any(name[:length] in prefixes for length in range(1, len(name) + 1))

"""Who may do what, once more: written from Kafka's documentation, not from the product's code.

"Principal P is Allowed/Denied Operation O From Host H on any Resource R matching ResourcePattern
RP" (KIP-11, KIP-290; the page Authorization and ACLs). It looks at all entries, one after another.
"""

from collections.abc import Collection

from tierlog.replication.authorizer.acl import Acl

DENY, ALLOW, LITERAL, PREFIXED, ALL = 2, 3, 3, 4, 2
IMPLIED_BY = {8: (3, 4, 6, 7), 10: (11,)}
"""DESCRIBE by READ, WRITE, DELETE, ALTER; DESCRIBE_CONFIGS by ALTER_CONFIGS."""


def covers(acl: Acl, kind: int, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    if acl.pattern == PREFIXED:
        return name[: len(acl.name)] == acl.name
    return acl.pattern == LITERAL and acl.name in (name, "*")


def may(
    acls: Collection[Acl], who: str, host: str, operation: int, kind: int, name: str, else_: bool
) -> bool:
    """The answer for one resource; `else_` where no entry covers it."""
    covering = [acl for acl in acls if covers(acl, kind, name)]
    if not covering:
        return else_
    about = [a for a in covering if a.principal in (who, "User:*") and a.host in (host, "*")]
    if any(a.permission == DENY and a.operation in (operation, ALL) for a in about):
        return False
    enough = {operation, ALL, *IMPLIED_BY.get(operation, ())}
    return any(a.permission == ALLOW and a.operation in enough for a in about)


def may_any(
    acls: Collection[Acl], who: str, host: str, operation: int, kind: int, else_: bool
) -> bool:
    """Whether a resource can be thought of that the entries allow (no implied operations)."""
    if may(acls, who, host, operation, kind, "hardcode", else_):
        return True
    explicit = [a for a in acls if a.operation in (operation, ALL)]
    names = {a.name for a in explicit} | {a.name + "\u2603" for a in explicit} | {"\u2603"}
    return any(may(explicit, who, host, operation, kind, name, False) for name in names)

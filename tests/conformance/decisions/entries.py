"""Random sets of access control entries for the clients of a comparison."""

from random import Random
from typing import NamedTuple

from tierlog.clients.protocol.messages.create_acls import AclCreation
from tierlog.clients.protocol.messages.delete_acls import DeleteAclsFilter

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, CLUSTER_ACTION = 2, 9
ENTRIES_MAX = 40

OF_THE_NODES = "127.0.0.1"
"""Where a node's own requests come from; no entry may keep them out of the cluster."""

NAMES = {
    TOPIC: ("a", "ab", "b", "doomed", "ac", "z", "*", "new", "a*"),
    GROUP: ("a", "ab", "b", "abc", "abd", "z", "*"),
    TRANSACTIONAL_ID: ("a", "ab", "b", "abc", "z", "*"),
}
OPERATIONS = {
    TOPIC: (ALL, 3, 3, 4, 5, 6, 7, 8, 8, 10, 11),
    GROUP: (ALL, 3, 3, 6, 8, 10, 11),
    CLUSTER: (ALL, 5, 7, 8, CLUSTER_ACTION, 10, 11, 12),
    TRANSACTIONAL_ID: (ALL, 4, 4, 8, 15),
}
HOSTS = ("*", "*", OF_THE_NODES, "127.0.0.2", "10.0.0.1")
NAMED = ("User:alice", "User:bob")
PRINCIPALS = (*NAMED, *NAMED, "User:*", "User:ANONYMOUS", "Group:alice", "User:Alice")


class Entry(NamedTuple):
    """One access control entry, in the numbers of the protocol."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def creation(self) -> AclCreation:
        """What creates it."""
        return AclCreation(
            resource_type=self.kind,
            resource_name=self.name,
            resource_pattern_type=self.pattern,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )

    def deletion(self) -> DeleteAclsFilter:
        """What deletes it and no other."""
        return DeleteAclsFilter(
            resource_type_filter=self.kind,
            resource_name_filter=self.name,
            pattern_type_filter=self.pattern,
            principal_filter=self.principal,
            host_filter=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )


NODES_ENTRY = Entry(CLUSTER, "kafka-cluster", LITERAL, "User:ANONYMOUS", OF_THE_NODES, ALL, ALLOW)
"""Lets the nodes speak to each other."""


def random_entries(random: Random) -> set[Entry]:
    """A set of entries, with which the nodes can still speak to each other."""
    entries = {_random_entry(random) for _ in range(random.randint(1, ENTRIES_MAX))}
    return {each for each in entries if not _stops_nodes(each)} | {NODES_ENTRY}


def _random_entry(random: Random) -> Entry:
    kind = random.choice((TOPIC, TOPIC, TOPIC, GROUP, GROUP, TRANSACTIONAL_ID, CLUSTER))
    return Entry(
        kind,
        "kafka-cluster" if kind == CLUSTER else random.choice(NAMES[kind]),
        LITERAL if kind == CLUSTER else random.choice((LITERAL, LITERAL, PREFIXED)),
        random.choice(PRINCIPALS),
        random.choice(HOSTS),
        random.choice(OPERATIONS[kind]),
        random.choice((DENY, ALLOW, ALLOW, ALLOW)),
    )


def _stops_nodes(entry: Entry) -> bool:
    return (
        (entry.kind, entry.permission) == (CLUSTER, DENY)
        and entry.principal in ("User:*", "User:ANONYMOUS")
        and entry.host in ("*", OF_THE_NODES)
    )

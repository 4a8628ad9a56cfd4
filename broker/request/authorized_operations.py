"""The authorized operations of a client, as a bit field (KIP-430); all if there is no authorizer.

Bit n stands for operation n of Kafka's `AclOperation`; each kind of resource has its own set.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...security.access import Access

OPERATIONS_NOT_REQUESTED = -2147483648
"""The value if the client did not request them."""

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""


def topic_operations(access: "Access | None", name: str) -> int:
    """What the client may do to a topic."""
    if access is None:
        return TOPIC_OPERATIONS
    from ...security.access import TOPIC

    return access.operations(TOPIC, name, TOPIC_OPERATIONS)


def group_operations(access: "Access | None", name: str) -> int:
    """What the client may do to a group."""
    if access is None:
        return GROUP_OPERATIONS
    from ...security.access import GROUP

    return access.operations(GROUP, name, GROUP_OPERATIONS)


def cluster_operations(access: "Access | None") -> int:
    """What the client may do to the cluster; nothing if it may not describe the cluster."""
    if access is None:
        return CLUSTER_OPERATIONS
    from ...replication.authorizer.authorizer import CLUSTER
    from ...security.access import DESCRIBE

    if not access.allows_cluster(DESCRIBE):
        return 0
    return access.operations(CLUSTER.type, CLUSTER.name, CLUSTER_OPERATIONS)


NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's error message to requests about ACLs."""

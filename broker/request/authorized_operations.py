"""The authorized operations of a client, as a bit field (KIP-430): all, as there is no authorizer.

Bit n stands for operation n of Kafka's `AclOperation`; each kind of resource has its own set.
"""

OPERATIONS_NOT_REQUESTED = -2147483648
"""The value if the client did not request them."""

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's error message to requests about ACLs."""

"""What an authorizer is asked and answers: may this principal do this to that resource?

The numbers are those of Kafka's wire protocol and of its metadata records (`ResourceType`,
`PatternType`, `AclOperation`, `AclPermissionType`).
"""

from enum import IntEnum
from typing import NamedTuple, Protocol, Self


class _Code(IntEnum):
    """A number of Kafka's; any other one is read as 0, UNKNOWN (`fromCode`)."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class ResourceType(_Code):
    """What can be protected; UNKNOWN and ANY only stand in filters and in bad requests."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """Which names an entry covers; UNKNOWN, ANY and MATCH only stand in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In a filter: whatever covers the name, be it literal, prefixed or the wildcard."""
    LITERAL = 3
    """The name itself; `*` covers every name."""
    PREFIXED = 4
    """Every name that begins so."""


class AclOperation(_Code):
    """What is done to a resource; UNKNOWN and ANY only stand in filters and in bad requests."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    """In an entry: every operation."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Code):
    """What an entry says; UNKNOWN and ANY only stand in filters and in bad requests."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""The literal name that covers every resource of its type, and the host that is every host."""

ANY_PRINCIPAL = "User:*"
"""The principal of an entry that is for everybody."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class Resource(NamedTuple):
    """One resource, by its own name: never a pattern."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class Authorizer(Protocol):
    """Decides. It answers at once, from memory, and writes nothing: who asks keeps the audit."""

    @property
    def epoch(self) -> int:
        """Grows whenever an answer may have changed: answers remembered from before are void."""
        ...

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource: Resource
    ) -> bool:
        """Whether a principal (`User:alice`), connected from this address, may do this.

        `operation` is one of those from READ on, `host` the text of the peer's IP address.
        """
        ...

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do this to at least one resource of this type (KIP-679).

        The resource need not exist.
        """
        ...

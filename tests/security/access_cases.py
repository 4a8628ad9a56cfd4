"""The words that the access matrix is written in: a case, its request and the rights it needs.

A case names one topic, group or transactional id, which may exist or not, and the rights that its
request needs, any of which may stand in several forms (`CREATE` on the cluster or on the topic).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.replication.authorizer.authorizer import (
    CLUSTER_NAME,
    AclOperation,
    Resource,
    ResourceType,
)

_O = AclOperation
READ, WRITE, CREATE, DELETE = _O.READ, _O.WRITE, _O.CREATE, _O.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED = 29, 30, 31, 53
DENIALS = frozenset({TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED})

EXISTING, MISSING = "there", "nowhere"
"""Names of a topic, a group and a transactional id; the broker has the first of each."""


class Right(NamedTuple):
    """An operation on one resource."""

    operation: AclOperation
    resource: Resource


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a request is made with, and the topic's id if it has one."""

    name: str
    topic_id: Uuid


Values = Callable[[Names], Mapping[str, object]]
"""The fields of a request about names."""

Needs = Callable[[str], tuple[tuple[Right, ...], ...]]
"""Alternatives for a name, each a set of rights that is enough."""

RightTo = Callable[[str], Right]
"""A right to whatever has the name."""


@dataclass(frozen=True, slots=True)
class Case:
    """One API: its request, the rights it needs, and what a client without any is told."""

    key: ApiKey
    version: int
    values: Values
    needs: Needs
    denied: frozenset[int]
    label: str = ""

    def __str__(self) -> str:
        return f"{self.key.name}-v{self.version}{self.label}"


def topic(operation: AclOperation, name: str) -> Right:
    return Right(operation, Resource(ResourceType.TOPIC, name))


def group(operation: AclOperation, name: str) -> Right:
    return Right(operation, Resource(ResourceType.GROUP, name))


def transaction(operation: AclOperation, name: str) -> Right:
    return Right(operation, Resource(ResourceType.TRANSACTIONAL_ID, name))


def cluster(operation: AclOperation) -> Right:
    return Right(operation, Resource(ResourceType.CLUSTER, CLUSTER_NAME))


def batch(*, transactional: bool = False) -> bytes:
    """One record."""
    builder = RecordBatchBuilder(
        producer_id=7 if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        is_transactional=transactional,
    )
    builder.append(1_700_000_000_000, b"k", b"v")
    return bytes(builder.build())


def case(
    key: ApiKey,
    versions: tuple[int, ...],
    denied: int | tuple[int, ...],
    needs: Needs,
    values: Values,
    label: str = "",
) -> list[Case]:
    """One case of each version."""
    codes = frozenset({denied} if isinstance(denied, int) else denied)
    return [Case(key, version, values, needs, codes, label) for version in versions]


def one(right: RightTo) -> Needs:
    return lambda name: ((right(name),),)


def every(*rights: RightTo) -> Needs:
    return lambda name: (tuple(right(name) for right in rights),)


def some(*rights: RightTo) -> Needs:
    return lambda name: tuple((right(name),) for right in rights)


def of_topic(operation: AclOperation) -> RightTo:
    return lambda name: topic(operation, name)


def of_group(operation: AclOperation) -> RightTo:
    return lambda name: group(operation, name)


def of_transaction(operation: AclOperation) -> RightTo:
    return lambda name: transaction(operation, name)


def of_cluster(operation: AclOperation) -> RightTo:
    return lambda _: cluster(operation)

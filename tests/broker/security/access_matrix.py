"""Every API with what it needs (Kafka's KafkaApis and ControllerApis), as requests that are sent.

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


@dataclass(frozen=True, slots=True)
class Case:
    """One API: its request, the rights it needs, and what a client without any is told."""

    key: ApiKey
    version: int
    values: Values
    needs: Callable[[str], tuple[tuple[Right, ...], ...]]
    """Alternatives, each a set of rights that is enough."""
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
    return builder.build()


CASES: list[Case] = []


def case(
    key: ApiKey,
    versions: tuple[int, ...],
    denied: int | tuple[int, ...],
    needs: Callable[[str], tuple[tuple[Right, ...], ...]],
    values: Values,
    label: str = "",
) -> None:
    codes = frozenset({denied} if isinstance(denied, int) else denied)
    CASES.extend(Case(key, version, values, needs, codes, label) for version in versions)


def one(right: Callable[[str], Right]) -> Callable[[str], tuple[tuple[Right, ...], ...]]:
    return lambda name: ((right(name),),)


def every(*rights: Callable[[str], Right]) -> Callable[[str], tuple[tuple[Right, ...], ...]]:
    return lambda name: (tuple(right(name) for right in rights),)


def some(*rights: Callable[[str], Right]) -> Callable[[str], tuple[tuple[Right, ...], ...]]:
    return lambda name: tuple((right(name),) for right in rights)


def of_topic(operation: AclOperation) -> Callable[[str], Right]:
    return lambda name: topic(operation, name)


def of_group(operation: AclOperation) -> Callable[[str], Right]:
    return lambda name: group(operation, name)


def of_transaction(operation: AclOperation) -> Callable[[str], Right]:
    return lambda name: transaction(operation, name)


def of_cluster(operation: AclOperation) -> Callable[[str], Right]:
    return lambda _: cluster(operation)


_TXN = {"producer_id": 1, "producer_epoch": 0}


def _produced(n: Names, *, transactional: bool = False) -> dict[str, object]:
    data = [{"index": 0, "records": batch(transactional=transactional)}]
    topics = [{"name": n.name, "topic_id": n.topic_id, "partition_data": data}]
    return {
        "acks": 1,
        "timeout_ms": 5_000,
        "transactional_id": n.name if transactional else None,
        "topic_data": topics,
    }


def _fetched(n: Names, replica_id: int = -1) -> dict[str, object]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": n.name, "topic_id": n.topic_id, "partitions": partitions}]
    return {
        "replica_id": replica_id,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": topics,
    }


def _committed(n: Names) -> dict[str, object]:
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    topics = [{"name": n.name, "topic_id": n.topic_id, "partitions": partitions}]
    return {
        "group_id": n.name,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": topics,
    }


def _txn_committed(n: Names) -> dict[str, object]:
    """A commit in a transaction; its fields are those of a plain one, but for the generation."""
    values = _committed(n)
    values["generation_id"] = values.pop("generation_id_or_member_epoch")
    values["topics"] = [
        {"name": n.name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
    ]
    return values


def _enter_data() -> None:
    case(ApiKey.PRODUCE, (7, 12), TOPIC_DENIED, one(of_topic(WRITE)), _produced)
    case(
        ApiKey.PRODUCE,
        (9,),
        TRANSACTION_DENIED,
        every(of_topic(WRITE), of_transaction(WRITE)),
        lambda n: _produced(n, transactional=True),
        "-transactional",
    )
    case(ApiKey.FETCH, (4, 12), TOPIC_DENIED, one(of_topic(READ)), _fetched)
    case(
        ApiKey.FETCH,
        (12,),
        TOPIC_DENIED,
        one(of_cluster(CLUSTER_ACTION)),
        lambda n: _fetched(n, replica_id=2),
        "-follower",
    )
    case(
        ApiKey.LIST_OFFSETS,
        (2, 9),
        TOPIC_DENIED,
        one(of_topic(DESCRIBE)),
        lambda n: {
            "replica_id": -1,
            "topics": [{"name": n.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
    )
    case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        (2, 4),
        TOPIC_DENIED,
        some(of_topic(DESCRIBE), of_cluster(CLUSTER_ACTION)),
        lambda n: {
            "replica_id": -1,
            "topics": [
                {
                    "topic": n.name,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ],
        },
    )
    case(
        ApiKey.DELETE_RECORDS,
        (1, 2),
        TOPIC_DENIED,
        one(of_topic(DELETE)),
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.name, "partitions": [{"partition_index": 0, "offset": 0}]}],
        },
    )
    case(
        ApiKey.DESCRIBE_PRODUCERS,
        (0,),
        TOPIC_DENIED,
        one(of_topic(READ)),
        lambda n: {"topics": [{"name": n.name, "partition_indexes": [0]}]},
    )
    case(
        ApiKey.METADATA,
        (1, 8, 12),
        TOPIC_DENIED,
        one(of_topic(DESCRIBE)),
        lambda n: {
            "topics": [{"name": n.name}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
    )
    case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        (0,),
        TOPIC_DENIED,
        one(of_topic(DESCRIBE)),
        lambda n: {"topics": [{"name": n.name}]},
    )


def _enter_groups() -> None:
    read = one(of_group(READ))
    case(
        ApiKey.OFFSET_COMMIT,
        (2, 9),
        GROUP_DENIED,
        every(of_group(READ), of_topic(READ)),
        _committed,
    )
    case(
        ApiKey.OFFSET_FETCH,
        (1, 2, 7),
        GROUP_DENIED,
        every(of_group(DESCRIBE), of_topic(DESCRIBE)),
        lambda n: {"group_id": n.name, "topics": [{"name": n.name, "partition_indexes": [0]}]},
    )
    case(
        ApiKey.OFFSET_FETCH,
        (8, 9),
        GROUP_DENIED,
        every(of_group(DESCRIBE), of_topic(DESCRIBE)),
        lambda n: {
            "groups": [{"group_id": n.name, "topics": [{"name": n.name, "partition_indexes": [0]}]}]
        },
    )
    case(
        ApiKey.FIND_COORDINATOR,
        (0, 3, 4, 6),
        GROUP_DENIED,
        one(of_group(DESCRIBE)),
        lambda n: {"key": n.name, "coordinator_keys": [n.name]},
    )
    case(
        ApiKey.FIND_COORDINATOR,
        (3,),
        TRANSACTION_DENIED,
        one(of_transaction(DESCRIBE)),
        lambda n: {"key": n.name, "key_type": 1},
        "-transaction",
    )
    case(
        ApiKey.JOIN_GROUP,
        (3, 6, 9),
        GROUP_DENIED,
        read,
        lambda n: {
            "group_id": n.name,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "nobody",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    )
    case(
        ApiKey.SYNC_GROUP,
        (3, 5),
        GROUP_DENIED,
        read,
        lambda n: {
            "group_id": n.name,
            "generation_id": 1,
            "member_id": "nobody",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    )
    case(
        ApiKey.HEARTBEAT,
        (3,),
        GROUP_DENIED,
        read,
        lambda n: {"group_id": n.name, "generation_id": 1, "member_id": "nobody"},
    )
    case(
        ApiKey.LEAVE_GROUP,
        (2, 4),
        GROUP_DENIED,
        read,
        lambda n: {
            "group_id": n.name,
            "member_id": "nobody",
            "members": [{"member_id": "nobody"}],
        },
    )
    case(
        ApiKey.DESCRIBE_GROUPS,
        (0, 5),
        GROUP_DENIED,
        one(of_group(DESCRIBE)),
        lambda n: {"groups": [n.name], "include_authorized_operations": True},
    )
    case(
        ApiKey.DELETE_GROUPS,
        (1,),
        GROUP_DENIED,
        one(of_group(DELETE)),
        lambda n: {"groups_names": [n.name]},
    )
    case(
        ApiKey.OFFSET_DELETE,
        (0,),
        GROUP_DENIED,
        every(of_group(DELETE), of_topic(READ)),
        lambda n: {
            "group_id": n.name,
            "topics": [{"name": n.name, "partitions": [{"partition_index": 0}]}],
        },
    )
    case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        (0, 1),
        GROUP_DENIED,
        one(of_group(DESCRIBE)),
        lambda n: {"group_ids": [n.name], "include_authorized_operations": True},
    )
    case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        (1,),
        GROUP_DENIED,
        every(of_group(READ), of_topic(DESCRIBE)),
        lambda n: {
            "group_id": n.name,
            "member_id": "mmmmmmmmmmmmmmmmmmmmmm",
            "member_epoch": 9,
            "subscribed_topic_names": [n.name],
        },
    )


def _enter_transactions() -> None:
    write = one(of_transaction(WRITE))
    case(
        ApiKey.INIT_PRODUCER_ID,
        (1, 4),
        TRANSACTION_DENIED,
        write,
        lambda n: {"transactional_id": n.name, "transaction_timeout_ms": 10_000},
    )
    case(
        ApiKey.INIT_PRODUCER_ID,
        (1, 4),
        CLUSTER_DENIED,
        some(of_cluster(AclOperation.IDEMPOTENT_WRITE), of_topic(WRITE)),
        lambda n: {"transactional_id": None, "transaction_timeout_ms": 10_000},
        "-idempotent",
    )
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        (1, 3),
        TRANSACTION_DENIED,
        every(of_transaction(WRITE), of_topic(WRITE)),
        lambda n: {
            "v3_and_below_transactional_id": n.name,
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": n.name, "partitions": [0]}],
        },
    )
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        (4,),
        CLUSTER_DENIED,
        one(of_cluster(CLUSTER_ACTION)),
        lambda n: {
            "transactions": [
                {
                    "transactional_id": n.name,
                    **_TXN,
                    "verify_only": True,
                    "topics": [{"name": n.name, "partitions": [0]}],
                }
            ]
        },
        "-broker",
    )
    case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        (1, 3),
        TRANSACTION_DENIED,
        every(of_transaction(WRITE), of_group(READ)),
        lambda n: {"transactional_id": n.name, **_TXN, "group_id": n.name},
    )
    case(
        ApiKey.END_TXN,
        (1, 4),
        TRANSACTION_DENIED,
        write,
        lambda n: {"transactional_id": n.name, **_TXN, "committed": False},
    )
    case(
        ApiKey.TXN_OFFSET_COMMIT,
        (2, 3),
        TRANSACTION_DENIED,
        every(of_transaction(WRITE), of_group(READ), of_topic(READ)),
        lambda n: {"transactional_id": n.name, **_TXN, **_txn_committed(n)},
    )
    case(
        ApiKey.WRITE_TXN_MARKERS,
        (1,),
        CLUSTER_DENIED,
        some(of_cluster(CLUSTER_ACTION), of_cluster(ALTER)),
        lambda n: {
            "markers": [
                {
                    **_TXN,
                    "transaction_result": False,
                    "coordinator_epoch": 0,
                    "topics": [{"name": n.name, "partition_indexes": [0]}],
                }
            ]
        },
    )
    case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        (0,),
        TRANSACTION_DENIED,
        one(of_transaction(DESCRIBE)),
        lambda n: {"transactional_ids": [n.name]},
    )


def _resource(kind: int, name: str, **more: object) -> dict[str, object]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}]}


_NUMBERED = frozenset({4, 8})
"""Kinds of resources that are named by a broker's number."""


def _reading(kind: int) -> Values:
    def values(n: Names) -> Mapping[str, object]:
        name = "1" if kind in _NUMBERED else n.name
        return _resource(kind, name, configuration_keys=["no.such.key"])

    return values


def _change(kind: int, key: str, value: str) -> Values:
    def values(n: Names) -> Mapping[str, object]:
        name = "1" if kind in _NUMBERED else n.name
        changes = [{"name": key, "config_operation": 0, "value": value}]
        return {"validate_only": True, **_resource(kind, name, configs=changes)}

    return values


def _enter_configs() -> None:
    kinds: tuple[tuple[int, Callable[[AclOperation], Callable[[str], Right]], int, str], ...] = (
        (2, of_topic, TOPIC_DENIED, "-topic"),
        (4, of_cluster, CLUSTER_DENIED, "-broker"),
        (8, of_cluster, CLUSTER_DENIED, "-logger"),
        (16, of_cluster, CLUSTER_DENIED, "-metrics"),
        (32, of_group, GROUP_DENIED, "-group"),
    )
    changes: Mapping[int, tuple[str, str]] = {
        2: ("retention.ms", "1000000"),
        4: ("log.cleaner.threads", "1"),
        8: ("root", "INFO"),
        16: ("interval.ms", "60000"),
        32: ("consumer.session.timeout.ms", "50000"),
    }
    for kind, right, denied, label in kinds:
        described = one(right(DESCRIBE_CONFIGS))
        altered = one(right(ALTER_CONFIGS))
        read, change = _reading(kind), _change(kind, *changes[kind])
        case(ApiKey.DESCRIBE_CONFIGS, (1, 4), denied, described, read, label)
        case(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), denied, altered, change, label)
    case(
        ApiKey.ALTER_CONFIGS,
        (1, 2),
        TOPIC_DENIED,
        one(of_topic(ALTER_CONFIGS)),
        lambda n: {
            "validate_only": True,
            **_resource(2, n.name, configs=[{"name": "retention.ms", "value": "1000000"}]),
        },
    )


def _enter_topics() -> None:
    case(
        ApiKey.CREATE_TOPICS,
        (2, 5, 7),
        TOPIC_DENIED,
        some(of_topic(CREATE), of_cluster(CREATE)),
        lambda n: {
            "validate_only": True,
            "timeout_ms": 5_000,
            "topics": [{"name": n.name, "num_partitions": 1, "replication_factor": 1}],
        },
    )
    case(
        ApiKey.CREATE_PARTITIONS,
        (1, 3),
        TOPIC_DENIED,
        one(of_topic(ALTER)),
        lambda n: {
            "validate_only": True,
            "timeout_ms": 5_000,
            "topics": [{"name": n.name, "count": 3, "assignments": None}],
        },
    )
    case(
        ApiKey.DELETE_TOPICS,
        (3, 5),
        TOPIC_DENIED,
        lambda name: ((topic(DELETE, name), topic(DESCRIBE, name)), (cluster(DELETE),)),
        lambda n: {"topic_names": [n.name], "timeout_ms": 5_000},
    )
    case(
        ApiKey.DELETE_TOPICS,
        (6,),
        TOPIC_DENIED,
        lambda name: ((topic(DELETE, name), topic(DESCRIBE, name)), (cluster(DELETE),)),
        lambda n: {"topics": [{"name": n.name, "topic_id": Uuid(bytes(16))}], "timeout_ms": 5_000},
    )


def _enter_cluster() -> None:
    def needs(
        key: ApiKey, versions: tuple[int, ...], operation: AclOperation, values: Values
    ) -> None:
        case(key, versions, CLUSTER_DENIED, one(of_cluster(operation)), values)

    def nothing(_: Names) -> Mapping[str, object]:
        return {}

    def partitions(n: Names) -> Mapping[str, object]:
        return {"dirs": [{"path": "/nowhere", "topics": [{"name": n.name, "partitions": [0]}]}]}

    needs(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), ALTER, partitions)
    needs(
        ApiKey.DESCRIBE_LOG_DIRS,
        (3, 4),
        DESCRIBE,
        lambda n: {"topics": [{"topic": n.name, "partitions": [0]}]},
    )
    needs(
        ApiKey.ELECT_LEADERS,
        (1, 2),
        ALTER,
        lambda n: {
            "election_type": 0,
            "topic_partitions": [{"topic": n.name, "partitions": [0]}],
            "timeout_ms": 5_000,
        },
    )
    needs(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        (0,),
        ALTER,
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.name, "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
    )
    needs(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        (0,),
        DESCRIBE,
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.name, "partition_indexes": [0]}],
        },
    )
    needs(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), DESCRIBE_CONFIGS, nothing)
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "u"}],
        "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
    }
    needs(
        ApiKey.ALTER_CLIENT_QUOTAS,
        (0, 1),
        ALTER_CONFIGS,
        lambda _: {"entries": [entry], "validate_only": True},
    )
    needs(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        (0,),
        DESCRIBE,
        lambda n: {"users": [{"name": n.name}]},
    )
    needs(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        (0,),
        ALTER,
        lambda n: {"deletions": [{"name": n.name, "mechanism": 1}], "upsertions": []},
    )
    needs(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), DESCRIBE_CONFIGS, nothing)
    needs(
        ApiKey.DESCRIBE_QUORUM,
        (0, 2),
        DESCRIBE,
        lambda _: {
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        },
    )
    needs(
        ApiKey.UPDATE_FEATURES,
        (1,),
        ALTER,
        lambda _: {
            "timeout_ms": 5_000,
            "validate_only": True,
            "feature_updates": [
                {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}
            ],
        },
    )
    needs(ApiKey.UNREGISTER_BROKER, (0,), ALTER, lambda _: {"broker_id": 77})
    needs(ApiKey.DESCRIBE_ACLS, (1, 3), DESCRIBE, lambda _: _any_acl())
    needs(ApiKey.DELETE_ACLS, (1, 3), ALTER, lambda _: {"filters": [_no_acl()]})
    needs(
        ApiKey.CREATE_ACLS,
        (1, 3),
        ALTER,
        # An entry that is refused, so that the one with the right leaves none behind.
        lambda _: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "",
                    "resource_pattern_type": 3,
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    )


def _any_acl() -> dict[str, object]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": "no such name",
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def _no_acl() -> dict[str, object]:
    return {**_any_acl(), "principal_filter": "User:nobody"}


for enter in (
    _enter_data,
    _enter_groups,
    _enter_transactions,
    _enter_configs,
    _enter_topics,
    _enter_cluster,
):
    enter()

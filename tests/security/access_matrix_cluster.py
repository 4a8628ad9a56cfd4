"""What the cluster itself needs: its replicas, clients and users, brokers and ACLs."""

from collections.abc import Mapping

from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import AclOperation

from .access_cases import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_DENIED,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    Case,
    Names,
    Values,
    case,
    of_cluster,
    one,
)

_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "u"}],
    "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
}


def _needing(
    key: ApiKey, versions: tuple[int, ...], operation: AclOperation, values: Values
) -> list[Case]:
    return case(key, versions, CLUSTER_DENIED, one(of_cluster(operation)), values)


def _nothing(_: Names) -> Mapping[str, object]:
    return {}


def _in_nowhere(n: Names) -> Mapping[str, object]:
    return {"dirs": [{"path": "/nowhere", "topics": [{"name": n.name, "partitions": [0]}]}]}


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


def _replicas() -> list[Case]:
    return [
        *_needing(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), ALTER, _in_nowhere),
        *_needing(
            ApiKey.DESCRIBE_LOG_DIRS,
            (3, 4),
            DESCRIBE,
            lambda n: {"topics": [{"topic": n.name, "partitions": [0]}]},
        ),
        *_needing(
            ApiKey.ELECT_LEADERS,
            (1, 2),
            ALTER,
            lambda n: {
                "election_type": 0,
                "topic_partitions": [{"topic": n.name, "partitions": [0]}],
                "timeout_ms": 5_000,
            },
        ),
        *_needing(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            (0,),
            ALTER,
            lambda n: {
                "timeout_ms": 5_000,
                "topics": [
                    {"name": n.name, "partitions": [{"partition_index": 0, "replicas": None}]}
                ],
            },
        ),
        *_needing(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            (0,),
            DESCRIBE,
            lambda n: {
                "timeout_ms": 5_000,
                "topics": [{"name": n.name, "partition_indexes": [0]}],
            },
        ),
    ]


def _clients_and_users() -> list[Case]:
    return [
        *_needing(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), DESCRIBE_CONFIGS, _nothing),
        *_needing(
            ApiKey.ALTER_CLIENT_QUOTAS,
            (0, 1),
            ALTER_CONFIGS,
            lambda _: {"entries": [_QUOTA], "validate_only": True},
        ),
        *_needing(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            (0,),
            DESCRIBE,
            lambda n: {"users": [{"name": n.name}]},
        ),
        *_needing(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            (0,),
            ALTER,
            lambda n: {"deletions": [{"name": n.name, "mechanism": 1}], "upsertions": []},
        ),
    ]


def _brokers() -> list[Case]:
    return [
        *_needing(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), DESCRIBE_CONFIGS, _nothing),
        *_needing(
            ApiKey.DESCRIBE_QUORUM,
            (0, 2),
            DESCRIBE,
            lambda _: {
                "topics": [
                    {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
                ]
            },
        ),
        *_needing(
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
        ),
        *_needing(ApiKey.UNREGISTER_BROKER, (0,), ALTER, lambda _: {"broker_id": 77}),
    ]


REFUSED_ACL: dict[str, object] = {
    "resource_type": 2,
    "resource_name": "",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
"""An entry that is refused, so that a client with the right leaves none behind."""


def _acls() -> list[Case]:
    return [
        *_needing(ApiKey.DESCRIBE_ACLS, (1, 3), DESCRIBE, lambda _: _any_acl()),
        *_needing(ApiKey.DELETE_ACLS, (1, 3), ALTER, lambda _: {"filters": [_no_acl()]}),
        *_needing(ApiKey.CREATE_ACLS, (1, 3), ALTER, lambda _: {"creations": [REFUSED_ACL]}),
    ]


def cluster_cases() -> list[Case]:
    return [*_replicas(), *_clients_and_users(), *_brokers(), *_acls()]

"""How each API is checked when there is an authorizer: the table that no API may be missing from.

Three kinds of rows: an API that everybody may use; one that needs an operation on the cluster, and
is refused as a whole before its handler runs; and one whose handler checks the resources that the
request names (KafkaApis, ControllerApis). An API without a row is served to nobody.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

from ..clients.errors import ErrorCode, KafkaError
from ..clients.protocol.api import ApiKey, ListenerKind
from ..clients.protocol.schema import Message
from ..replication.authorizer.authorizer import AclOperation
from .access import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    Guarded,
    Origin,
    access_of,
)
from .refusals import CLUSTER_DENIED, refusal_response

N = TypeVar("N", bound=Guarded)
C = TypeVar("C", bound=Origin)
R = TypeVar("R")


class CheckedBy(Enum):
    """Who decides about a request."""

    NOBODY = "everybody may use the API"
    TABLE = "one operation on the cluster, for the whole request"
    HANDLER = "the handler, for each resource"


class Check(NamedTuple):
    """How an API is checked; of several operations one is enough."""

    by: CheckedBy
    operations: tuple[AclOperation, ...] = ()


_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

_OPEN = Check(CheckedBy.NOBODY)
_HANDLER = Check(CheckedBy.HANDLER)


def _cluster(*operations: AclOperation) -> Check:
    return Check(CheckedBy.TABLE, operations)


CHECKS: Mapping[int, Check] = {
    ApiKey.PRODUCE: _HANDLER,
    ApiKey.FETCH: _HANDLER,
    ApiKey.LIST_OFFSETS: _HANDLER,
    ApiKey.METADATA: _HANDLER,
    ApiKey.OFFSET_COMMIT: _HANDLER,
    ApiKey.OFFSET_FETCH: _HANDLER,
    ApiKey.FIND_COORDINATOR: _HANDLER,
    ApiKey.JOIN_GROUP: _HANDLER,
    ApiKey.HEARTBEAT: _HANDLER,
    ApiKey.LEAVE_GROUP: _HANDLER,
    ApiKey.SYNC_GROUP: _HANDLER,
    ApiKey.DESCRIBE_GROUPS: _HANDLER,
    ApiKey.LIST_GROUPS: _HANDLER,
    ApiKey.SASL_HANDSHAKE: _OPEN,
    ApiKey.API_VERSIONS: _OPEN,
    ApiKey.CREATE_TOPICS: _HANDLER,
    ApiKey.DELETE_TOPICS: _HANDLER,
    ApiKey.DELETE_RECORDS: _HANDLER,
    ApiKey.INIT_PRODUCER_ID: _HANDLER,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _HANDLER,
    ApiKey.ADD_PARTITIONS_TO_TXN: _HANDLER,
    ApiKey.ADD_OFFSETS_TO_TXN: _HANDLER,
    ApiKey.END_TXN: _HANDLER,
    ApiKey.WRITE_TXN_MARKERS: _cluster(ALTER, CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: _HANDLER,
    ApiKey.DESCRIBE_ACLS: _cluster(DESCRIBE),
    ApiKey.CREATE_ACLS: _cluster(ALTER),
    ApiKey.DELETE_ACLS: _cluster(ALTER),
    ApiKey.DESCRIBE_CONFIGS: _HANDLER,
    ApiKey.ALTER_CONFIGS: _HANDLER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(DESCRIBE),
    ApiKey.SASL_AUTHENTICATE: _OPEN,
    ApiKey.CREATE_PARTITIONS: _HANDLER,
    ApiKey.DELETE_GROUPS: _HANDLER,
    ApiKey.ELECT_LEADERS: _cluster(ALTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _HANDLER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(DESCRIBE),
    ApiKey.OFFSET_DELETE: _HANDLER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(ALTER),
    ApiKey.VOTE: _cluster(CLUSTER_ACTION),
    ApiKey.BEGIN_QUORUM_EPOCH: _cluster(CLUSTER_ACTION),
    ApiKey.END_QUORUM_EPOCH: _cluster(CLUSTER_ACTION),
    ApiKey.DESCRIBE_QUORUM: _cluster(DESCRIBE),
    ApiKey.ALTER_PARTITION: _cluster(CLUSTER_ACTION),
    ApiKey.UPDATE_FEATURES: _cluster(ALTER),
    ApiKey.ENVELOPE: _cluster(CLUSTER_ACTION),
    ApiKey.FETCH_SNAPSHOT: _cluster(CLUSTER_ACTION),
    ApiKey.DESCRIBE_CLUSTER: _HANDLER,
    ApiKey.DESCRIBE_PRODUCERS: _HANDLER,
    ApiKey.BROKER_REGISTRATION: _cluster(CLUSTER_ACTION),
    ApiKey.BROKER_HEARTBEAT: _cluster(CLUSTER_ACTION),
    ApiKey.UNREGISTER_BROKER: _cluster(ALTER),
    ApiKey.DESCRIBE_TRANSACTIONS: _HANDLER,
    ApiKey.LIST_TRANSACTIONS: _HANDLER,
    ApiKey.ALLOCATE_PRODUCER_IDS: _cluster(CLUSTER_ACTION),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _HANDLER,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _HANDLER,
    ApiKey.CONTROLLER_REGISTRATION: _cluster(CLUSTER_ACTION),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _OPEN,
    ApiKey.PUSH_TELEMETRY: _OPEN,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _cluster(CLUSTER_ACTION),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _HANDLER,
    ApiKey.ADD_RAFT_VOTER: _cluster(ALTER),
    ApiKey.REMOVE_RAFT_VOTER: _cluster(ALTER),
    ApiKey.UPDATE_RAFT_VOTER: _cluster(CLUSTER_ACTION),
}
"""The check of every API, by its key."""

_AT_CONTROLLERS: Mapping[int, Check] = {
    ApiKey.FETCH: _cluster(CLUSTER_ACTION),
    ApiKey.DESCRIBE_CLUSTER: _cluster(ALTER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _HANDLER,
}
"""What a listener of controllers checks otherwise (ControllerApis): its Fetch is a replica's, and
it describes users to no one: the handler answers each request with an error."""


def check_of(key: int, kind: ListenerKind) -> Check | None:
    """How an API is checked on a kind of listener; None for an API without a row."""
    if kind is ListenerKind.CONTROLLER and key in _AT_CONTROLLERS:
        return _AT_CONTROLLERS[key]
    return CHECKS.get(key)


def with_check(
    key: int, kind: ListenerKind, handle: Callable[[N, C, Message], R]
) -> Callable[[N, C, Message], R | Message]:
    """The handler behind its check; the handler itself if there is nothing to check before it.

    Raises KafkaError(CLUSTER_AUTHORIZATION_FAILED) for an API without a row.
    """
    check = check_of(key, kind)
    if check is None:
        raise KafkaError(_DENIED, f"API {key} has no check, and is not served")
    if check.by is not CheckedBy.TABLE:
        return handle
    return _behind(check, handle)


def _behind(
    check: Check, handle: Callable[[N, C, Message], R]
) -> Callable[[N, C, Message], R | Message]:
    *alternatives, last = check.operations

    def checked(node: N, context: C, request: Message) -> R | Message:
        access = access_of(node, context)
        if (
            access is None
            or any(
                access.allows_cluster(alternative, audited=False) for alternative in alternatives
            )
            or access.allows_cluster(last)
        ):
            return handle(node, context, request)
        return refusal_response(request, KafkaError(_DENIED, CLUSTER_DENIED), context.api_version)

    return checked

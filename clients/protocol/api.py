"""The table of APIs and their versions, and which of them ApiVersions announces.

The ranges are those that a node of Apache Kafka 4.3.1 announces. Every listed version has messages,
with one exception, as in Kafka: Produce is announced from 0 because old librdkafka gives up
otherwise (KAFKA-18659), but the connection is closed on versions 0 to 2, which no message class
has.

`APIS` are those that have messages: they can be sent, and their responses read. `SERVED` are those
of them that have a handler too, and `SERVED_ON` what each kind of listener takes: as in Kafka, a
listener of controllers takes other APIs than one of brokers, and both take what administrators ask
(KIP-631, KIP-919). Importing this module imports no message module. To support one
more API, add its line to the table, its messages as `messages/<name>.py`, and its handler.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple, cast

from ..errors import ErrorCode, KafkaError
from .schema import Message


class ApiKey(IntEnum):
    """All API keys that Apache Kafka 4.3 defines, whether supported here or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ListenerKind(Enum):
    """Whose requests a listener takes: clients' and brokers', or those meant for a controller."""

    BROKER = "BROKER"
    CONTROLLER = "CONTROLLER"


BROKER_ONLY = frozenset({ListenerKind.BROKER})
CONTROLLER_ONLY = frozenset({ListenerKind.CONTROLLER})
BOTH = BROKER_ONLY | CONTROLLER_ONLY


class Api(NamedTuple):
    """One API that has messages: its versions, the first flexible version (KIP-482), and the
    listeners that Apache Kafka takes it on."""

    key: ApiKey
    name: str
    lowest_version: int
    highest_version: int
    first_flexible_version: int
    listeners: frozenset[ListenerKind] = BROKER_ONLY

    def serves(self, version: int) -> bool:
        """Whether ApiVersions announces this version."""
        return self.lowest_version <= version <= self.highest_version

    def is_flexible(self, version: int) -> bool:
        """Whether messages and headers of this version have tagged fields."""
        return version >= self.first_flexible_version


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, "Produce", 0, 13, 9),
        Api(ApiKey.FETCH, "Fetch", 4, 18, 12, BOTH),
        Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6),
        Api(ApiKey.METADATA, "Metadata", 0, 13, 9),
        Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
        Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
        Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
        Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
        Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
        Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
        Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
        Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
        Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
        Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, 2, BOTH),
        Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3, BOTH),
        Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5, BOTH),
        Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4, BOTH),
        Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
        Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
        Api(ApiKey.END_TXN, "EndTxn", 0, 5, 3),
        Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
        Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3),
        Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2, BOTH),
        Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2, BOTH),
        Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2, BOTH),
        Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4, BOTH),
        Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, BOTH),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
        Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, BOTH),
        Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2, BOTH),
        Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
        Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2, BOTH),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1, BOTH),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0, BOTH),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0, BOTH),
        Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0, BOTH),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0, BOTH),
        Api(ApiKey.VOTE, "Vote", 0, 2, 0, CONTROLLER_ONLY),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", 0, 1, 1, CONTROLLER_ONLY),
        Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", 0, 1, 1, CONTROLLER_ONLY),
        Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0, BOTH),
        Api(ApiKey.ALTER_PARTITION, "AlterPartition", 2, 3, 2, CONTROLLER_ONLY),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, BOTH),
        Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0, BOTH),
        Api(ApiKey.ENVELOPE, "Envelope", 0, 0, 0, CONTROLLER_ONLY),
        Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, 0, CONTROLLER_ONLY),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0),
        Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0),
        Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
        Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0, BOTH),
        Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
        Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, 0, CONTROLLER_ONLY),
        Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 2, 0, CONTROLLER_ONLY),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0, CONTROLLER_ONLY),
        Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", 0, 0, 0, CONTROLLER_ONLY),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, 0, CONTROLLER_ONLY),
        Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0, BOTH),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
        Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, 0, BOTH),
        Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0, BOTH),
        Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", 0, 0, 0, CONTROLLER_ONLY),
    )
}
"""Every API that has messages, by key."""

_WITHOUT_HANDLER = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""What nodes of a cluster ask of each other: not of a process that is the whole cluster."""

_NOT_OF_A_CONTROLLER = frozenset({ApiKey.FETCH})
"""The only voter has no replicas of the metadata log."""

SERVED: Final[dict[int, Api]] = {
    key: api for key, api in APIS.items() if api.key not in _WITHOUT_HANDLER
}
"""Every API that has a handler, by key."""

SERVED_ON: Final[Mapping[ListenerKind, dict[int, Api]]] = {
    kind: {
        key: api
        for key, api in SERVED.items()
        if kind in api.listeners
        and not (kind is ListenerKind.CONTROLLER and api.key in _NOT_OF_A_CONTROLLER)
    }
    for kind in ListenerKind
}
"""What ApiVersions announces on each kind of listener, by key."""


@cache
def served_by_member(kind: ListenerKind) -> dict[int, Api]:
    """What a member of a cluster of several processes serves on a kind of listener, by key."""
    return {key: api for key, api in APIS.items() if kind in api.listeners}


def request_class(key: int) -> type[Message]:
    """The class of an API's requests. The first call imports its module."""
    return _message_class(key, "Request")


def response_class(key: int) -> type[Message]:
    """The class of an API's responses. The first call imports its module."""
    return _message_class(key, "Response")


@cache
def _message_class(key: int, suffix: str) -> type[Message]:
    api = APIS.get(key)
    if api is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"API key {key} is not supported")
    module = import_module(f".messages.{api.key.name.lower()}", __package__)
    return cast("type[Message]", getattr(module, api.name + suffix))

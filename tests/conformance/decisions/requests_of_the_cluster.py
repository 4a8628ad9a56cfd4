"""Random requests about configurations, quotas, users, entries, replicas and the cluster itself."""

from collections.abc import Collection

from tierlog.clients.protocol.api import ApiKey

from ...security.access_matrix_cluster import REFUSED_ACL
from .draw import Draw, Values, drawn

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
_KEYS = {
    TOPIC: ("retention.ms", "1000000"),
    BROKER: ("log.cleaner.threads", "1"),
    LOGGER: ("root", "INFO"),
    METRICS: ("interval.ms", "60000"),
    GROUP: ("consumer.session.timeout.ms", "50000"),
}


def _resources(d: Draw) -> list[tuple[int, str]]:
    """One to four resources of any kind, each once."""
    names = {
        TOPIC: d.topics(),
        BROKER: [str(d.one("1", "11", "", "77"))],
        LOGGER: [str(d.one("1", "11", "77"))],
        METRICS: [d.topic()],
        GROUP: [d.group()],
    }
    of_all = [(kind, name) for kind, each in names.items() for name in each]
    return d.random.sample(of_all, d.random.randint(1, 4))


@drawn(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(d: Draw) -> Values:
    # What the logger is at, and how many threads clean, are the two brokers' own matters.
    other = {LOGGER: "no.such.key", BROKER: "num.partitions"}

    def key(kind: int) -> str:
        return other.get(kind, _KEYS[kind][0])

    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": [key(kind)]}
            for kind, name in _resources(d)
        ],
        "include_synonyms": d.flag(),
    }


def _changes(d: Draw, kinds: Collection[int], **more: object) -> Values:
    resources: list[object] = []
    for kind, name in _resources(d):
        if kind in kinds:
            key, value = _KEYS[kind]
            changes = [{"name": key, "value": value, **more}]
            resources.append({"resource_type": kind, "resource_name": name, "configs": changes})
    return {"validate_only": True, "resources": resources}


@drawn(ApiKey.ALTER_CONFIGS)
def alter_configs(d: Draw) -> Values:
    return _changes(d, (TOPIC, BROKER))


@drawn(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs(d: Draw) -> Values:
    return _changes(d, _KEYS, config_operation=0)


@drawn(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(d: Draw) -> Values:
    return {"resource_types": d.one([TOPIC], [METRICS], [GROUP], [TOPIC, BROKER])}


@drawn(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(d: Draw) -> Values:
    component = {"entity_type": "user", "match_type": 2, "match": None}
    return {"components": [component], "strict": d.flag()}


@drawn(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(d: Draw) -> Values:
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": name}],
            "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
        }
        for name in d.several(("alice", "bob"))
    ]
    return {"entries": entries, "validate_only": True}


@drawn(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(d: Draw) -> Values:
    return {"users": [{"name": name} for name in d.several(("nobody", "noone"))]}


@drawn(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(d: Draw) -> Values:
    deletions = [{"name": name, "mechanism": 1} for name in d.several(("nobody", "noone"))]
    return {"deletions": deletions, "upsertions": []}


# -- Access control entries -------------------------------------------------------------------


def _filter(d: Draw) -> Values:
    return {
        "resource_type_filter": d.one(1, 2, 3, 4),
        "resource_name_filter": d.one(None, "a"),
        "pattern_type_filter": d.one(1, 2, 3),
        "principal_filter": d.one(None, "User:alice"),
        "host_filter": None,
        "operation": 1,
        "permission_type": d.one(1, 3),
    }


@drawn(ApiKey.DESCRIBE_ACLS)
def describe_acls(d: Draw) -> Values:
    return _filter(d)


@drawn(ApiKey.DELETE_ACLS)
def delete_acls(d: Draw) -> Values:
    filters = [{**_filter(d), "principal_filter": "User:nobody"} for _ in range(2)]
    return {"filters": filters[: d.random.randint(1, 2)]}


@drawn(ApiKey.CREATE_ACLS)
def create_acls(d: Draw) -> Values:
    return {"creations": [REFUSED_ACL] * d.random.randint(1, 2)}


# -- Replicas and nodes -----------------------------------------------------------------------


@drawn(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(d: Draw) -> Values:
    topics = [{"name": name, "partitions": [0]} for name in d.topics()]
    return {"dirs": [{"path": "/nowhere", "topics": topics}]}


@drawn(ApiKey.DESCRIBE_LOG_DIRS, ignoring=("log_dir", "usable_bytes", "total_bytes"))
def describe_log_dirs(d: Draw) -> Values:
    return {"topics": [{"topic": name, "partitions": [0]} for name in d.topics()]}


@drawn(ApiKey.ELECT_LEADERS)
def elect_leaders(d: Draw) -> Values:
    topics = [{"topic": name, "partitions": [0]} for name in d.topics()]
    return {"election_type": d.one(0, 1), "topic_partitions": topics, "timeout_ms": 5_000}


@drawn(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(d: Draw) -> Values:
    partitions = [{"partition_index": 0, "replicas": None}]
    topics = [{"name": name, "partitions": partitions} for name in d.topics()]
    return {"timeout_ms": 5_000, "topics": topics}


@drawn(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(d: Draw) -> Values:
    topics = [{"name": name, "partition_indexes": [0]} for name in d.topics()]
    return {"timeout_ms": 5_000, "topics": topics if d.flag() else None}


@drawn(
    ApiKey.DESCRIBE_QUORUM,
    ignoring=(
        *("leader_epoch", "high_watermark", "log_end_offset", "listeners"),
        *("last_fetch_timestamp", "last_caught_up_timestamp"),
    ),
)
def describe_quorum(_: Draw) -> Values:
    metadata = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    return {"topics": [metadata]}


@drawn(ApiKey.UPDATE_FEATURES)
def update_features(d: Draw) -> Values:
    update = {"feature": d.one("no.such", "none"), "max_version_level": 1, "upgrade_type": 1}
    return {"timeout_ms": 5_000, "validate_only": True, "feature_updates": [update]}


@drawn(ApiKey.UNREGISTER_BROKER)
def unregister_broker(d: Draw) -> Values:
    return {"broker_id": d.one(77, 78)}


@drawn(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(d: Draw) -> Values:
    return {
        "include_cluster_authorized_operations": d.flag(),
        "endpoint_type": d.one(1, 2),
        "include_fenced_brokers": d.flag(),
    }


# -- Where nobody has to say who he is --------------------------------------------------------


@drawn(ApiKey.API_VERSIONS, ignoring=("api_keys", "supported_features", "finalized_features"))
def api_versions(_: Draw) -> Values:
    return {"client_software_name": "test", "client_software_version": "1"}


@drawn(ApiKey.SASL_HANDSHAKE, is_of_plain_text=True)
def sasl_handshake(_: Draw) -> Values:
    return {"mechanism": "PLAIN"}


@drawn(ApiKey.SASL_AUTHENTICATE, is_of_plain_text=True)
def sasl_authenticate(_: Draw) -> Values:
    return {"auth_bytes": b""}

"""Meaningful requests: the cluster, its topics and partitions, configurations and quotas."""

from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from tierlog.clients.protocol.schema import Message

from .meaningful_requests import (
    KNOWN,
    Ask,
    Reading,
    always,
    by_id,
    configs_of,
    metadata_of,
    request,
    story,
    topic,
)
from .twins import Side, Twins

_SECURITY_DISABLED = 54
_UNKNOWN_BROKER = 77
_ELECTION_NOT_NEEDED = 84
_BROKER_ID_NOT_REGISTERED = 102
_TOPIC = 2
_METADATA_LEVEL = 30


@story(ApiKey.API_VERSIONS, ignoring=("api_keys", "supported_features", "finalized_features"))
def api_versions(_: Twins, version: int) -> Ask:
    return always(
        ApiKey.API_VERSIONS, version, client_software_name="test", client_software_version="1"
    )


@story(ApiKey.METADATA)
def metadata(_: Twins, version: int) -> Ask:
    return always(ApiKey.METADATA, version, topics=[{"name": KNOWN}])


@story(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(_: Twins, version: int) -> Ask:
    return always(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)


_ANY_ACL = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}


@story(ApiKey.DESCRIBE_ACLS, errors=(_SECURITY_DISABLED,))
def describe_acls(_: Twins, version: int) -> Ask:
    return always(ApiKey.DESCRIBE_ACLS, version, **_ANY_ACL)


@story(ApiKey.CREATE_ACLS, errors=(_SECURITY_DISABLED,))
def create_acls(_: Twins, version: int) -> Ask:
    creation = {
        "resource_type": _TOPIC,
        "resource_name": KNOWN,
        "principal": "User:somebody",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return always(ApiKey.CREATE_ACLS, version, creations=[creation])


@story(ApiKey.DELETE_ACLS, errors=(_SECURITY_DISABLED,))
def delete_acls(_: Twins, version: int) -> Ask:
    return always(ApiKey.DELETE_ACLS, version, filters=[_ANY_ACL])


@story(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(_: Twins, version: int) -> Ask:
    return always(ApiKey.DESCRIBE_TOPIC_PARTITIONS, version, topics=[{"name": KNOWN}])


@story(
    ApiKey.DESCRIBE_QUORUM,
    ignoring=(
        *("leader_epoch", "high_watermark", "log_end_offset", "listeners"),
        *("last_fetch_timestamp", "last_caught_up_timestamp"),
    ),
)
def describe_quorum(_: Twins, version: int) -> Ask:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    return always(ApiKey.DESCRIBE_QUORUM, version, topics=topics)


@story(ApiKey.UNREGISTER_BROKER, errors=(_BROKER_ID_NOT_REGISTERED,))
def unregister_broker(_: Twins, version: int) -> Ask:
    return always(ApiKey.UNREGISTER_BROKER, version, broker_id=_UNKNOWN_BROKER)


@story(ApiKey.UPDATE_FEATURES)
def update_features(_: Twins, version: int) -> Ask:
    update = {"feature": "metadata.version", "max_version_level": _METADATA_LEVEL}
    return always(ApiKey.UPDATE_FEATURES, version, feature_updates=[update])


# -- Topics and their partitions --------------------------------------------------------------


@story(ApiKey.CREATE_TOPICS, seen_in=metadata_of("created"))
def create_topics(_: Twins, version: int) -> Ask:
    made = {
        "name": f"created-{version}",
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "5000"}],
    }
    return always(ApiKey.CREATE_TOPICS, version, topics=[made], timeout_ms=10_000)


@story(ApiKey.DELETE_TOPICS, seen_in=metadata_of("deleted"))
def delete_topics(twins: Twins, version: int) -> Ask:
    name = f"deleted-{version}"
    topic(twins, name)

    def delete(side: Side) -> Message:
        by_its_id = by_id(side, name) | {"name": None}
        values: dict[str, object] = {"topics": [by_its_id], "topic_names": [name]}
        return request(ApiKey.DELETE_TOPICS, version, timeout_ms=10_000, **values)

    return delete


@story(ApiKey.CREATE_PARTITIONS, seen_in=metadata_of("grown"))
def create_partitions(twins: Twins, version: int) -> Ask:
    name = f"grown-{version}"
    topic(twins, name)
    grown = [{"name": name, "count": 3, "assignments": None}]
    return always(ApiKey.CREATE_PARTITIONS, version, topics=grown, timeout_ms=10_000)


@story(ApiKey.ELECT_LEADERS, errors=(0, _ELECTION_NOT_NEEDED))
def elect_leaders(_: Twins, version: int) -> Ask:
    topics = [{"topic": KNOWN, "partitions": [0, 1]}]
    return always(ApiKey.ELECT_LEADERS, version, topic_partitions=topics)


@story(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(_: Twins, version: int) -> Ask:
    partitions = [{"partition_index": 0, "replicas": [1]}]
    topics = [{"name": KNOWN, "partitions": partitions}]
    return always(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics)


@story(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(_: Twins, version: int) -> Ask:
    topics = [{"name": KNOWN, "partition_indexes": [0, 1]}]
    return always(ApiKey.LIST_PARTITION_REASSIGNMENTS, version, topics=topics)


@story(ApiKey.DESCRIBE_LOG_DIRS, ignoring=("log_dir", "usable_bytes", "total_bytes"))
def describe_log_dirs(_: Twins, version: int) -> Ask:
    topics = [{"topic": KNOWN, "partitions": [0, 1]}]
    return always(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics)


@story(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(_: Twins, version: int) -> Ask:
    def where_it_is(side: Side) -> Message:
        asked = request(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
        described = side.client.ask(asked, 4, DescribeLogDirsResponse)
        moved = {
            "path": described.results[0].log_dir,
            "topics": [{"name": KNOWN, "partitions": [0]}],
        }
        return request(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=[moved])

    return where_it_is


# -- Configurations and quotas ----------------------------------------------------------------


@story(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(_: Twins, version: int) -> Ask:
    resource = {"resource_type": _TOPIC, "resource_name": KNOWN, "configuration_keys": None}
    return always(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=[resource],
        include_synonyms=True,
        include_documentation=False,
    )


def configured(name: str, **of_the_change: object) -> list[dict[str, object]]:
    change = {"name": "retention.ms", "value": "7000", **of_the_change}
    return [{"resource_type": _TOPIC, "resource_name": name, "configs": [change]}]


@story(ApiKey.ALTER_CONFIGS, seen_in=configs_of("altered"))
def alter_configs(twins: Twins, version: int) -> Ask:
    name = f"altered-{version}"
    topic(twins, name)
    return always(ApiKey.ALTER_CONFIGS, version, resources=configured(name))


@story(ApiKey.INCREMENTAL_ALTER_CONFIGS, seen_in=configs_of("tuned"))
def incremental_alter_configs(twins: Twins, version: int) -> Ask:
    name = f"tuned-{version}"
    topic(twins, name)
    resources = configured(name, config_operation=0)
    return always(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources)


@story(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(_: Twins, version: int) -> Ask:
    return always(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=[16])


def quotas(_: Side, version: int) -> Reading:
    component = {"entity_type": "client-id", "match_type": 0, "match": f"slow-{version}"}
    return request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[component]), 1


def slowing(name: str, version: int) -> Ask:
    entity = [{"entity_type": "client-id", "entity_name": name}]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1000.0}]}
    return always(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=[entry])


@story(ApiKey.ALTER_CLIENT_QUOTAS, seen_in=quotas)
def alter_client_quotas(_: Twins, version: int) -> Ask:
    return slowing(f"slow-{version}", version)


@story(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(twins: Twins, version: int) -> Ask:
    twins.same(slowing("described", 1), 1)
    component = {"entity_type": "client-id", "match_type": 0, "match": "described"}
    return always(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[component], strict=True)


_ILLEGAL_SASL_STATE = 34


@story(ApiKey.SASL_HANDSHAKE, errors=(_ILLEGAL_SASL_STATE,))
def sasl_handshake(_: Twins, version: int) -> Ask:
    return always(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")


@story(ApiKey.SASL_AUTHENTICATE, errors=(_ILLEGAL_SASL_STATE,))
def sasl_authenticate(_: Twins, version: int) -> Ask:
    return always(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=b"")


@story(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(_: Twins, version: int) -> Ask:
    credential = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": bytes(32),
    }
    return always(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, version, upsertions=[credential])


@story(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(_: Twins, version: int) -> Ask:
    return always(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, version, users=[])

"""Random requests about records: written, read, their offsets, and what is said of topics."""

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.record.builder import RecordBatchBuilder

from .draw import UNKNOWN_ID, Draw, Values, drawn, topic_id

_NOBODYS_PRODUCER = 1_000_000


def _batch(*, is_transactional: bool) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=_NOBODYS_PRODUCER if is_transactional else -1,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )
    builder.append(1_700_000_000_000, b"key", b"value")
    return bytes(builder.build())


@drawn(ApiKey.PRODUCE)
def produce(d: Draw) -> Values:
    # A transaction's records are refused: their producer is nobody's.
    is_transactional = d.random.random() < 0.3
    data = [{"index": 0, "records": _batch(is_transactional=is_transactional)}]
    return {
        "acks": d.one(1, -1),
        "timeout_ms": 5_000,
        "transactional_id": d.producer() if is_transactional else None,
        "topic_data": [
            {"name": name, "topic_id": topic_id(name), "partition_data": data}
            for name in d.topics()
        ],
    }


@drawn(ApiKey.FETCH)
def fetch(d: Draw) -> Values:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 200}]
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [
            {"topic": name, "topic_id": topic_id(name), "partitions": partitions}
            for name in d.topics()
        ],
    }


@drawn(ApiKey.LIST_OFFSETS)
def list_offsets(d: Draw) -> Values:
    partitions = [{"partition_index": 0, "timestamp": d.one(-1, -2, 1_700_000_000_000)}]
    return {
        "replica_id": -1,
        "isolation_level": d.one(0, 1),
        "topics": [{"name": name, "partitions": partitions} for name in d.topics()],
    }


@drawn(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(d: Draw) -> Values:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    return {
        "replica_id": -1,
        "topics": [{"topic": name, "partitions": partitions} for name in d.topics()],
    }


@drawn(ApiKey.DELETE_RECORDS)
def delete_records(d: Draw) -> Values:
    partitions = [{"partition_index": 0, "offset": 0}]
    return {
        "timeout_ms": 5_000,
        "topics": [{"name": name, "partitions": partitions} for name in d.topics()],
    }


@drawn(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(d: Draw) -> Values:
    return {"topics": [{"name": name, "partition_indexes": [0]} for name in d.topics()]}


_FIRST_BY_ID = 12


@drawn(ApiKey.METADATA)
def metadata(d: Draw) -> Values:
    bits = {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": d.flag(),
        "include_topic_authorized_operations": d.flag(),
    }
    if d.random.random() < 0.25:
        # Version 0 says "all" with an empty list, and knows no null.
        return {"topics": None if d.version else [], **bits}
    topics: list[object] = [{"name": name} for name in d.topics()]
    if d.version >= _FIRST_BY_ID and d.flag():
        topics = [{"name": None, "topic_id": topic_id(name)} for name in d.topics()]
    return {"topics": topics, **bits}


@drawn(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(d: Draw) -> Values:
    cursor = {"topic_name": d.topic(), "partition_index": 0} if d.flag() else None
    topics = [{"name": name} for name in d.topics()] if d.flag() else []
    return {"topics": topics, "response_partition_limit": d.one(1, 2_000), "cursor": cursor}


# -- What is made, grown and deleted ----------------------------------------------------------


@drawn(ApiKey.CREATE_TOPICS)
def create_topics(d: Draw) -> Values:
    configs = [{"name": "retention.ms", "value": "5000"}] if d.flag() else []
    return {
        "validate_only": True,
        "timeout_ms": 5_000,
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
            for name in (
                *d.topics(),
                *d.several(("__cluster_metadata", "__consumer_offsets", "new")),
            )
        ],
    }


@drawn(ApiKey.CREATE_PARTITIONS)
def create_partitions(d: Draw) -> Values:
    grown = [{"name": name, "count": 3, "assignments": None} for name in d.topics()]
    return {"validate_only": True, "timeout_ms": 5_000, "topics": grown}


_DELETABLE = ("doomed", "ac", "z")
_FIRST_DELETION_BY_ID = 6


@drawn(ApiKey.DELETE_TOPICS)
def delete_topics(d: Draw) -> Values:
    names = d.several(_DELETABLE)
    topics: list[object] = [{"name": name, "topic_id": ZERO_UUID} for name in names]
    if d.version >= _FIRST_DELETION_BY_ID and d.flag():
        by_id: list[object] = [topic_id(name) for name in names if name in {"doomed", "ac"}]
        topics = [{"name": None, "topic_id": each} for each in by_id or [UNKNOWN_ID]]
    return {"timeout_ms": 5_000, "topic_names": names, "topics": topics}

"""What the records of a topic need: writing, reading, offsets and what is told of it."""

from tierlog.clients.protocol.api import ApiKey

from .access_cases import (
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    READ,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    WRITE,
    Case,
    Names,
    batch,
    case,
    every,
    of_cluster,
    of_topic,
    of_transaction,
    one,
    some,
)


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


def _written_and_read() -> list[Case]:
    return [
        *case(ApiKey.PRODUCE, (7, 12), TOPIC_DENIED, one(of_topic(WRITE)), _produced),
        *case(
            ApiKey.PRODUCE,
            (9,),
            TRANSACTION_DENIED,
            every(of_topic(WRITE), of_transaction(WRITE)),
            lambda n: _produced(n, transactional=True),
            "-transactional",
        ),
        *case(ApiKey.FETCH, (4, 12), TOPIC_DENIED, one(of_topic(READ)), _fetched),
        *case(
            ApiKey.FETCH,
            (12,),
            TOPIC_DENIED,
            one(of_cluster(CLUSTER_ACTION)),
            lambda n: _fetched(n, replica_id=2),
            "-follower",
        ),
    ]


def _offsets() -> list[Case]:
    return [
        *case(
            ApiKey.LIST_OFFSETS,
            (2, 9),
            TOPIC_DENIED,
            one(of_topic(DESCRIBE)),
            lambda n: {
                "replica_id": -1,
                "topics": [
                    {"name": n.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
                ],
            },
        ),
        *case(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            (2, 4),
            TOPIC_DENIED,
            some(of_topic(DESCRIBE), of_cluster(CLUSTER_ACTION)),
            lambda n: {
                "replica_id": -1,
                "topics": [
                    {
                        "topic": n.name,
                        "partitions": [
                            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
                        ],
                    }
                ],
            },
        ),
        *case(
            ApiKey.DELETE_RECORDS,
            (1, 2),
            TOPIC_DENIED,
            one(of_topic(DELETE)),
            lambda n: {
                "timeout_ms": 5_000,
                "topics": [{"name": n.name, "partitions": [{"partition_index": 0, "offset": 0}]}],
            },
        ),
    ]


def _described() -> list[Case]:
    return [
        *case(
            ApiKey.DESCRIBE_PRODUCERS,
            (0,),
            TOPIC_DENIED,
            one(of_topic(READ)),
            lambda n: {"topics": [{"name": n.name, "partition_indexes": [0]}]},
        ),
        *case(
            ApiKey.METADATA,
            (1, 8, 12),
            TOPIC_DENIED,
            one(of_topic(DESCRIBE)),
            lambda n: {
                "topics": [{"name": n.name}],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": True,
            },
        ),
        *case(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            (0,),
            TOPIC_DENIED,
            one(of_topic(DESCRIBE)),
            lambda n: {"topics": [{"name": n.name}]},
        ),
    ]


def data_cases() -> list[Case]:
    return [*_written_and_read(), *_offsets(), *_described()]

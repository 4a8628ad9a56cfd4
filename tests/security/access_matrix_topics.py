"""What making, growing and deleting a topic need."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey

from .access_cases import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    TOPIC_DENIED,
    Case,
    Right,
    case,
    cluster,
    of_cluster,
    of_topic,
    one,
    some,
    topic,
)


def _deletion(name: str) -> tuple[tuple[Right, ...], ...]:
    return ((topic(DELETE, name), topic(DESCRIBE, name)), (cluster(DELETE),))


def topic_cases() -> list[Case]:
    return [
        *case(
            ApiKey.CREATE_TOPICS,
            (2, 5, 7),
            TOPIC_DENIED,
            some(of_topic(CREATE), of_cluster(CREATE)),
            lambda n: {
                "validate_only": True,
                "timeout_ms": 5_000,
                "topics": [{"name": n.name, "num_partitions": 1, "replication_factor": 1}],
            },
        ),
        *case(
            ApiKey.CREATE_PARTITIONS,
            (1, 3),
            TOPIC_DENIED,
            one(of_topic(ALTER)),
            lambda n: {
                "validate_only": True,
                "timeout_ms": 5_000,
                "topics": [{"name": n.name, "count": 3, "assignments": None}],
            },
        ),
        *case(
            ApiKey.DELETE_TOPICS,
            (3, 5),
            TOPIC_DENIED,
            _deletion,
            lambda n: {"topic_names": [n.name], "timeout_ms": 5_000},
        ),
        *case(
            ApiKey.DELETE_TOPICS,
            (6,),
            TOPIC_DENIED,
            _deletion,
            lambda n: {
                "topics": [{"name": n.name, "topic_id": Uuid(bytes(16))}],
                "timeout_ms": 5_000,
            },
        ),
    ]

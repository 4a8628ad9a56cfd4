"""What a transaction needs: its producer, what takes part in it, and its end."""

from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import AclOperation

from .access_cases import (
    ALTER,
    CLUSTER_ACTION,
    CLUSTER_DENIED,
    DESCRIBE,
    READ,
    TRANSACTION_DENIED,
    WRITE,
    Case,
    Names,
    case,
    every,
    of_cluster,
    of_group,
    of_topic,
    of_transaction,
    one,
    some,
)

_TXN = {"producer_id": 1, "producer_epoch": 0}


def _committed(n: Names) -> dict[str, object]:
    return {
        "group_id": n.name,
        "member_id": "",
        "topics": [{"name": n.name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        "generation_id": -1,
    }


def _producers() -> list[Case]:
    return [
        *case(
            ApiKey.INIT_PRODUCER_ID,
            (1, 4),
            TRANSACTION_DENIED,
            one(of_transaction(WRITE)),
            lambda n: {"transactional_id": n.name, "transaction_timeout_ms": 10_000},
        ),
        *case(
            ApiKey.INIT_PRODUCER_ID,
            (1, 4),
            CLUSTER_DENIED,
            some(of_cluster(AclOperation.IDEMPOTENT_WRITE), of_topic(WRITE)),
            lambda n: {"transactional_id": None, "transaction_timeout_ms": 10_000},
            "-idempotent",
        ),
    ]


def _partitions_and_offsets() -> list[Case]:
    return [
        *case(
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
        ),
        *case(
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
        ),
        *case(
            ApiKey.ADD_OFFSETS_TO_TXN,
            (1, 3),
            TRANSACTION_DENIED,
            every(of_transaction(WRITE), of_group(READ)),
            lambda n: {"transactional_id": n.name, **_TXN, "group_id": n.name},
        ),
    ]


def _ends() -> list[Case]:
    return [
        *case(
            ApiKey.END_TXN,
            (1, 4),
            TRANSACTION_DENIED,
            one(of_transaction(WRITE)),
            lambda n: {"transactional_id": n.name, **_TXN, "committed": False},
        ),
        *case(
            ApiKey.TXN_OFFSET_COMMIT,
            (2, 3),
            TRANSACTION_DENIED,
            every(of_transaction(WRITE), of_group(READ), of_topic(READ)),
            lambda n: {"transactional_id": n.name, **_TXN, **_committed(n)},
        ),
        *case(
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
        ),
        *case(
            ApiKey.DESCRIBE_TRANSACTIONS,
            (0,),
            TRANSACTION_DENIED,
            one(of_transaction(DESCRIBE)),
            lambda n: {"transactional_ids": [n.name]},
        ),
    ]


def transaction_cases() -> list[Case]:
    return [*_producers(), *_partitions_and_offsets(), *_ends()]

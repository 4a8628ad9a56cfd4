"""What a group needs: its offsets, coordinator and members, and what is told of it."""

from tierlog.clients.protocol.api import ApiKey

from .access_cases import (
    DELETE,
    DESCRIBE,
    GROUP_DENIED,
    READ,
    TRANSACTION_DENIED,
    Case,
    Names,
    case,
    every,
    of_group,
    of_topic,
    of_transaction,
    one,
)


def _committed(n: Names) -> dict[str, object]:
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    topics = [{"name": n.name, "topic_id": n.topic_id, "partitions": partitions}]
    return {
        "group_id": n.name,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": topics,
    }


def _offsets() -> list[Case]:
    return [
        *case(
            ApiKey.OFFSET_COMMIT,
            (2, 9),
            GROUP_DENIED,
            every(of_group(READ), of_topic(READ)),
            _committed,
        ),
        *case(
            ApiKey.OFFSET_FETCH,
            (1, 2, 7),
            GROUP_DENIED,
            every(of_group(DESCRIBE), of_topic(DESCRIBE)),
            lambda n: {"group_id": n.name, "topics": [{"name": n.name, "partition_indexes": [0]}]},
        ),
        *case(
            ApiKey.OFFSET_FETCH,
            (8, 9),
            GROUP_DENIED,
            every(of_group(DESCRIBE), of_topic(DESCRIBE)),
            lambda n: {
                "groups": [
                    {"group_id": n.name, "topics": [{"name": n.name, "partition_indexes": [0]}]}
                ]
            },
        ),
    ]


def _coordinators() -> list[Case]:
    return [
        *case(
            ApiKey.FIND_COORDINATOR,
            (0, 3, 4, 6),
            GROUP_DENIED,
            one(of_group(DESCRIBE)),
            lambda n: {"key": n.name, "coordinator_keys": [n.name]},
        ),
        *case(
            ApiKey.FIND_COORDINATOR,
            (3,),
            TRANSACTION_DENIED,
            one(of_transaction(DESCRIBE)),
            lambda n: {"key": n.name, "key_type": 1},
            "-transaction",
        ),
    ]


def _members() -> list[Case]:
    return [
        *case(
            ApiKey.JOIN_GROUP,
            (3, 6, 9),
            GROUP_DENIED,
            one(of_group(READ)),
            lambda n: {
                "group_id": n.name,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "nobody",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        ),
        *case(
            ApiKey.SYNC_GROUP,
            (3, 5),
            GROUP_DENIED,
            one(of_group(READ)),
            lambda n: {
                "group_id": n.name,
                "generation_id": 1,
                "member_id": "nobody",
                "protocol_type": "consumer",
                "protocol_name": "range",
            },
        ),
        *case(
            ApiKey.HEARTBEAT,
            (3,),
            GROUP_DENIED,
            one(of_group(READ)),
            lambda n: {"group_id": n.name, "generation_id": 1, "member_id": "nobody"},
        ),
        *case(
            ApiKey.LEAVE_GROUP,
            (2, 4),
            GROUP_DENIED,
            one(of_group(READ)),
            lambda n: {
                "group_id": n.name,
                "member_id": "nobody",
                "members": [{"member_id": "nobody"}],
            },
        ),
    ]


def _described_and_deleted() -> list[Case]:
    return [
        *case(
            ApiKey.DESCRIBE_GROUPS,
            (0, 5),
            GROUP_DENIED,
            one(of_group(DESCRIBE)),
            lambda n: {"groups": [n.name], "include_authorized_operations": True},
        ),
        *case(
            ApiKey.DELETE_GROUPS,
            (1,),
            GROUP_DENIED,
            one(of_group(DELETE)),
            lambda n: {"groups_names": [n.name]},
        ),
        *case(
            ApiKey.OFFSET_DELETE,
            (0,),
            GROUP_DENIED,
            every(of_group(DELETE), of_topic(READ)),
            lambda n: {
                "group_id": n.name,
                "topics": [{"name": n.name, "partitions": [{"partition_index": 0}]}],
            },
        ),
    ]


def _consumer_protocol() -> list[Case]:
    return [
        *case(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            (0, 1),
            GROUP_DENIED,
            one(of_group(DESCRIBE)),
            lambda n: {"group_ids": [n.name], "include_authorized_operations": True},
        ),
        *case(
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
        ),
    ]


def group_cases() -> list[Case]:
    return [
        *_offsets(),
        *_coordinators(),
        *_members(),
        *_described_and_deleted(),
        *_consumer_protocol(),
    ]

"""Random requests about groups, their offsets and members, and about transactions."""

from tierlog.clients.protocol.api import ApiKey

from ..twins import SUBSCRIPTION
from .draw import CLASSIC, CONSUMERS, GROUPS, MISSING, PRODUCERS, Draw, Own, Values, drawn, topic_id

ANNA = Own("member", "anna")
"""The member of the group of the classic protocol."""

BEN = "ben-ben-ben-ben-ben-ben"
"""The member of the group of the consumer protocol; it has named itself."""

NOBODY = "nobody"
_NOBODYS_PRODUCER = {"producer_id": 1_000_000, "producer_epoch": 0}


@drawn(ApiKey.OFFSET_COMMIT)
def offset_commit(d: Draw) -> Values:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]
    return {
        "group_id": d.group(),
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [
            {"name": name, "topic_id": topic_id(name), "partitions": partitions}
            for name in d.topics()
        ],
    }


_FIRST_WITH_GROUPS = 8


@drawn(ApiKey.OFFSET_FETCH)
def offset_fetch(d: Draw) -> Values:
    is_stable = {"require_stable": d.flag()}
    if d.version < _FIRST_WITH_GROUPS:
        named = [{"name": name, "partition_indexes": [0]} for name in d.topics()]
        is_of_all = d.version > 1 and d.flag()
        return {"group_id": d.group(), "topics": None if is_of_all else named, **is_stable}
    groups: list[object] = []
    for group in d.groups():
        topics = [
            {"name": name, "topic_id": topic_id(name), "partition_indexes": [0]}
            for name in d.topics()
        ]
        groups.append({"group_id": group, "topics": None if d.flag() else topics})
    return {"groups": groups, **is_stable}


@drawn(ApiKey.OFFSET_DELETE)
def offset_delete(d: Draw) -> Values:
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in d.topics()]
    return {"group_id": d.group(), "topics": topics}


_FIRST_WITH_TYPES = 1


@drawn(ApiKey.FIND_COORDINATOR)
def find_coordinator(d: Draw) -> Values:
    # A name that is none of a share group's partition, which Kafka has the type 2 for.
    key_type = d.one(0, 0, 1, 1, 2) if d.version >= _FIRST_WITH_TYPES else 0
    keys = d.producers() if key_type == 1 else d.groups()
    return {"key": keys[0], "key_type": key_type, "coordinator_keys": keys}


@drawn(ApiKey.JOIN_GROUP)
def join_group(d: Draw) -> Values:
    return {
        "group_id": d.group(),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": NOBODY,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


@drawn(ApiKey.SYNC_GROUP)
def sync_group(d: Draw) -> Values:
    return {
        "group_id": d.group(),
        "generation_id": 1,
        "member_id": d.one(NOBODY, ANNA),
        "protocol_type": d.one("consumer", "other"),
        "protocol_name": "range",
    }


@drawn(ApiKey.HEARTBEAT)
def heartbeat(d: Draw) -> Values:
    return {"group_id": d.group(), "generation_id": 1, "member_id": d.one(NOBODY, ANNA)}


@drawn(ApiKey.LEAVE_GROUP)
def leave_group(d: Draw) -> Values:
    return {"group_id": d.group(), "member_id": NOBODY, "members": [{"member_id": NOBODY}]}


@drawn(ApiKey.DESCRIBE_GROUPS, ignoring=("client_host",))
def describe_groups(d: Draw) -> Values:
    return {"groups": d.groups(), "include_authorized_operations": d.flag()}


@drawn(ApiKey.LIST_GROUPS)
def list_groups(d: Draw) -> Values:
    return {
        "states_filter": d.one([], ["Empty"], ["Stable"]),
        "types_filter": d.one([], ["classic"], ["consumer"]),
    }


@drawn(ApiKey.DELETE_GROUPS)
def delete_groups(d: Draw) -> Values:
    return {"groups_names": d.groups()}


@drawn(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(d: Draw) -> Values:
    regex = d.one(None, "a.*", "[") if d.version else None
    return {
        "group_id": d.one(*GROUPS, CLASSIC, CONSUMERS, *MISSING),
        "member_id": "m" * 22,
        "member_epoch": 9,
        "subscribed_topic_names": d.topics() if d.flag() else [],
        "subscribed_topic_regex": regex,
    }


@drawn(ApiKey.CONSUMER_GROUP_DESCRIBE, ignoring=("client_host",))
def consumer_group_describe(d: Draw) -> Values:
    return {"group_ids": d.groups(), "include_authorized_operations": d.flag()}


# -- Transactions -----------------------------------------------------------------------------


@drawn(ApiKey.INIT_PRODUCER_ID, ignoring=("producer_id",))
def init_producer_id(d: Draw) -> Values:
    name = d.one(*PRODUCERS, *MISSING) if d.flag() else None
    return {"transactional_id": name, "transaction_timeout_ms": 10_000}


@drawn(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(d: Draw) -> Values:
    names = [*d.topics(), *(["__consumer_offsets"] if d.random.random() < 0.2 else [])]
    topics = [{"name": name, "partitions": [0]} for name in names]
    one = {"transactional_id": d.producer(), **_NOBODYS_PRODUCER, "topics": topics}
    if d.version < 4:
        return {f"v3_and_below_{name}": value for name, value in one.items()}
    several = [{**one, "transactional_id": name, "verify_only": d.flag()} for name in d.producers()]
    return {"transactions": several}


@drawn(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(d: Draw) -> Values:
    return {"transactional_id": d.producer(), **_NOBODYS_PRODUCER, "group_id": d.group()}


@drawn(ApiKey.END_TXN)
def end_txn(d: Draw) -> Values:
    return {"transactional_id": d.producer(), **_NOBODYS_PRODUCER, "committed": d.flag()}


@drawn(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit(d: Draw) -> Values:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    return {
        "transactional_id": d.producer(),
        **_NOBODYS_PRODUCER,
        "group_id": d.group(),
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": name, "partitions": partitions} for name in d.topics()],
    }


@drawn(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(d: Draw) -> Values:
    marker: Values = {
        "producer_id": 2_000_000,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        # A marker would outlive the topic's deletion on one side alone.
        "topics": [{"name": name, "partition_indexes": [0]} for name in d.several(MISSING)],
    }
    return {"markers": [marker]}


@drawn(ApiKey.DESCRIBE_TRANSACTIONS, ignoring=("producer_id", "transaction_start_time_ms"))
def describe_transactions(d: Draw) -> Values:
    return {"transactional_ids": d.producers()}


@drawn(ApiKey.LIST_TRANSACTIONS, ignoring=("producer_id",))
def list_transactions(d: Draw) -> Values:
    return {
        "state_filters": d.one([], ["Ongoing"], ["Empty"]),
        "transactional_id_pattern": d.one(None, "a.*", "z"),
    }

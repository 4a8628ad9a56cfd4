"""Meaningful requests: records, offsets and groups."""

from collections.abc import Callable

from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.join_group import JoinGroupRequestProtocol
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.recordings.printed_lines import kafkas_now_ms

from .meaningful_requests import (
    KNOWN,
    Ask,
    always,
    ask,
    by_id,
    end_of,
    group_of,
    offsets_of,
    production,
    request,
    story,
    topic,
    topic_id,
)
from .twins import SUBSCRIPTION, Side, Twins


@story(ApiKey.PRODUCE, seen_in=end_of("produced"))
def produce(twins: Twins, version: int) -> Ask:
    name = f"produced-{version}"
    topic(twins, name)
    return lambda side: request(
        ApiKey.PRODUCE, version, **production(name, 3, topic_id(side, name))
    )


@story(ApiKey.FETCH)
def fetch(_: Twins, version: int) -> Ask:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}

    def from_the_start(side: Side) -> Message:
        where = {"topic": KNOWN, "topic_id": topic_id(side, KNOWN), "partitions": [partition]}
        return request(ApiKey.FETCH, version, min_bytes=1, topics=[where])

    return from_the_start


@story(ApiKey.LIST_OFFSETS)
def list_offsets(_: Twins, version: int) -> Ask:
    # What each version has brought; before, a time.
    special = {7: -3, 8: -4, 9: -5, 10: -1, 11: -6}.get(version, 1_700_000_000_002)
    partitions = [
        {"partition_index": 0, "timestamp": special},
        {"partition_index": 1, "timestamp": -2},
    ]
    topics = [{"name": KNOWN, "partitions": partitions}]
    return always(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)


@story(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(_: Twins, version: int) -> Ask:
    partitions = [{"partition": 0, "leader_epoch": 0}]
    topics = [{"topic": KNOWN, "partitions": partitions}]
    return always(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)


@story(ApiKey.INIT_PRODUCER_ID, ignoring=("producer_id",))
def init_producer_id(_: Twins, version: int) -> Ask:
    return always(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None)


@story(ApiKey.DELETE_RECORDS)
def delete_records(twins: Twins, version: int) -> Ask:
    name = f"shortened-{version}"
    topic(twins, name, records=5)
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 3}]}]
    return always(ApiKey.DELETE_RECORDS, version, topics=topics, timeout_ms=10_000)


@story(ApiKey.DESCRIBE_PRODUCERS, ignoring=("last_timestamp",))
def describe_producers(twins: Twins, version: int) -> Ask:
    topic(twins, "produced-lately")
    # A producer that has been silent since 2023 would be forgotten, by one side sooner.
    times_ms = (kafkas_now_ms(), SystemEnvironment().wall_clock_ms())
    for side, time_ms in zip(twins.sides, times_ms, strict=True):
        ask(side, ApiKey.PRODUCE, 9, **production("produced-lately", 3, timestamp=time_ms))
    topics = [{"name": "produced-lately", "partition_indexes": [0]}]
    return always(ApiKey.DESCRIBE_PRODUCERS, version, topics=topics)


# -- Committed offsets ------------------------------------------------------------------------


def committing(group: str, version: int = 9) -> Ask:
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "so far"}

    def commit(side: Side) -> Message:
        topics = [by_id(side, KNOWN) | {"partitions": [partition]}]
        return request(ApiKey.OFFSET_COMMIT, version, group_id=group, topics=topics)

    return commit


@story(ApiKey.OFFSET_COMMIT, seen_in=offsets_of("committed"))
def offset_commit(_: Twins, version: int) -> Ask:
    return committing(f"committed-{version}", version)


@story(ApiKey.OFFSET_FETCH)
def offset_fetch(twins: Twins, version: int) -> Ask:
    group = f"fetched-{version}"
    twins.same(committing(group), 9)

    def read(side: Side) -> Message:
        wanted = by_id(side, KNOWN) | {"partition_indexes": [0, 1]}
        if version >= 8:
            groups = [{"group_id": group, "topics": [wanted]}]
            return request(ApiKey.OFFSET_FETCH, version, groups=groups)
        del wanted["topic_id"]
        return request(ApiKey.OFFSET_FETCH, version, group_id=group, topics=[wanted])

    return read


@story(ApiKey.OFFSET_DELETE, seen_in=offsets_of("uncommitted"))
def offset_delete(twins: Twins, version: int) -> Ask:
    group = f"uncommitted-{version}"
    twins.same(committing(group), 9)
    topics = [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]
    return always(ApiKey.OFFSET_DELETE, version, group_id=group, topics=topics)


# -- Members of groups ------------------------------------------------------------------------


def joining(group: str, version: int) -> Ask:
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    return lambda side: request(
        ApiKey.JOIN_GROUP,
        version,
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=side.id_of("anna"),
        protocol_type="consumer",
        protocols=protocols,
    )


def syncing(group: str, version: int) -> Ask:
    return lambda side: request(
        ApiKey.SYNC_GROUP,
        version,
        group_id=group,
        generation_id=1,
        member_id=side.id_of("anna"),
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": side.id_of("anna"), "assignment": b"everything"}],
    )


def known_member(twins: Twins, group: str) -> None:
    """anna has been given her id, and has to join with it."""
    for side in twins.sides:
        side.ids["anna"] = ""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]
    twins.join("anna", 9, group_id=group, protocols=protocols)


def stable_group(twins: Twins, group: str) -> None:
    """anna leads a group and has all there is."""
    known_member(twins, group)
    twins.same(joining(group, 9), 9)
    twins.same(syncing(group, 5), 5)


@story(ApiKey.FIND_COORDINATOR)
def find_coordinator(_: Twins, version: int) -> Ask:
    values: dict[str, object] = {"coordinator_keys": ["some", "group"], "key_type": 0}
    if version < 4:
        values = {"key": "some"}
    return always(ApiKey.FIND_COORDINATOR, version, **values)


@story(ApiKey.JOIN_GROUP, seen_in=group_of("joined"))
def join_group(twins: Twins, version: int) -> Ask:
    group = f"joined-{version}"
    known_member(twins, group)
    return joining(group, version)


@story(ApiKey.SYNC_GROUP, seen_in=group_of("synced"))
def sync_group(twins: Twins, version: int) -> Ask:
    group = f"synced-{version}"
    known_member(twins, group)
    twins.same(joining(group, 9), 9)
    return syncing(group, version)


def as_anna(
    key: ApiKey, group: str, version: int, values: Callable[[Side], dict[str, object]]
) -> Ask:
    return lambda side: request(
        key, version, group_id=group, **(values(side) | {"member_id": side.id_of("anna")})
    )


@story(ApiKey.HEARTBEAT)
def heartbeat(twins: Twins, version: int) -> Ask:
    group = f"alive-{version}"
    stable_group(twins, group)
    return as_anna(ApiKey.HEARTBEAT, group, version, lambda _: {"generation_id": 1})


@story(ApiKey.LEAVE_GROUP, seen_in=group_of("left"))
def leave_group(twins: Twins, version: int) -> Ask:
    group = f"left-{version}"
    stable_group(twins, group)

    def members(side: Side) -> dict[str, object]:
        return {"members": [{"member_id": side.id_of("anna"), "group_instance_id": None}]}

    return as_anna(ApiKey.LEAVE_GROUP, group, version, members)


@story(ApiKey.DESCRIBE_GROUPS)
def describe_groups(twins: Twins, version: int) -> Ask:
    group = f"described-{version}"
    stable_group(twins, group)
    return always(
        ApiKey.DESCRIBE_GROUPS, version, groups=[group], include_authorized_operations=True
    )


@story(ApiKey.LIST_GROUPS)
def list_groups(twins: Twins, version: int) -> Ask:
    twins.same(committing(f"listed-{version}"), 9)
    return always(ApiKey.LIST_GROUPS, version, states_filter=["Empty"], types_filter=["classic"])


@story(ApiKey.DELETE_GROUPS, seen_in=group_of("deleted"))
def delete_groups(twins: Twins, version: int) -> Ask:
    group = f"deleted-{version}"
    twins.same(committing(group), 9)
    return always(ApiKey.DELETE_GROUPS, version, groups_names=[group])


# -- Members of groups of the consumer protocol -----------------------------------------------


def beating(group: str, version: int) -> Ask:
    return always(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id=group,
        member_id="the-member" if version else "",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[KNOWN],
        topic_partitions=[],
    )


@story(ApiKey.CONSUMER_GROUP_HEARTBEAT, ignoring=("member_id",))
def consumer_group_heartbeat(_: Twins, version: int) -> Ask:
    return beating(f"beating-{version}", version)


@story(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(twins: Twins, version: int) -> Ask:
    group = f"told-{version}"
    twins.same(beating(group, 1), 1)
    return always(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        group_ids=[group],
        include_authorized_operations=True,
    )


# -- Telemetry --------------------------------------------------------------------------------

_OF_THE_CLIENT = ("client_instance_id", "subscription_id")


@story(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ignoring=_OF_THE_CLIENT, is_kafkas=False)
def get_telemetry_subscriptions(_: Twins, version: int) -> Ask:
    return always(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, version)


@story(ApiKey.PUSH_TELEMETRY, is_kafkas=False)
def push_telemetry(_: Twins, version: int) -> Ask:
    def push(side: Side) -> Message:
        subscription = request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0)
        given = side.client.receive(side.client.send(subscription, 0))
        values = {name: getattr(given, name) for name in _OF_THE_CLIENT}
        return request(ApiKey.PUSH_TELEMETRY, version, metrics=b"", terminating=True, **values)

    return push

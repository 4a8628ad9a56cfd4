"""Meaningful requests: transactions, from the producer's first to the administrator's last."""

from functools import partial

from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.schema import Message

from ..waiting import wait_until
from .meaningful_requests import KNOWN, Ask, always, ask, request, story, topic
from .twins import Side, Twins

_MINUTE_MS = 60_000
_FIRST_BATCHED = 4
_FIRST_ADDING = 5


def producer(side: Side, name: str) -> dict[str, object]:
    """A transactional id and its producer, once its coordinator is there."""
    found: list[InitProducerIdResponse] = []

    def has_come() -> bool:
        ask(side, ApiKey.FIND_COORDINATOR, 6, key_type=1, coordinator_keys=[name])
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_MINUTE_MS)
        found[:] = [side.client.ask(asked, 5, InitProducerIdResponse)]
        return not found[0].error_code

    wait_until(has_come, 60, lambda: f"no producer: {found}")
    return {
        "transactional_id": name,
        "producer_id": found[0].producer_id,
        "producer_epoch": found[0].producer_epoch,
    }


def opened(side: Side, name: str, topic_name: str = KNOWN) -> dict[str, object]:
    """A producer with an open transaction."""
    who = producer(side, name)
    topics = [{"name": topic_name, "partitions": [0]}]
    ask(side, ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions=[{**who, "topics": topics}])
    return who


@story(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(_: Twins, version: int) -> Ask:
    topics = [{"name": KNOWN, "partitions": [0]}]

    def adding(side: Side) -> Message:
        who = {**producer(side, f"adding-{version}"), "topics": topics}
        if version >= _FIRST_BATCHED:
            return request(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[who])
        old = {f"v3_and_below_{name}": value for name, value in who.items()}
        return request(ApiKey.ADD_PARTITIONS_TO_TXN, version, **old)

    return adding


@story(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(_: Twins, version: int) -> Ask:
    def adding(side: Side) -> Message:
        who = producer(side, f"adding-offsets-{version}")
        return request(ApiKey.ADD_OFFSETS_TO_TXN, version, group_id="group", **who)

    return adding


@story(ApiKey.END_TXN, ignoring=("producer_id",))
def end_txn(twins: Twins, version: int) -> Ask:
    name = f"ended-{version}"
    topic(twins, name)

    def ending(side: Side) -> Message:
        who = opened(side, f"ending-{version}", name)
        return request(ApiKey.END_TXN, version, committed=True, **who)

    return ending


@story(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit(_: Twins, version: int) -> Ask:
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    topics = [{"name": KNOWN, "partitions": [partition]}]

    def committing(side: Side) -> Message:
        who = producer(side, f"committing-{version}")
        if version < _FIRST_ADDING:
            ask(side, ApiKey.ADD_OFFSETS_TO_TXN, 4, group_id="in-transactions", **who)
        values = {**who, "group_id": "in-transactions", "topics": topics}
        return request(ApiKey.TXN_OFFSET_COMMIT, version, **values)

    return committing


@story(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(twins: Twins, version: int) -> Ask:
    name = f"marked-{version}"
    topic(twins, name)
    marker = {
        "producer_id": 1_000_000 + version,
        "topics": [{"name": name, "partition_indexes": [0]}],
        "transaction_version": 2,
    }
    if version < 2:
        del marker["transaction_version"]
    return always(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])


@story(ApiKey.DESCRIBE_TRANSACTIONS, ignoring=("producer_id", "transaction_start_time_ms"))
def describe_transactions(twins: Twins, version: int) -> Ask:
    for side in twins.sides:
        opened(side, "described")
    return always(ApiKey.DESCRIBE_TRANSACTIONS, version, transactional_ids=["described"])


@story(ApiKey.LIST_TRANSACTIONS, ignoring=("producer_id",))
def list_transactions(twins: Twins, version: int) -> Ask:
    name = f"listed-{version}"
    ids = {id(side): opened(side, name)["producer_id"] for side in twins.sides}
    listing = partial(request, ApiKey.LIST_TRANSACTIONS, version, state_filters=["Ongoing"])
    return lambda side: listing(producer_id_filters=[ids[id(side)]])

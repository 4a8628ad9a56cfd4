"""Every version of every API that a running broker announces is asked for and answered.

The answer must be whole and well-formed, carry the right header, say that it went well, and say the
same as Apache Kafka's answer to the same request after the same story. Where a request changes
something, the change is read back on both sides.
"""

import struct
from collections.abc import Iterator
from functools import partial
from importlib import import_module

import pytest

from tierlog.clients.protocol.api import SERVED, Api, ApiKey
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tierlog.clients.protocol.schema import Message
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerProcess, RawClient
from ..waiting import wait_until
from .meaningful_requests import ENTRIES, KNOWN, Entry, ask, error_codes, production, request
from .side_by_side import OUR_OWN, Plain, plain
from .twins import Side, Twins, prepare

pytestmark = pytest.mark.recorded

# Importing them fills the table.
for module in (
    "requests_of_administration",
    "requests_of_data_and_groups",
    "requests_of_transactions",
):
    import_module(f"{__package__}.{module}")

SETTINGS = {
    "node.id": "1",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # The records are of 2023, and retention must not take them.
    "log.retention.ms": "-1",
}
UNTIERED = {"remote.log.storage.system.enable": "false"}
PRODUCE_IN_NAME_ONLY = range(3)
"""Announced for old librdkafka's sake, and answered by nobody (KAFKA-18659)."""

VERSIONS = [
    (api, version)
    for api in SERVED.values()
    for version in range(api.lowest_version, api.highest_version + 1)
    if api.key != ApiKey.PRODUCE or version not in PRODUCE_IN_NAME_ONLY
]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    kafka = kafka_node(tmp_path_factory.mktemp("kafka"), properties=SETTINGS)
    directory = tmp_path_factory.mktemp("ours")
    with kafka, BrokerProcess.on(directory, SETTINGS | UNTIERED) as ours:
        for port in (kafka.port, ours.port):
            prepare(port)
            fill(port)
        yield kafka.port, ours.port
        assert "Traceback" not in ours.log.read_text()


def fill(port: int) -> None:
    """Records into the topic that everyone asks about, and somebody who wants clients' metrics."""
    with RawClient(port) as client:
        side = Side(client)
        assert error_codes(ask(side, ApiKey.PRODUCE, 9, **production(KNOWN, 5))) == {0}
        wanted = {"name": "interval.ms", "config_operation": 0, "value": "60000"}
        everything = {"name": "metrics", "config_operation": 0, "value": "*"}
        resource = {"resource_type": 16, "resource_name": "m", "configs": [wanted, everything]}
        altered = ask(side, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        assert error_codes(altered) == {0}
        wait_until(partial(groups_are_loaded, client), 60, "the offsets topic is being loaded")


def groups_are_loaded(client: RawClient) -> bool:
    return not client.ask(ListGroupsRequest(), 5, ListGroupsResponse).error_code


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[Twins]:
    both = Twins(*ports)
    yield both
    both.close()


def answers(side: Side, asked: Message, version: int, ignoring: frozenset[str]) -> Plain:
    """An answer that was read to its last byte."""
    answer = side.client.receive(side.client.send(asked, version))
    return side.named(plain(answer, OUR_OWN | ignoring))


def readings(twins: Twins, entry: Entry, version: int) -> list[Plain]:
    """What the request is to change, on each side."""
    assert entry.seen_in is not None
    read = [(side, *entry.seen_in(side, version)) for side in twins.sides]
    return [answers(side, asked, number, frozenset()) for side, asked, number in read]


def check_change(twins: Twins, entry: Entry, version: int, before: list[Plain]) -> None:
    """Both have changed, and to the same. Kafka tells its broker a little later."""
    after: list[Plain] = []

    def both_changed() -> bool:
        after[:] = readings(twins, entry, version)
        return all(now != then for now, then in zip(after, before, strict=True))

    wait_until(both_changed, 30, lambda: f"no change in {after}")
    assert after[1] == after[0]


@pytest.mark.parametrize(
    ("api", "version"),
    VERSIONS,
    ids=lambda each: each.name if isinstance(each, Api) else f"v{each}",
)
def test_a_version_is_served_as_by_kafka(twins: Twins, api: Api, version: int) -> None:
    assert api.key in ENTRIES, f"{api.name} is announced, and has no request in the table"
    entry = ENTRIES[api.key]
    asking = entry.story(twins, version)
    before = readings(twins, entry, version) if entry.seen_in else []
    sides = twins.sides if entry.is_kafkas else (twins.ours,)
    requests = [asking(side) for side in sides]
    assert {type(each).api_key for each in requests} == {api.key}
    found = [
        answers(side, asked, version, entry.ignoring)
        for side, asked in zip(sides, requests, strict=True)
    ]
    assert found[-1] == found[0], "Kafka's answer and ours differ"
    assert error_codes(found[-1]) <= entry.errors
    if entry.seen_in:
        check_change(twins, entry, version, before)


def announced(client: RawClient) -> list[tuple[int, int, int]]:
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = client.ask(asked, 4, ApiVersionsResponse)
    return [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]


def test_what_a_running_broker_announces_is_what_is_tested(twins: Twins) -> None:
    ours = announced(twins.ours.client)
    assert ours == sorted(
        (api.key, api.lowest_version, api.highest_version) for api in SERVED.values()
    )
    tested = {(int(api.key), version) for api, version in VERSIONS}
    tested |= {(ApiKey.PRODUCE, version) for version in PRODUCE_IN_NAME_ONLY}
    assert tested == {(key, version) for key, low, high in ours for version in range(low, high + 1)}
    only_ours = {key for key, entry in ENTRIES.items() if not entry.is_kafkas}
    kafkas = set(announced(twins.kafka.client))
    assert {each for each in ours if each[0] not in only_ours} <= kafkas


@pytest.mark.parametrize("version", PRODUCE_IN_NAME_ONLY)
def test_the_versions_of_produce_that_are_there_in_name_only(twins: Twins, version: int) -> None:
    body = struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1) + struct.pack(">hii", 1, 1_000, 0)
    for side in twins.sides:
        with RawClient(side.client.socket.getpeername()[1]) as victim:
            victim.send_frame(body)
            assert victim.is_closed()


def test_a_request_leaves_out_what_its_version_does_not_have() -> None:
    assert request(ApiKey.FIND_COORDINATOR, 1, coordinator_keys=["k"]) == request(
        ApiKey.FIND_COORDINATOR, 1
    )
    with pytest.raises(KeyError):
        request(ApiKey.FIND_COORDINATOR, 1, no_such_field=1)

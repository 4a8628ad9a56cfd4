"""Quotas are set, removed and found as Apache Kafka does it, and kafka-configs shows them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers

pytestmark = pytest.mark.recorded

PRODUCE, CONSUME, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
Entity = list[tuple[str, str | None]]
Ops = list[tuple[str, float | None]]

ALTERATIONS: list[tuple[Entity, Ops]] = [
    ([("user", "u")], [(PRODUCE, 1000.0)]),
    ([("user", "u"), ("client-id", "c")], [(PRODUCE, 1000.0), (CONSUME, 50.0)]),
    ([("user", None)], [(REQUESTS, 1000.0)]),
    ([("ip", "1.2.3.4")], [("connection_creation_rate", 10.0)]),
    ([("ip", "1.2.3.4")], [(PRODUCE, 10.0)]),
    ([("ip", "nohost.invalid")], [("connection_creation_rate", 10.0)]),
    ([("ip", None)], [("connection_creation_rate", 10.5)]),
    ([("ip", None), ("user", "x")], [("connection_creation_rate", 10.0)]),
    ([], [(PRODUCE, 10.0)]),
    ([("foo", "u")], [(PRODUCE, 10.0)]),
    ([("user", "")], [(PRODUCE, 10.0)]),
    ([("user", "u"), ("user", "v")], [(PRODUCE, 10.0)]),
    ([("user", "u")], [("nonsense", 10.0)]),
    ([("user", "u")], [("nonsense", None)]),
    ([("user", "u")], [(PRODUCE, 0.0)]),
    ([("user", "u")], [(PRODUCE, -1.0)]),
    ([("user", "u")], [(PRODUCE, 10.5)]),
    ([("user", "u")], [(PRODUCE, 1e30)]),
    ([("user", "u")], [("controller_mutation_rate", 10.5)]),
    ([("user", "u")], [(PRODUCE, None)]),
    ([("user", "nobody")], [(PRODUCE, None)]),
    ([("user", "u")], [(PRODUCE, 1.0), (PRODUCE, 2.0)]),
    ([("client-id", "d")], [(PRODUCE, 5.0)]),
    ([("user", None), ("client-id", None)], [(PRODUCE, 6.0)]),
]

FILTERS: list[list[tuple[str, int, str | None]]] = [
    [],
    [("user", 0, "u")],
    [("user", 1, None)],
    [("user", 2, None)],
    [("user", 2, None), ("client-id", 2, None)],
    [("user", 2, None), ("user", 0, "u")],
    [("ip", 2, None)],
    [("ip", 2, None), ("user", 2, None)],
    [("foo", 2, None)],
    [("", 2, None)],
    [("user", 7, None)],
    [("user", 0, None)],
    [("user", 1, "x")],
    [("user", 2, "x")],
    [("user", 0, "")],
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with both_brokers(tmp_path_factory.mktemp("both")) as ports, SideBySide(*ports) as both:
        yield both


def results(answer: Message) -> list[object]:
    """How it went for each entity; the order of its parts means nothing."""
    assert isinstance(answer, AlterClientQuotasResponse)
    return [
        (each.error_code, each.error_message, sorted(map(repr, each.entity)))
        for each in answer.entries
    ]


def found(both: SideBySide, request: DescribeClientQuotasRequest) -> list[object]:
    """What each of the two answers; the order of entities means nothing."""
    answers: list[object] = []
    for answer in both.ask(request, 1):
        assert isinstance(answer, DescribeClientQuotasResponse)
        entries = None if answer.entries is None else sorted(map(repr, answer.entries))
        answers.append((answer.error_code, answer.error_message, entries))
    return answers


def are_alike(both: SideBySide, request: DescribeClientQuotasRequest) -> bool:
    kafka, ours = found(both, request)
    return kafka == ours


def test_quotas_are_altered_and_found_as_in_kafka(both: SideBySide) -> None:
    for entity, ops in ALTERATIONS:
        for version in (0, 1):
            entry = EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops
                ],
            )
            request = AlterClientQuotasRequest(entries=[entry], validate_only=version == 0)
            kafka, ours = (results(answer) for answer in both.ask(request, version))
            assert ours == kafka
    for conditions in FILTERS:
        for strict in (False, True):
            components = [
                ComponentData(entity_type=kind, match_type=match, match=name)
                for kind, match, name in conditions
            ]
            wanted = DescribeClientQuotasRequest(components=components, strict=strict)
            # Kafka's broker hears of them a little later than its controller answers.
            wait_until(partial(are_alike, both, wanted), 60, str(found(both, wanted)))


@pytest.mark.requires("java", "mvn")
def test_kafka_configs_sets_and_shows_quotas_that_outlive_a_restart(tmp_path: Path) -> None:
    settings = {"remote.log.storage.system.enable": "false"}

    def configs(broker: BrokerProcess, *arguments: str) -> str:
        return run_tool("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments).stdout

    user = ("--entity-type", "users", "--entity-name", "u")
    pair = (*user, "--entity-type", "clients", "--entity-name", "c")
    with BrokerProcess.on(tmp_path, settings) as broker:
        rates = "producer_byte_rate=1024,consumer_byte_rate=2048"
        configs(broker, *pair, "--alter", "--add-config", rates)
        default = ("--entity-type", "users", "--entity-default")
        configs(broker, *default, "--alter", "--add-config", "request_percentage=200")
        configs(broker, *default, "--alter", "--delete-config", "request_percentage")
        assert "request_percentage" not in configs(broker, *default, "--describe")
        broker.kill()
    with BrokerProcess.on(tmp_path, settings) as broker:
        shown = configs(broker, *pair, "--describe")
        assert "Quota configs for user-principal 'u', client-id 'c' are" in shown
        assert "producer_byte_rate=1024.0" in shown
        assert "consumer_byte_rate=2048.0" in shown

"""Levels of loggers are set and described as by Apache Kafka, also with its own tool (KIP-412)."""

from collections.abc import Iterator

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig as WholeConfig,
    AlterConfigsRequest,
    AlterConfigsResource as WholeResource,
)
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ..broker_process import RawClient
from .side_by_side import SideBySide, both_brokers

pytestmark = pytest.mark.recorded

LOGGER, SET, DELETE, APPEND, SUBTRACT = 8, 0, 1, 2, 3
KAFKAS, OURS = "kafka.server.ControllerServer", "tierlog.broker.dispatch.apis"
"""A logger that is there from the start, of each of the two."""
Change = tuple[str, int, str | None]

LEVELS: list[str | None] = [
    "debug", "verbose", "", None, "OFF", "ALL", "FATAL", "ERROR", "WARN", "TRACE",
]  # fmt: skip
INFO: list[Change] = [("LOGGER", SET, "INFO")]
STORY: list[tuple[str, list[Change]]] = [
    ("1", [("LOGGER", SET, "DEBUG")]),
    ("1", [("LOGGER", DELETE, None)]),
    ("1", [("root", SET, "WARN")]),
    *(("1", [("LOGGER", SET, level)]) for level in LEVELS),
    ("1", [("LOGGER", APPEND, "INFO")]),
    ("1", [("LOGGER", SUBTRACT, "INFO")]),
    ("1", [("LOGGER", 9, "INFO")]),
    ("1", [("LOGGER", SET, "INFO"), ("LOGGER", SET, "WARN")]),
    ("1", [("LOGGER", SET, "INFO"), ("no.such.logger", SET, "WARN")]),
    ("1", [("no.such.logger", DELETE, None)]),
    ("1", [("root", DELETE, None)]),
    ("1", [("ROOT", SET, "WARN")]),
    ("1", [("root", SET, "ERROR"), ("LOGGER", DELETE, "INFO")]),
    ("1", []),
    *((broker, INFO) for broker in ("", "2", "x", "-1")),
    ("1", [("root", SET, "INFO")]),
]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with both_brokers(tmp_path_factory.mktemp("both")) as ports:
        yield ports


def altered(client: RawClient, logger: str, broker: str, changes: list[Change]) -> list[object]:
    """How two rounds of it went, the first only to be checked; loggers by the name of all."""
    outcome: list[object] = []
    for validate_only in (True, False):
        configs = [
            AlterableConfig(
                name=name.replace("LOGGER", logger), config_operation=operation, value=value
            )
            for name, operation, value in changes
        ]
        resource = AlterConfigsResource(resource_type=LOGGER, resource_name=broker, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        answer = client.ask(request, 1, IncrementalAlterConfigsResponse)
        outcome += [
            (each.error_code, (each.error_message or "").replace(logger, "LOGGER"))
            for each in answer.responses
        ]
    return outcome


def described(client: RawClient, logger: str, broker: str, *keys: str) -> object:
    resource = DescribeConfigsResource(
        resource_type=LOGGER,
        resource_name=broker,
        configuration_keys=[key.replace("LOGGER", logger) for key in keys],
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    answer = client.ask(request, 4, DescribeConfigsResponse).results[0]
    loggers = sorted(repr(each).replace(logger, "LOGGER") for each in answer.configs)
    return answer.error_code, answer.error_message, loggers


def test_levels_are_set_refused_and_described_as_in_kafka(ports: tuple[int, int]) -> None:
    with SideBySide(*ports) as both:
        each_of = ((both.kafka, KAFKAS), (both.ours, OURS))
        for broker, changes in STORY:
            kafka, ours = (altered(client, name, broker, changes) for client, name in each_of)
            assert ours == kafka, changes
            for shown in ("1", "", "2", "x"):
                kafka_shows, ours_shows = (
                    described(client, name, shown, "LOGGER", "root", "no.such.logger")
                    for client, name in each_of
                )
                assert ours_shows == kafka_shows, changes


def test_a_whole_configuration_of_loggers_is_refused(ports: tuple[int, int]) -> None:
    resource = WholeResource(
        resource_type=LOGGER, resource_name="1", configs=[WholeConfig(name="root", value="INFO")]
    )
    with SideBySide(*ports) as both:
        both.same(AlterConfigsRequest(resources=[resource]), 2)


@pytest.mark.requires("java", "mvn")
def test_kafka_configs_sets_and_shows_levels(ports: tuple[int, int]) -> None:
    def configs(*arguments: str) -> str:
        server = f"127.0.0.1:{ports[1]}"
        loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
        return run_tool("kafka-configs", "--bootstrap-server", server, *loggers, *arguments).stdout

    configs("--alter", "--add-config", f"{OURS}=DEBUG,root=ERROR")
    shown = configs("--describe")
    assert f"{OURS}=DEBUG" in shown
    assert "root=ERROR" in shown
    assert "tierlog.broker.broker=ERROR" in shown
    configs("--alter", "--delete-config", OURS)
    assert f"{OURS}=ERROR" in configs("--describe")

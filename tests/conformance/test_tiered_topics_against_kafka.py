"""Tiered topics are made, altered and refused as by Apache Kafka: same request, same words.

These are the checks of Kafka's RemoteTopicCrudTest and what follows from them. Both brokers have a
tier, or both have none.
"""

from collections.abc import Iterator

import pytest

from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerProcess
from .side_by_side import SideBySide, at, both_brokers
from .topic_requests import creation, wait_for_leader

pytestmark = [pytest.mark.recorded, pytest.mark.scenario("7")]

TOPIC, SET, DELETE, APPEND = 2, 0, 1, 2
INVALID_CONFIG = 40

Configs = dict[str, str]
Change = tuple[str, int, str | None]

DEFAULTS = {
    "auto.create.topics.enable": "false",
    "node.id": "1",
    "log.local.retention.ms": "1000",
    "log.local.retention.bytes": "1024",
}

CREATIONS: list[tuple[Configs, bool]] = [
    ({"retention.ms": "200", "local.retention.ms": "100"}, True),
    ({"retention.bytes": "512", "local.retention.bytes": "256"}, True),
    ({"retention.ms": "1001"}, True),
    ({"retention.bytes": "1025"}, True),
    ({"retention.ms": "1000"}, True),
    ({"retention.ms": "200"}, False),
    ({"retention.bytes": "512"}, False),
    ({"retention.ms": "200", "local.retention.ms": "201"}, False),
    ({"retention.bytes": "512", "local.retention.bytes": "513"}, False),
    ({"retention.ms": "5000", "local.retention.ms": "-1"}, False),
    ({"retention.bytes": "5000", "local.retention.bytes": "-1"}, False),
    ({"retention.ms": "-1", "local.retention.ms": "-1"}, True),
    ({"retention.ms": "-1", "local.retention.ms": "500"}, True),
    ({"retention.ms": "200", "local.retention.ms": "-2"}, True),
    ({"retention.bytes": "512", "local.retention.bytes": "-2"}, True),
    ({"retention.ms": "5000", "local.retention.ms": "-3"}, False),
    ({"cleanup.policy": "compact"}, False),
    ({"cleanup.policy": "compact,delete"}, False),
    ({"cleanup.policy": "delete"}, True),
    ({"remote.log.copy.disable": "true"}, False),
    (
        {
            "remote.log.copy.disable": "true",
            "local.retention.ms": "-2",
            "local.retention.bytes": "-2",
        },
        True,
    ),
    (
        {
            "remote.log.copy.disable": "true",
            "local.retention.ms": "-2",
            "local.retention.bytes": "99",
        },
        False,
    ),
    (
        {
            "remote.log.copy.disable": "true",
            "local.retention.ms": "99",
            "retention.ms": "100",
            "local.retention.bytes": "-2",
        },
        False,
    ),
    (
        {
            "remote.log.copy.disable": "true",
            "local.retention.ms": "100",
            "retention.ms": "100",
            "local.retention.bytes": "50",
            "retention.bytes": "50",
        },
        True,
    ),
    ({"remote.log.delete.on.disable": "true"}, True),
    (
        {
            "remote.log.copy.disable": "true",
            "remote.log.delete.on.disable": "true",
            "local.retention.ms": "-2",
            "local.retention.bytes": "-2",
        },
        True,
    ),
    ({"remote.log.copy.disable": "maybe"}, False),
    ({"remote.storage.enable": "yes"}, False),
    ({"remote.storage.enable": "false", "retention.ms": "200"}, True),
    ({"remote.storage.enable": "false", "cleanup.policy": "compact"}, True),
    ({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}, True),
    ({"remote.storage.enable": "false", "remote.log.copy.disable": "true"}, True),
]

STORY: list[tuple[str, list[Change], bool]] = [
    # A topic that was not tiered, and is then.
    ("plain", [("remote.storage.enable", SET, "true")], True),
    ("plain", [("remote.storage.enable", SET, "false")], False),
    ("plain", [("remote.storage.enable", DELETE, None)], False),
    ("plain", [("remote.log.delete.on.disable", SET, "true")], True),
    ("plain", [("remote.storage.enable", SET, "false")], True),
    ("plain", [("remote.storage.enable", SET, "true")], True),
    ("plain", [("remote.storage.enable", DELETE, None)], True),
    # Local retention must stay within the whole.
    ("tiered", [("local.retention.ms", SET, "999999999")], False),
    ("tiered", [("local.retention.ms", SET, "-1")], False),
    ("tiered", [("local.retention.bytes", SET, "-1")], True),
    ("tiered", [("retention.bytes", SET, "2000")], False),
    ("tiered", [("local.retention.bytes", SET, "2000"), ("retention.bytes", SET, "2000")], True),
    ("tiered", [("retention.ms", SET, "999")], False),
    ("tiered", [("local.retention.ms", SET, "-2"), ("retention.ms", SET, "999")], True),
    # Never compacted.
    ("tiered", [("cleanup.policy", SET, "compact")], False),
    ("tiered", [("cleanup.policy", APPEND, "compact")], False),
    ("compacted", [("remote.storage.enable", SET, "true")], False),
    # Copying stops only where nothing depends on it (KIP-950).
    ("copied", [("remote.log.copy.disable", SET, "true")], False),
    (
        "copied",
        [
            ("remote.log.copy.disable", SET, "true"),
            ("local.retention.ms", SET, "-2"),
            ("local.retention.bytes", SET, "-2"),
        ],
        True,
    ),
    ("copied", [("local.retention.bytes", SET, "1")], False),
    (
        "copied",
        [("remote.log.copy.disable", SET, "false"), ("local.retention.bytes", SET, "1")],
        True,
    ),
    # Both in one request (scenario 2.9).
    (
        "copied",
        [
            ("remote.storage.enable", SET, "false"),
            ("remote.log.delete.on.disable", SET, "true"),
        ],
        True,
    ),
]


def alteration(topic: str, changes: list[Change]) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource])


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    directory = tmp_path_factory.mktemp("tiered")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    kafka = kafka_node(directory / "kafka", tiered=True, properties=DEFAULTS)
    with (
        kafka,
        BrokerProcess.on(directory / "ours", DEFAULTS) as ours,
        SideBySide(kafka.port, ours.port) as both,
    ):
        yield both


@pytest.fixture(scope="module")
def untiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with both_brokers(tmp_path_factory.mktemp("untiered")) as ports, SideBySide(*ports) as both:
        yield both


def as_names(configs: Configs) -> Configs:
    return {name.replace(".", "_"): value for name, value in configs.items()}


@pytest.mark.slow
def test_creations(tiered: SideBySide) -> None:
    for number, (configs, succeeds) in enumerate(CREATIONS):
        stated = as_names({"remote.storage.enable": "true", **configs})
        answer = tiered.same(creation(f"made-{number}", 1, 1, **stated), 7)
        code = at(answer, "topics", 0, "error_code")
        assert code == (0 if succeeds else INVALID_CONFIG), configs


@pytest.mark.slow
@pytest.mark.scenario("2.9")
def test_alterations(tiered: SideBySide) -> None:
    made: dict[str, Configs] = {
        "plain": {},
        "tiered": {"remote.storage.enable": "true"},
        "copied": {"remote.storage.enable": "true"},
        "compacted": {"cleanup.policy": "compact"},
    }
    for topic, configs in made.items():
        tiered.same(creation(topic, 1, 1, **as_names(configs)), 7)
        for client in (tiered.kafka, tiered.ours):
            wait_for_leader(client, topic)
    for topic, changes, succeeds in STORY:
        answer = tiered.same(alteration(topic, changes), 1)
        code = at(answer, "responses", 0, "error_code")
        assert code == (0 if succeeds else INVALID_CONFIG), (topic, changes)


@pytest.mark.slow
def test_without_a_tier(untiered: SideBySide) -> None:
    cases: list[Configs] = [
        {"remote.storage.enable": "true"},
        {"remote.storage.enable": "true", "cleanup.policy": "compact"},
        {"remote.storage.enable": "false"},
        {"remote.log.copy.disable": "true"},
        {"remote.log.delete.on.disable": "true"},
        {"retention.ms": "200", "local.retention.ms": "300"},
    ]
    for number, configs in enumerate(cases):
        untiered.same(creation(f"made-{number}", 1, 1, **as_names(configs)), 7)
    wait_for_leader(untiered.kafka, "made-2")
    untiered.same(alteration("made-2", [("remote.storage.enable", SET, "true")]), 1)

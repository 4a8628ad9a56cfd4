"""What Kafka lets be changed while it runs: each name with many values, answered as by Kafka.

Where both take a value it is set, and described with all its synonyms as by Kafka. Some sentences
are tierlog's own; the codes never are.
"""

from collections.abc import Iterator

import pytest

from tierlog.broker.config.config_values import TABLES
from tierlog.broker.config.dynamic_config import DYNAMIC
from tierlog.broker.config.value_rules import THREADS
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
from tierlog.clients.protocol.schema import Message

from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers, plain

pytestmark = pytest.mark.recorded

BROKER, SET, DELETE = 4, 0, 1
VALUES = ("0", "-1", "x", "7", "5", "100000000", "9999999999999", "true", "")
EXCEPTIONS = {
    # Kafka keeps it for the sake of eligible leader replicas (KIP-966), which we do not have.
    "min.insync.replicas": VALUES,
    # Kafka takes any number; outside of 0 to 1 the cleaner could never work.
    "log.cleaner.io.buffer.load.factor": ("0", "-1", "7", "5", "100000000", "9999999999999"),
    # Kafka takes an age that no topic may have.
    "log.flush.interval.ms": ("-1",),
}
NAMES = sorted((DYNAMIC | THREADS) - {"min.insync.replicas"})


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with both_brokers(tmp_path_factory.mktemp("both")) as ports, SideBySide(*ports) as both:
        yield both


def change(
    broker: str, name: str, value: str | None, *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    operation = DELETE if value is None else SET
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def code(answer: Message) -> int:
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("broker", ["", "1"])
def test_what_kafka_lets_be_changed_and_what_it_refuses(
    both: SideBySide, broker: str, name: str
) -> None:
    definition = TABLES.find(name)
    assert definition is not None
    for value in (definition.default, *VALUES):
        if value is None or value in EXCEPTIONS.get(name, ()):
            continue
        request = change(broker, name, value, validate_only=True)
        kafka, ours = (code(answer) for answer in both.ask(request, 1))
        assert ours == kafka, value


def described(both: SideBySide, broker: str, name: str) -> tuple[object, object]:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=broker, configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    kafka, ours = both.ask(request, 4)
    assert isinstance(ours, DescribeConfigsResponse)
    return plain(kafka), plain(ours)


def test_values_in_force_are_described_with_where_they_come_from(both: SideBySide) -> None:
    for name in NAMES:
        definition = TABLES.find(name)
        assert definition is not None
        for broker, value in (("", definition.default), ("1", definition.default), ("", None)):
            if value == "" or (value is None and definition.default is None):
                continue
            kafka, ours = (
                code(each) for each in both.ask(change(broker, name, value, validate_only=False), 1)
            )
            assert ours == kafka == 0, name
            for shown in ("1", ""):

                def is_alike(shown: str = shown, name: str = name) -> bool:
                    kafka, ours = described(both, shown, name)
                    return kafka == ours

                wait_until(is_alike, 60, f"{name}: {described(both, shown, name)}")


@pytest.mark.parametrize("name", ["listeners", "ssl.keystore.type", "cordoned.log.dirs"])
def test_what_only_kafka_can_change_is_refused_in_a_sentence(both: SideBySide, name: str) -> None:
    _, ours = both.ask(change("1", name, "x", validate_only=True), 1)
    assert isinstance(ours, IncrementalAlterConfigsResponse)
    assert ours.responses[0].error_code == 42
    assert f"tierlog cannot change {name} dynamically" in (ours.responses[0].error_message or "")

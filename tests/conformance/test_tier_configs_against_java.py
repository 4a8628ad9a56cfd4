"""The settings of tiering are Kafka's: every name, type, default and rule, and which can change."""

import pytest

from tierlog.broker.config.config_values import TABLES
from tierlog.broker.config.dynamic_config import DYNAMIC
from tierlog.clients.config_def import ConfigDef
from tierlog.tests.conformance.java_programs import answers_of
from tierlog.tiering.config import BROKER_SETTINGS, METADATA_SETTINGS

pytestmark = pytest.mark.recorded

OUR_OWN = {
    # Kafka has no remover of partitions (KAFKA-15313); KIP-405 names the first.
    "remote.partition.remover.task.interval.ms",
    "remote.partition.remover.segments.per.second",
    # Kafka has no cache of remote data.
    "remote.log.chunk.cache.total.size.bytes",
    "remote.log.chunk.size.bytes",
}
STRICTER = {
    # Kafka's constructor refuses the same values with an exception of its own.
    "remote.log.metadata.topic.retention.ms": "[1,...] or -1",
}

Row = tuple[str, str, str, str, bool]


def kafkas(owner: str) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in answers_of("TierConfigs.java", []):
        whose, name, kind, default, rule, dynamic = line.split("\t")
        if whose == owner:
            rule = "" if rule == "null" else rule
            found[name] = (name, kind, default, rule, dynamic == "true")
    return found


def ours(definition: ConfigDef) -> Row:
    default = "null" if definition.default is None else definition.default
    name = definition.name
    return (name, definition.type.name, default, definition.validator, name in DYNAMIC)


def test_a_brokers_settings() -> None:
    expected = kafkas("broker")
    assert len(expected) > 25
    found = {name: TABLES.find(name) for name in expected}
    assert {name: row and ours(row) for name, row in found.items()} == expected
    names = {name for name in TABLES.acted_on if name.startswith("remote.")}
    assert names - expected.keys() == OUR_OWN


def test_what_tiering_reads_has_the_same_rules() -> None:
    expected = kafkas("broker")
    for name, definition in BROKER_SETTINGS.items():
        if name not in OUR_OWN:
            assert ours(definition) == expected[name]


def test_the_settings_of_the_metadata() -> None:
    expected = {
        name: (*row[:3], STRICTER.get(name, row[3]), row[4])
        for name, row in kafkas("metadata").items()
    }
    assert {name: ours(row) for name, row in METADATA_SETTINGS.items()} == expected

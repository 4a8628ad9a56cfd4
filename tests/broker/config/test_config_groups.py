"""The properties of consumer groups are checked as Kafka checks them, and reach the coordinator."""

import pytest

from tierlog.broker.config.config import config_warnings, dev_properties, read_config
from tierlog.broker.coordinators.coordinator_configs import group_config
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.coordinator.group_config import (
    ConsumerGroupConfig,
    GroupCoordinatorConfig,
    consumer_group_config,
)

PREFIX = "group.consumer."


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        (
            {"min.session.timeout.ms": "50000"},
            "group.consumer.session.timeout.ms must be greater than or equal to"
            " group.consumer.min.session.timeout.ms",
        ),
        (
            {"session.timeout.ms": "60001"},
            "group.consumer.session.timeout.ms must be less than or equal to"
            " group.consumer.max.session.timeout.ms",
        ),
        (
            {"max.session.timeout.ms": "1"},
            "group.consumer.max.session.timeout.ms must be greater than or equal to"
            " group.consumer.min.session.timeout.ms",
        ),
        (
            {"heartbeat.interval.ms": "4999"},
            "group.consumer.heartbeat.interval.ms must be greater than or equal to"
            " group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {
                "heartbeat.interval.ms": "45000",
                "max.heartbeat.interval.ms": "45000",
            },
            "group.consumer.heartbeat.interval.ms must be less than"
            " group.consumer.session.timeout.ms",
        ),
        (
            {"assignment.interval.ms": "15001"},
            "group.consumer.assignment.interval.ms must be less than or equal to"
            " group.consumer.max.assignment.interval.ms",
        ),
        ({"max.size": "0"}, "Value must be at least 1"),
        ({"regex.refresh.interval.ms": "9999"}, "Value must be at least 10000"),
        ({"migration.policy": "never"}, "BIDIRECTIONAL, DOWNGRADE, DISABLED, UPGRADE"),
        ({"assignors": "uniform,org.example.Assignor"}, "one of: uniform, range"),
        ({"assignors": ""}, "must not be empty"),
    ],
)
def test_what_contradicts_itself_is_refused_at_the_start(
    stated: dict[str, str], sentence: str
) -> None:
    properties = {PREFIX + name: text for name, text in stated.items()}
    with pytest.raises(KafkaError) as caught:
        read_config(dev_properties() | properties)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in caught.value.message


def test_the_classic_protocol_cannot_be_switched_off() -> None:
    name = "group.coordinator.rebalance.protocols"
    with pytest.raises(KafkaError, match="Disabling the 'classic' protocol is not supported"):
        read_config({**dev_properties(), name: "consumer"})


def test_the_defaults_are_kafkas() -> None:
    assert group_config(read_config({})) == GroupCoordinatorConfig(
        offsets_topic_replication_factor=1
    )


def test_what_is_stated_reaches_the_coordinator() -> None:
    config = read_config(
        dev_properties()
        | {
            PREFIX + "session.timeout.ms": "10000",
            PREFIX + "min.session.timeout.ms": "1000",
            PREFIX + "heartbeat.interval.ms": "500",
            PREFIX + "min.heartbeat.interval.ms": "100",
            PREFIX + "assignment.interval.ms": "0",
            PREFIX + "max.size": "7",
            PREFIX + "assignors": "range",
            PREFIX + "migration.policy": "Upgrade",
            PREFIX + "regex.refresh.interval.ms": "10000",
        }
    )
    assert config_warnings(config) == []
    groups = group_config(config)
    assert groups.consumer_defaults == ConsumerGroupConfig(10_000, 500, 0)
    assert groups.consumer_bounds.session_timeout_ms == (1_000, 60_000)
    assert groups.consumer_bounds.heartbeat_interval_ms == (100, 15_000)
    assert groups.consumer_max_size == 7
    assert groups.consumer_assignors == ("range",)
    assert groups.consumer_migration_policy == "upgrade"
    assert groups.consumer_regex_refresh_interval_ms == 10_000


def test_a_groups_own_configuration_wins_within_the_brokers_bounds() -> None:
    broker = GroupCoordinatorConfig()
    assert consumer_group_config(broker, {}) == broker.consumer_defaults
    own = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.assignment.interval.ms": "200",
        "share.session.timeout.ms": "45000",
    }
    assert consumer_group_config(broker, own) == ConsumerGroupConfig(50_000, 6_000, 200)
    outside = {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "99999"}
    assert consumer_group_config(broker, outside) == ConsumerGroupConfig(45_000, 15_000, 1_000)

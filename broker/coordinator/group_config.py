"""The configuration of groups and committed offsets, with Kafka's names and defaults."""

from collections.abc import Mapping
from typing import NamedTuple

from ..config.config import BrokerConfig
from ..config.config_values import ConfigValues


class ConsumerGroupConfig(NamedTuple):
    """The configuration of one group of the consumer protocol."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ConsumerGroupBounds(NamedTuple):
    """The minimum and maximum of each value in a group's own configuration."""

    session_timeout_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_ms: tuple[int, int] = (5_000, 15_000)
    assignment_interval_ms: tuple[int, int] = (0, 15_000)


class GroupCoordinatorConfig(NamedTuple):
    """The broker properties with these names; see Kafka's GroupCoordinatorConfig."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 3_000
    # Not a property: the maximum time for which a new member's JoinGroup is parked.
    new_member_join_timeout_ms: int = 300_000
    consumer_defaults: ConsumerGroupConfig = ConsumerGroupConfig()
    consumer_bounds: ConsumerGroupBounds = ConsumerGroupBounds()
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    # One of bidirectional, upgrade, downgrade, disabled.
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 * 1024 * 1024

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000


def consumer_defaults(values: ConfigValues) -> ConsumerGroupConfig:
    """The defaults for groups, from the broker's properties, which may change."""
    return ConsumerGroupConfig(
        session_timeout_ms=values.integer("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=values.integer("group.consumer.heartbeat.interval.ms"),
        assignment_interval_ms=values.integer("group.consumer.assignment.interval.ms"),
    )


def group_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """The group configuration from the broker's properties."""
    values = config.values
    integer = values.integer

    def bounds(name: str) -> tuple[int, int]:
        return integer(f"group.consumer.min.{name}"), integer(f"group.consumer.max.{name}")

    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=integer("group.max.session.timeout.ms"),
        group_max_size=integer("group.max.size"),
        group_initial_rebalance_delay_ms=integer("group.initial.rebalance.delay.ms"),
        consumer_defaults=consumer_defaults(values),
        consumer_bounds=ConsumerGroupBounds(
            session_timeout_ms=bounds("session.timeout.ms"),
            heartbeat_interval_ms=bounds("heartbeat.interval.ms"),
            assignment_interval_ms=bounds("assignment.interval.ms"),
        ),
        consumer_max_size=integer("group.consumer.max.size"),
        consumer_assignors=tuple(values.texts("group.consumer.assignors")),
        consumer_migration_policy=values.text("group.consumer.migration.policy").lower(),
        consumer_regex_refresh_interval_ms=integer("group.consumer.regex.refresh.interval.ms"),
        offset_metadata_max_bytes=integer("offset.metadata.max.bytes"),
        offsets_commit_timeout_ms=integer("offsets.commit.timeout.ms"),
        offsets_load_buffer_size=integer("offsets.load.buffer.size"),
        offsets_retention_minutes=integer("offsets.retention.minutes"),
        offsets_retention_check_interval_ms=integer("offsets.retention.check.interval.ms"),
        offsets_topic_num_partitions=integer("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=config.internal_topic_replication_factor(
            "offsets.topic.replication.factor"
        ),
        offsets_topic_segment_bytes=integer("offsets.topic.segment.bytes"),
    )


def consumer_group_config(
    config: GroupCoordinatorConfig, overrides: Mapping[str, str]
) -> ConsumerGroupConfig:
    """The configuration of a group with these overrides, whose names omit `group.`.

    The bounds may have changed since the overrides were checked: as in Kafka, a value outside them
    is clamped.
    """

    def within(name: str, default: int, bounds: tuple[int, int]) -> int:
        text = overrides.get(name)
        least, most = bounds
        return default if text is None else min(max(int(text), least), most)

    defaults, bounds = config.consumer_defaults, config.consumer_bounds
    return ConsumerGroupConfig(
        within(
            "consumer.session.timeout.ms", defaults.session_timeout_ms, bounds.session_timeout_ms
        ),
        within(
            "consumer.heartbeat.interval.ms",
            defaults.heartbeat_interval_ms,
            bounds.heartbeat_interval_ms,
        ),
        within(
            "consumer.assignment.interval.ms",
            defaults.assignment_interval_ms,
            bounds.assignment_interval_ms,
        ),
    )

"""The configuration of groups and committed offsets, with Kafka's names and defaults."""

from collections.abc import Mapping
from typing import NamedTuple


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

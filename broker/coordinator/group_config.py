"""What an operator can set about groups and committed offsets, with Kafka's names and defaults."""

from typing import NamedTuple

from ..config import BrokerConfig


class GroupCoordinatorConfig(NamedTuple):
    """Each field is the broker property of the same words; see Kafka's GroupCoordinatorConfig."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 3_000
    # Not a property: how long a JoinGroup of a member that is new may stay parked.
    new_member_join_timeout_ms: int = 300_000
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


def group_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """What the broker's properties say about groups."""
    integer = config.values.integer
    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=integer("group.max.session.timeout.ms"),
        group_max_size=integer("group.max.size"),
        group_initial_rebalance_delay_ms=integer("group.initial.rebalance.delay.ms"),
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

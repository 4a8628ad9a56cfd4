"""What the properties of a broker say to its coordinators of groups and transactions."""

from ...coordinator.group_config import (
    ConsumerGroupBounds,
    ConsumerGroupConfig,
    GroupCoordinatorConfig,
)
from ...coordinator.transaction.transaction_config import TransactionConfig
from ...coordinator.transaction.transaction_links import LinkConfig
from ..config.config import BrokerConfig
from ..config.config_values import ConfigValues
from ..config.listeners import listener_of_brokers
from ..config.tls_listeners import node_security


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


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """The transaction configuration from the broker's properties."""
    integer = config.values.integer
    log = "transaction.state.log"
    cleanup = "transaction.cleanup.interval.ms"
    retry = "add.partitions.to.txn.retry.backoff"
    return TransactionConfig(
        transactional_id_expiration_ms=integer("transactional.id.expiration.ms"),
        transaction_max_timeout_ms=integer("transaction.max.timeout.ms"),
        abort_interval_ms=integer(f"transaction.abort.timed.out.{cleanup}"),
        expiration_interval_ms=integer(f"transaction.remove.expired.{cleanup}"),
        partition_verification_enable=config.values.boolean(
            "transaction.partition.verification.enable"
        ),
        load_buffer_size=integer(f"{log}.load.buffer.size"),
        num_partitions=integer(f"{log}.num.partitions"),
        replication_factor=config.internal_topic_replication_factor(f"{log}.replication.factor"),
        segment_bytes=integer(f"{log}.segment.bytes"),
        min_isr=integer(f"{log}.min.isr"),
        request_timeout_ms=integer("request.timeout.ms"),
        add_retry_backoff_ms=integer(f"{retry}.ms"),
        add_retry_max_ms=integer(f"{retry}.max.ms"),
    )


def link_config(config: BrokerConfig) -> LinkConfig:
    """How this broker reaches the others. Raises KafkaError(INVALID_CONFIG) as `node_security`."""
    listener = listener_of_brokers(config.values)
    return LinkConfig(
        config.node_id,
        listener,
        node_security(config, listener),
        config.values.integer("request.timeout.ms"),
    )

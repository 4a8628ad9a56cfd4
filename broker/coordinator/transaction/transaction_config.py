"""The configuration of transactions, with Kafka's names and defaults."""

from typing import NamedTuple

from ....clients.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ....replication.topic_names import TRANSACTION_STATE_TOPIC
from ...config.config import BrokerConfig


class TransactionConfig(NamedTuple):
    """See Kafka's TransactionLogConfig, TransactionStateManagerConfig and
    AddPartitionsToTxnConfig. Times in milliseconds."""

    transactional_id_expiration_ms: int = 604_800_000
    transaction_max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000
    partition_verification_enable: bool = True
    load_buffer_size: int = 5 * 1024 * 1024
    num_partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024
    min_isr: int = 2
    request_timeout_ms: int = 30_000
    add_retry_backoff_ms: int = 20
    add_retry_max_ms: int = 100


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


def transaction_topic(config: TransactionConfig) -> CreatableTopic:
    """The topic to create. Unclean elections are disabled, because they could lose decisions."""
    configs = {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": str(config.min_isr),
        "segment.bytes": str(config.segment_bytes),
    }
    return CreatableTopic(
        name=TRANSACTION_STATE_TOPIC,
        num_partitions=config.num_partitions,
        replication_factor=config.replication_factor,
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in configs.items()],
    )

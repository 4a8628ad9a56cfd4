"""The configuration of transactions, with Kafka's names and defaults."""

from typing import NamedTuple

from ...clients.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ...replication.topic_names import TRANSACTION_STATE_TOPIC


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

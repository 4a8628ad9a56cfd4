"""Tiering's settings: Kafka's names, Kafka's defaults, Kafka's limits."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.tiering.config import RemoteLogManagerConfig
from tierlog.tiering.quota import UNLIMITED


def test_defaults_are_kafkas() -> None:
    config = RemoteLogManagerConfig.from_properties({}, 1, "/data")
    assert config == RemoteLogManagerConfig(broker_id=1, log_directory="/data")
    assert config.task_interval_ms == 30_000
    assert (config.retry_backoff_ms, config.retry_backoff_max_ms) == (500, 30_000)
    assert (config.copier_threads, config.reader_threads, config.reader_max_pending) == (
        10,
        10,
        100,
    )
    assert config.index_cache_bytes == 1 << 30
    assert config.copy_max_bytes_per_second == config.fetch_max_bytes_per_second == UNLIMITED
    assert config.custom_metadata_max_bytes == 128
    metadata = config.metadata
    assert (metadata.topic_partitions, metadata.topic_replication_factor) == (50, 3)
    assert (metadata.topic_retention_ms, metadata.consume_wait_ms) == (-1, 120_000)


def test_the_metadata_settings_come_behind_their_prefix() -> None:
    stated = {
        "remote.log.manager.task.interval.ms": "250",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "7",
        "remote.log.metadata.topic.num.partitions": "9",
    }
    config = RemoteLogManagerConfig.from_properties(stated, 0, "/data")
    assert (config.task_interval_ms, config.metadata.topic_partitions) == (250, 7)
    renamed = {
        "remote.log.metadata.manager.impl.prefix": "meta.",
        "meta.remote.log.metadata.topic.num.partitions": "3",
    }
    renamed_config = RemoteLogManagerConfig.from_properties(renamed, 0, "/data")
    assert renamed_config.metadata.topic_partitions == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.log.manager.task.interval.ms", "0"),
        ("remote.log.manager.task.retry.jitter", "0.6"),
        ("remote.log.reader.threads", "many"),
        # Each chunk is a request: with such small ones nothing is read in time.
        ("remote.log.chunk.cache.total.size.bytes", "1048575"),
        ("remote.log.chunk.size.bytes", "4096"),
        ("rlmm.config.remote.log.metadata.topic.retention.ms", "0"),
    ],
)
def test_a_bad_value_is_one_plain_sentence(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as refused:
        RemoteLogManagerConfig.from_properties({name: value}, 0, "/data")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert value in refused.value.message

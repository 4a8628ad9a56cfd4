"""Topic configuration: Kafka's names, defaults, refusals."""

from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.config import TOPIC_CONFIGS, LogConfig

DEFAULTS = LogConfig()


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_the_table_and_the_values_have_the_same_default(name: str) -> None:
    assert DEFAULTS.value_text(name) == TOPIC_CONFIGS[name].default
    text = TOPIC_CONFIGS[name].default
    assert text is not None
    assert LogConfig.from_properties({name: text}, DEFAULTS) == DEFAULTS


def test_the_table_is_sorted_and_explains_itself() -> None:
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert all(definition.documentation for definition in TOPIC_CONFIGS.values())


def test_overrides_lie_on_top_of_the_broker_s_defaults() -> None:
    broker = LogConfig(retention_ms=1000, segment_bytes=2_000_000)
    config = LogConfig.from_properties(
        {"retention.ms": "5000", "cleanup.policy": "compact,delete", "preallocate": "TRUE"}, broker
    )
    assert (config.retention_ms, config.segment_bytes) == (5000, 2_000_000)
    assert config.is_compacted
    assert config.deletes
    assert config.value_text("preallocate") == "true"
    assert config.value_text("cleanup.policy") == "compact,delete"


def test_the_internal_name_goes_below_the_smallest_segment() -> None:
    config = LogConfig.from_properties(
        {"internal.segment.bytes": "100", "segment.bytes": "1048576"}, DEFAULTS
    )
    assert config.segment_bytes == 100


# What Apache Kafka 4.3.1 answers to the same properties.
@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"segment.bytes": "10"},
            "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"segment.bytes": "abc"},
            "Invalid value abc for configuration segment.bytes: Not a number of type INT",
        ),
        (
            {"cleanup.policy": "abc"},
            "Invalid value abc for configuration cleanup.policy: "
            "String must be one of: compact, delete",
        ),
        ({"foo": "abc"}, "Unknown topic config name: foo"),
        (
            {"preallocate": "abc"},
            "Invalid value abc for configuration preallocate: "
            "Expected value to be either true or false",
        ),
        (
            {"min.compaction.lag.ms": "15", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (15) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true", "cleanup.policy": "compact"},
            "Remote log storage only supports topics with cleanup.policy=delete "
            "or cleanup.policy being an empty list.",
        ),
        (
            {
                "remote.storage.enable": "true",
                "local.retention.ms": "30",
                "retention.ms": "10",
            },
            "Invalid value 30 for configuration local.retention.ms: "
            "Value must not be more than retention.ms property value: 10",
        ),
        (
            {
                "remote.storage.enable": "true",
                "local.retention.bytes": "-1",
                "retention.bytes": "10",
            },
            "Invalid value -1 for configuration local.retention.bytes: "
            "Value must not be -1 as retention.bytes value is set as 10.",
        ),
    ],
)
def test_bad_values_are_refused_in_kafka_s_words(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        LogConfig.from_properties(properties, DEFAULTS)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, sentence)


def test_a_topic_cannot_be_tiered_where_the_broker_is_not() -> None:
    with pytest.raises(KafkaError, match="Tiered Storage functionality is disabled"):
        LogConfig.from_properties(
            {"remote.storage.enable": "true"}, DEFAULTS, remote_storage_system_enabled=False
        )


def test_without_copying_local_retention_is_the_total() -> None:
    disabled = {"remote.storage.enable": "true", "remote.log.copy.disable": "true"}
    assert LogConfig.from_properties(disabled, DEFAULTS).remote_log_copy_disable
    with pytest.raises(KafkaError, match=r"`local\.retention\.ms` and `retention\.ms` must be"):
        LogConfig.from_properties({**disabled, "local.retention.ms": "5"}, DEFAULTS)


@pytest.mark.parametrize("text", ["*", "0:1,1:2", ""])
def test_throttled_replicas_are_pairs_or_a_star(text: str) -> None:
    name = "leader.replication.throttled.replicas"
    config = LogConfig.from_properties({name: text}, DEFAULTS)
    assert config.value_text(name) == text


@pytest.mark.parametrize("text", ["x", "0", "0:a", "*,0:1"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="must be the literal"):
        LogConfig.from_properties({"follower.replication.throttled.replicas": text}, DEFAULTS)


def test_local_retention_follows_the_total_unless_it_is_set() -> None:
    config = LogConfig(retention_ms=10, retention_bytes=20)
    assert config.effective_local_retention_ms == 10
    assert config.effective_local_retention_bytes == 20
    own = LogConfig(retention_ms=10, local_retention_ms=3, local_retention_bytes=-1)
    assert (own.effective_local_retention_ms, own.effective_local_retention_bytes) == (3, -1)


def test_segments_of_compacted_topics_are_closed_in_time_for_their_compaction() -> None:
    config = LogConfig(cleanup_policy=("compact",), segment_ms=10_000, max_compaction_lag_ms=500)
    assert config.max_segment_ms == 500
    assert replace(config, cleanup_policy=("delete",)).max_segment_ms == 10_000
    assert replace(config, max_compaction_lag_ms=20_000).max_segment_ms == 10_000

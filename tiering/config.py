"""The settings of tiering, under Kafka's names and with Kafka's defaults.

They are those of `RemoteLogManagerConfig` in Kafka, and of its
`TopicBasedRemoteLogMetadataManagerConfig` behind the prefix `rlmm.config.`. Comments mark the
settings that Kafka does not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from ..clients.config_def import ConfigDef, ConfigType, parse_value
from .quota import UNLIMITED

STORAGE_PREFIX_NAME = "remote.log.storage.manager.impl.prefix"
METADATA_PREFIX_NAME = "remote.log.metadata.manager.impl.prefix"

_INT, _LONG, _SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_DOUBLE, _STRING = ConfigType.DOUBLE, ConfigType.STRING
_POSITIVE = "[1,...]"

BROKER_SETTINGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        ConfigDef(STORAGE_PREFIX_NAME, _STRING, "rsm.config.", "non-empty string"),
        ConfigDef(METADATA_PREFIX_NAME, _STRING, "rlmm.config.", "non-empty string"),
        ConfigDef("remote.log.manager.task.interval.ms", _LONG, "30000", _POSITIVE),
        ConfigDef("remote.log.manager.task.retry.backoff.ms", _LONG, "500", _POSITIVE),
        ConfigDef("remote.log.manager.task.retry.backoff.max.ms", _LONG, "30000", _POSITIVE),
        ConfigDef("remote.log.manager.task.retry.jitter", _DOUBLE, "0.2", "[0,...,0.5]"),
        ConfigDef("remote.log.manager.copier.thread.pool.size", _INT, "10", _POSITIVE),
        ConfigDef("remote.log.manager.expiration.thread.pool.size", _INT, "10", _POSITIVE),
        ConfigDef("remote.log.manager.follower.thread.pool.size", _INT, "2", _POSITIVE),
        ConfigDef("remote.log.manager.copy.max.bytes.per.second", _LONG, str(UNLIMITED), _POSITIVE),
        ConfigDef("remote.log.manager.copy.quota.window.num", _INT, "11", _POSITIVE),
        ConfigDef("remote.log.manager.copy.quota.window.size.seconds", _INT, "1", _POSITIVE),
        ConfigDef(
            "remote.log.manager.fetch.max.bytes.per.second", _LONG, str(UNLIMITED), _POSITIVE
        ),
        ConfigDef("remote.log.manager.fetch.quota.window.num", _INT, "11", _POSITIVE),
        ConfigDef("remote.log.manager.fetch.quota.window.size.seconds", _INT, "1", _POSITIVE),
        ConfigDef("remote.log.reader.threads", _INT, "10", _POSITIVE),
        ConfigDef("remote.log.reader.max.pending.tasks", _INT, "100", _POSITIVE),
        ConfigDef("remote.fetch.max.wait.ms", _INT, "500", _POSITIVE),
        ConfigDef("remote.list.offsets.request.timeout.ms", _LONG, "30000", _POSITIVE),
        ConfigDef("remote.log.index.file.cache.total.size.bytes", _LONG, str(1 << 30), _POSITIVE),
        ConfigDef("remote.log.metadata.custom.metadata.max.bytes", _INT, "128", "[0,...]"),
        # KIP-405 names the first of the two; Kafka has no remover of partitions yet (KAFKA-15313).
        ConfigDef("remote.partition.remover.task.interval.ms", _LONG, "3600000", _POSITIVE),
        ConfigDef("remote.partition.remover.segments.per.second", _INT, "100", _POSITIVE),
        # Kafka has no cache of data and no name for one. A chunk is a request to the store: with
        # much smaller ones, no fetch would get its records in time.
        ConfigDef("remote.log.chunk.cache.total.size.bytes", _LONG, str(64 << 20), "[1048576,...]"),
        ConfigDef("remote.log.chunk.size.bytes", _INT, str(4 << 20), "[65536,...]"),
    )
}

METADATA_SETTINGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        ConfigDef("remote.log.metadata.topic.num.partitions", _INT, "50", _POSITIVE),
        ConfigDef("remote.log.metadata.topic.replication.factor", _SHORT, "3", _POSITIVE),
        ConfigDef("remote.log.metadata.topic.min.isr", _SHORT, "2", _POSITIVE),
        ConfigDef("remote.log.metadata.topic.retention.ms", _LONG, "-1", "[1,...] or -1"),
        ConfigDef("remote.log.metadata.consume.wait.ms", _LONG, "120000", "[0,...]"),
        ConfigDef("remote.log.metadata.initialization.retry.interval.ms", _LONG, "100", "[0,...]"),
        ConfigDef(
            "remote.log.metadata.initialization.retry.max.timeout.ms", _LONG, "120000", "[0,...]"
        ),
    )
}


class PluginClass(NamedTuple):
    """The name of a Python class, and extra folders to search for its module."""

    name: str
    path: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataManagerConfig:
    """The settings of the metadata topic and its use."""

    topic_partitions: int = 50
    topic_replication_factor: int = 3
    """In a process alone the maximum; lower if fewer brokers are live when the topic is created."""
    topic_min_isr: int = 2
    topic_retention_ms: int = -1
    consume_wait_ms: int = 120_000
    """How long a publication waits for this broker to read it back."""
    initialization_retry_interval_ms: int = 100
    """The first wait between attempts; it doubles. Attempts go on forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogManagerConfig:
    """All of tiering's settings, as numbers."""

    broker_id: int
    log_directory: str
    """The directory of the index cache: the first log directory."""
    task_interval_ms: int = 30_000
    retry_backoff_ms: int = 500
    retry_backoff_max_ms: int = 30_000
    retry_jitter: float = 0.2
    copier_threads: int = 10
    expiration_threads: int = 10
    follower_threads: int = 2
    copy_max_bytes_per_second: int = UNLIMITED
    copy_quota_samples: int = 11
    copy_quota_sample_seconds: int = 1
    fetch_max_bytes_per_second: int = UNLIMITED
    fetch_quota_samples: int = 11
    fetch_quota_sample_seconds: int = 1
    reader_threads: int = 10
    reader_max_pending: int = 100
    fetch_max_wait_ms: int = 500
    """How long a fetch waits for the tier, including its time in the queue."""
    list_offsets_timeout_ms: int = 30_000
    """The same for a timestamp lookup."""
    index_cache_bytes: int = 1 << 30
    custom_metadata_max_bytes: int = 128
    chunk_cache_bytes: int = 64 << 20
    chunk_bytes: int = 4 << 20
    remover_interval_ms: int = 3_600_000
    """How often to look for deleted partitions with remote data left behind."""
    remover_segments_per_second: int = 100
    """The maximum, so that deleting a large topic does not make the store throttle."""
    metadata: MetadataManagerConfig = MetadataManagerConfig()

    @property
    def threads(self) -> int:
        """The threads for blocking file systems: enough for every task that waits for the tier."""
        return self.copier_threads + self.expiration_threads + self.reader_threads

    @staticmethod
    def from_properties(
        stated: Mapping[str, str], broker_id: int, log_directory: str
    ) -> "RemoteLogManagerConfig":
        """Read a broker's properties. Raises KafkaError(INVALID_CONFIG)."""
        broker = _Values(BROKER_SETTINGS, stated)
        prefix = broker.text(METADATA_PREFIX_NAME)
        metadata = _Values(
            METADATA_SETTINGS,
            {
                name.removeprefix(prefix): value
                for name, value in stated.items()
                if name.startswith(prefix)
            },
        )
        return RemoteLogManagerConfig(
            broker_id=broker_id,
            log_directory=log_directory,
            task_interval_ms=broker.integer("remote.log.manager.task.interval.ms"),
            retry_backoff_ms=broker.integer("remote.log.manager.task.retry.backoff.ms"),
            retry_backoff_max_ms=broker.integer("remote.log.manager.task.retry.backoff.max.ms"),
            retry_jitter=broker.number("remote.log.manager.task.retry.jitter"),
            copier_threads=broker.integer("remote.log.manager.copier.thread.pool.size"),
            expiration_threads=broker.integer("remote.log.manager.expiration.thread.pool.size"),
            follower_threads=broker.integer("remote.log.manager.follower.thread.pool.size"),
            copy_max_bytes_per_second=broker.integer(
                "remote.log.manager.copy.max.bytes.per.second"
            ),
            copy_quota_samples=broker.integer("remote.log.manager.copy.quota.window.num"),
            copy_quota_sample_seconds=broker.integer(
                "remote.log.manager.copy.quota.window.size.seconds"
            ),
            fetch_max_bytes_per_second=broker.integer(
                "remote.log.manager.fetch.max.bytes.per.second"
            ),
            fetch_quota_samples=broker.integer("remote.log.manager.fetch.quota.window.num"),
            fetch_quota_sample_seconds=broker.integer(
                "remote.log.manager.fetch.quota.window.size.seconds"
            ),
            reader_threads=broker.integer("remote.log.reader.threads"),
            reader_max_pending=broker.integer("remote.log.reader.max.pending.tasks"),
            fetch_max_wait_ms=broker.integer("remote.fetch.max.wait.ms"),
            list_offsets_timeout_ms=broker.integer("remote.list.offsets.request.timeout.ms"),
            index_cache_bytes=broker.integer("remote.log.index.file.cache.total.size.bytes"),
            custom_metadata_max_bytes=broker.integer(
                "remote.log.metadata.custom.metadata.max.bytes"
            ),
            chunk_cache_bytes=broker.integer("remote.log.chunk.cache.total.size.bytes"),
            chunk_bytes=broker.integer("remote.log.chunk.size.bytes"),
            remover_interval_ms=broker.integer("remote.partition.remover.task.interval.ms"),
            remover_segments_per_second=broker.integer(
                "remote.partition.remover.segments.per.second"
            ),
            metadata=_metadata_config(metadata),
        )


def _metadata_config(values: "_Values") -> MetadataManagerConfig:
    return MetadataManagerConfig(
        topic_partitions=values.integer("remote.log.metadata.topic.num.partitions"),
        topic_replication_factor=values.integer("remote.log.metadata.topic.replication.factor"),
        topic_min_isr=values.integer("remote.log.metadata.topic.min.isr"),
        topic_retention_ms=values.integer("remote.log.metadata.topic.retention.ms"),
        consume_wait_ms=values.integer("remote.log.metadata.consume.wait.ms"),
        initialization_retry_interval_ms=values.integer(
            "remote.log.metadata.initialization.retry.interval.ms"
        ),
    )


class _Values:
    def __init__(self, definitions: Mapping[str, ConfigDef], stated: Mapping[str, str]) -> None:
        self._definitions = definitions
        self._stated = stated

    def _value(self, name: str) -> object:
        definition = self._definitions[name]
        return parse_value(definition, self._stated.get(name, definition.default))

    def integer(self, name: str) -> int:
        return cast("int", self._value(name))

    def number(self, name: str) -> float:
        return cast("float", self._value(name))

    def text(self, name: str) -> str:
        return cast("str", self._value(name))

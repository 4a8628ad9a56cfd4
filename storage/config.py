"""The topic configuration of a log, with Kafka's names, types, defaults and rules (`LogConfig`).

`TOPIC_CONFIGS` defines each property, for DescribeConfigs and for validating requests; `LogConfig`
has the effective values for one partition. A value comes from the topic's overrides, or else from
the broker property that gives the default, or else from Kafka's default.

`LogConfig.from_properties` checks all rules that involve several properties: local retention never
exceeds total retention, only topics that are not compacted can be tiered (KIP-405), and a topic
with copying disabled has equal local and total retention (KIP-950).
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import cast

from ..clients.config_def import ConfigDef, ConfigType, ConfigValue, invalid, parse_value
from ..clients.errors import ErrorCode, KafkaError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
USE_TOTAL_RETENTION = -2
"""The value of local.retention.* for a local retention equal to the total retention."""

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_CODECS = "[uncompressed, zstd, lz4, snappy, gzip, producer]"

# Name, type, default, rule, broker property that gives the default, description.
_TABLE: tuple[tuple[str, ConfigType, str, str, str | None, str], ...] = (
    ("cleanup.policy", _LIST, "delete", "[compact, delete]", "log.cleanup.policy",
     "Whether old segments are deleted, compacted, both, or (with an empty list) kept forever."),
    ("compression.gzip.level", _INT, "-1", "[1,...,9] or -1", "compression.gzip.level",
     "The gzip level when the broker compresses; -1 means the library's default."),
    ("compression.lz4.level", _INT, "9", "[1,...,17]", "compression.lz4.level",
     "The lz4 level when the broker compresses."),
    ("compression.type", _STRING, "producer", _CODECS, "compression.type",
     "The codec for stored batches; 'producer' keeps the producer's codec."),
    ("compression.zstd.level", _INT, "3", "[-131072,...,22]", "compression.zstd.level",
     "The zstd level when the broker compresses."),
    ("delete.retention.ms", _LONG, "86400000", "[0,...]", "log.cleaner.delete.retention.ms",
     "How long a compacted topic keeps tombstones, so that slow consumers still see them."),
    ("file.delete.delay.ms", _LONG, "60000", "[0,...]", "log.segment.delete.delay.ms",
     "How long a deleted segment's files stay on disk, renamed, before they are removed."),
    ("flush.messages", _LONG, str(INT64_MAX), "[1,...]", "log.flush.interval.messages",
     "The number of records after which the log is flushed to disk."),
    ("flush.ms", _LONG, str(INT64_MAX), "[0,...]", "log.flush.interval.ms",
     "The maximum time that a record stays unflushed."),
    ("follower.replication.throttled.replicas", _LIST, "", "", None,
     "Follower replicas under the replication quota: partition:broker pairs, or '*' for all."),
    ("index.interval.bytes", _INT, "4096", "[0,...]", "log.index.interval.bytes",
     "The number of log bytes between two entries of the offset index."),
    ("leader.replication.throttled.replicas", _LIST, "", "", None,
     "Leader replicas under the replication quota: partition:broker pairs, or '*' for all."),
    ("local.retention.bytes", _LONG, "-2", "[-2,...]", "log.local.retention.bytes",
     "The maximum local size of a tiered partition; -2 uses retention.bytes."),
    ("local.retention.ms", _LONG, "-2", "[-2,...]", "log.local.retention.ms",
     "How long tiered segments stay on the local disk; -2 uses retention.ms."),
    ("max.compaction.lag.ms", _LONG, str(INT64_MAX), "[1,...]",
     "log.cleaner.max.compaction.lag.ms",
     "The maximum time that a record may stay uncompacted."),
    ("max.message.bytes", _INT, "1048588", "[0,...]", "message.max.bytes",
     "The maximum size of a record batch, in bytes, after compression."),
    ("message.timestamp.after.max.ms", _LONG, "3600000", "[0,...]",
     "log.message.timestamp.after.max.ms",
     "The maximum by which a record's timestamp may be later than the broker's time."),
    ("message.timestamp.before.max.ms", _LONG, str(INT64_MAX), "[0,...]",
     "log.message.timestamp.before.max.ms",
     "The maximum by which a record's timestamp may be earlier than the broker's time."),
    ("message.timestamp.type", _STRING, "CreateTime", "[CreateTime, LogAppendTime]",
     "log.message.timestamp.type",
     "Whether a record's timestamp is its creation time or its append time."),
    ("min.cleanable.dirty.ratio", _DOUBLE, "0.5", "[0,...,1]",
     "log.cleaner.min.cleanable.ratio",
     "The minimum ratio of dirty bytes to total bytes for the log to be cleaned."),
    ("min.compaction.lag.ms", _LONG, "0", "[0,...]", "log.cleaner.min.compaction.lag.ms",
     "The minimum time that a record stays uncompacted."),
    ("min.insync.replicas", _INT, "1", "[1,...]", "min.insync.replicas",
     "The minimum number of in-sync replicas for a write with acks=all to succeed."),
    ("preallocate", _BOOLEAN, "false", "", "log.preallocate",
     "Whether the file of a new segment is preallocated to its full size."),
    ("remote.log.copy.disable", _BOOLEAN, "false", "", None,
     "Whether copying to remote storage stops; copied segments stay readable (KIP-950)."),
    ("remote.log.delete.on.disable", _BOOLEAN, "false", "", None,
     "Whether disabling remote.storage.enable deletes the remote data (KIP-950)."),
    ("remote.storage.enable", _BOOLEAN, "false", "", None,
     "Whether closed segments are copied to remote storage (KIP-405)."),
    ("retention.bytes", _LONG, "-1", "", "log.retention.bytes",
     "The maximum partition size before the oldest segments are deleted; -1 means no limit."),
    ("retention.ms", _LONG, "604800000", "[-1,...]", "log.retention.ms",
     "How long records are kept before their segment is deleted; -1 means no limit."),
    ("segment.bytes", _INT, "1073741824", "[1048576,...]", "log.segment.bytes",
     "The maximum size of a segment file, in bytes."),
    ("segment.index.bytes", _INT, "10485760", "[4,...]", "log.index.size.max.bytes",
     "The maximum size of an index file, in bytes; a full index also rolls the segment."),
    ("segment.jitter.ms", _LONG, "0", "[0,...]", "log.roll.jitter.ms",
     "The maximum random reduction of segment.ms, so that not all segments roll at once."),
    ("segment.ms", _LONG, "604800000", "[1,...]", "log.roll.ms",
     "The maximum age of a segment with records before it is rolled, even if it is not full."),
    ("unclean.leader.election.enable", _BOOLEAN, "false", "", "unclean.leader.election.enable",
     "Whether an out-of-sync replica may lead when no other can, which may lose records."),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, ConfigDef] = {row[0]: ConfigDef(*row) for row in _TABLE}
"""Every public topic property by its name, in alphabetical order."""

_INTERNAL_SEGMENT_BYTES = ConfigDef("internal.segment.bytes", _INT, None, "[1,...]")
"""Kafka's internal property for tests, which allows segments below the segment.bytes minimum."""

_THROTTLED_REPLICAS = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The effective values for one log; the fields are named after Kafka's properties."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = USE_TOTAL_RETENTION
    local_retention_ms: int = USE_TOTAL_RETENTION
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    decompressed_batch_max_bytes: int = 33_554_432
    """The broker's `tierlog.decompressed.batch.max.bytes`; topics cannot override it."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """segment.ms, limited to max.compaction.lag.ms for compacted topics."""
        if "compact" in self.cleanup_policy:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time removes old segments."""
        return "delete" in self.cleanup_policy

    @property
    def copies_to_tier(self) -> bool:
        """Whether segments are copied to the remote tier. Copied segments are always readable."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    @property
    def effective_local_retention_ms(self) -> int:
        """local.retention.ms, or retention.ms if it is -2; -1 means no limit."""
        local = self.local_retention_ms
        return self.retention_ms if local == USE_TOTAL_RETENTION else local

    @property
    def effective_local_retention_bytes(self) -> int:
        """local.retention.bytes, or retention.bytes if it is -2; -1 means no limit."""
        local = self.local_retention_bytes
        return self.retention_bytes if local == USE_TOTAL_RETENTION else local

    @staticmethod
    def from_properties(
        overrides: Mapping[str, str],
        defaults: "LogConfig",
        *,
        remote_storage_system_enabled: bool = True,
    ) -> "LogConfig":
        """`defaults`, overridden by a topic's own properties.

        Raises KafkaError(INVALID_CONFIG) for an unknown name, a value that breaks its property's
        rule, or values that contradict each other.
        """
        values: dict[str, ConfigValue | tuple[str, ...]] = {}
        for name, text in overrides.items():
            if name == _INTERNAL_SEGMENT_BYTES.name:
                continue
            definition = TOPIC_CONFIGS.get(name)
            if definition is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
            value = parse_value(definition, text)
            if isinstance(value, list):
                _check_throttled_replicas(name, value)
                values[name.replace(".", "_")] = tuple(dict.fromkeys(value))
            else:
                values[name.replace(".", "_")] = value
        if _INTERNAL_SEGMENT_BYTES.name in overrides:
            text = overrides[_INTERNAL_SEGMENT_BYTES.name]
            values["segment_bytes"] = parse_value(_INTERNAL_SEGMENT_BYTES, text)
        config = _replace(defaults, values)
        _check_together(config, remote_storage_system_enabled)
        return config

    def value_text(self, name: str) -> str:
        """The effective value of one property, as DescribeConfigs shows it."""
        value: object = getattr(self, name.replace(".", "_"))
        if TOPIC_CONFIGS[name].type is _LIST:
            return ",".join(cast("tuple[str, ...]", value))
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)


def _replace(defaults: LogConfig, values: Mapping[str, ConfigValue | tuple[str, ...]]) -> LogConfig:
    """A copy with some fields changed; each value's type was checked by its ConfigDef."""
    if not values:
        return defaults
    config = copy(defaults)
    for field, value in values.items():
        object.__setattr__(config, field, value)
    return config


def _check_throttled_replicas(name: str, replicas: Iterable[str]) -> None:
    if name not in _THROTTLED_REPLICAS:
        return
    listed = list(replicas)
    if listed == ["*"]:
        return
    for item in listed:
        partition, _, broker = item.partition(":")
        if not (partition.isdecimal() and broker.isdecimal()):
            raise invalid(
                name,
                f"[{', '.join(listed)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )


def _check_together(config: LogConfig, remote_storage_system_enabled: bool) -> None:
    """Check the rules that involve several properties (Kafka's `validateTopicLogConfigValues`)."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms "
            f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({config.max_compaction_lag_ms})",
        )
    if not config.remote_storage_enable:
        return
    if not remote_storage_system_enabled:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    if config.is_compacted:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Remote log storage only supports topics with cleanup.policy=delete "
            "or cleanup.policy being an empty list.",
        )
    # In Kafka's order, because only the first violation is reported.
    pairs = (
        ("bytes", config.local_retention_bytes, config.retention_bytes),
        ("ms", config.local_retention_ms, config.retention_ms),
    )
    for unit, local, total in pairs:
        _check_local_retention(unit, local, total)
    if not config.remote_log_copy_disable:
        return
    for unit, local, total in pairs:
        if local not in (USE_TOTAL_RETENTION, total):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                f"`retention.{unit}` must be set to the identical value because there will be no "
                "more logs copied to the remote storage.",
            )


def _check_local_retention(unit: str, local: int, total: int) -> None:
    name = f"local.retention.{unit}"
    if local == -1 and total != -1:
        raise invalid(
            name, "-1", f"Value must not be -1 as retention.{unit} value is set as {total}."
        )
    if total != -1 and local > total:
        raise invalid(
            name,
            str(local),
            f"Value must not be more than retention.{unit} property value: {total}",
        )

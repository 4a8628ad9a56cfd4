"""The properties of groups and of client metrics subscriptions.

They are the same as in Kafka's `GroupConfig` and `ClientMetricsConfigs`.

A property that a group does not set takes its default from a broker property; a subscription has
Kafka's defaults. Both are checked here as in Kafka's controller: by value, and then against the
bounds set in the node's file.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ....clients.config_def import ConfigDef, ConfigType, parse_value
from ....clients.errors import ErrorCode, KafkaError
from ....clients.linear_regex import InvalidRegexError, Pattern, compile_pattern

_INT, _STRING, _LIST, _BOOLEAN = (
    ConfigType.INT,
    ConfigType.STRING,
    ConfigType.LIST,
    ConfigType.BOOLEAN,
)
_POSITIVE, _NOT_NEGATIVE = "[1,...]", "[0,...]"
_ISOLATION = "[read_committed, read_uncommitted]"

_Row = tuple[str, ConfigType, str, str, str | None]

_GROUP_TABLE: tuple[_Row, ...] = (
    ("consumer.assignment.interval.ms", _INT, "1000", _NOT_NEGATIVE,
     "group.consumer.assignment.interval.ms"),
    ("consumer.heartbeat.interval.ms", _INT, "5000", _POSITIVE,
     "group.consumer.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", _INT, "45000", _POSITIVE,
     "group.consumer.session.timeout.ms"),
    ("share.assignment.interval.ms", _INT, "1000", _NOT_NEGATIVE,
     "group.share.assignment.interval.ms"),
    ("share.auto.offset.reset", _STRING, "latest", "", None),
    ("share.delivery.count.limit", _INT, "5", "[2,...]",
     "group.share.delivery.count.limit"),
    ("share.heartbeat.interval.ms", _INT, "5000", _POSITIVE,
     "group.share.heartbeat.interval.ms"),
    ("share.isolation.level", _STRING, "read_uncommitted", _ISOLATION, None),
    ("share.partition.max.record.locks", _INT, "2000", "[100,...]",
     "group.share.partition.max.record.locks"),
    ("share.record.lock.duration.ms", _INT, "30000", "[1000,...]",
     "group.share.record.lock.duration.ms"),
    ("share.renew.acknowledge.enable", _BOOLEAN, "true", "", None),
    ("share.session.timeout.ms", _INT, "45000", _POSITIVE,
     "group.share.session.timeout.ms"),
    ("streams.assignment.interval.ms", _INT, "1000", _NOT_NEGATIVE,
     "group.streams.assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", _INT, "5000", _POSITIVE,
     "group.streams.heartbeat.interval.ms"),
    ("streams.initial.rebalance.delay.ms", _INT, "3000", _NOT_NEGATIVE,
     "group.streams.initial.rebalance.delay.ms"),
    ("streams.num.standby.replicas", _INT, "0", _NOT_NEGATIVE,
     "group.streams.num.standby.replicas"),
    ("streams.session.timeout.ms", _INT, "45000", _POSITIVE,
     "group.streams.session.timeout.ms"),
)  # fmt: skip

GROUP_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {row[0]: ConfigDef(*row) for row in _GROUP_TABLE}
)
"""A group's properties by name; the last column is the broker property that gives the default."""

_GROUP_BOUNDS: Mapping[str, tuple[str, int | None, int]] = MappingProxyType(
    {
        "consumer.assignment.interval.ms": ("group.consumer.{}assignment.interval.ms", 0, 15_000),
        "consumer.heartbeat.interval.ms": (
            "group.consumer.{}heartbeat.interval.ms",
            5_000,
            15_000,
        ),
        "consumer.session.timeout.ms": ("group.consumer.{}session.timeout.ms", 45_000, 60_000),
        "share.assignment.interval.ms": ("group.share.{}assignment.interval.ms", 0, 15_000),
        "share.delivery.count.limit": ("group.share.{}delivery.count.limit", 2, 10),
        "share.heartbeat.interval.ms": ("group.share.{}heartbeat.interval.ms", 5_000, 15_000),
        "share.partition.max.record.locks": (
            "group.share.{}partition.max.record.locks",
            100,
            4_000,
        ),
        "share.record.lock.duration.ms": (
            "group.share.{}record.lock.duration.ms",
            15_000,
            60_000,
        ),
        "share.session.timeout.ms": ("group.share.{}session.timeout.ms", 45_000, 60_000),
        "streams.assignment.interval.ms": ("group.streams.{}assignment.interval.ms", 0, 15_000),
        "streams.heartbeat.interval.ms": ("group.streams.{}heartbeat.interval.ms", 5_000, 15_000),
        "streams.num.standby.replicas": ("group.streams.{}standby.replicas", None, 2),
        "streams.session.timeout.ms": ("group.streams.{}session.timeout.ms", 45_000, 60_000),
    }
)
"""The broker properties that limit group properties (`{}` is min. or max.), and their defaults."""

CLIENT_METRICS_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        "interval.ms": ConfigDef("interval.ms", _INT, "300000"),
        "match": ConfigDef("match", _LIST, ""),
        "metrics": ConfigDef("metrics", _LIST, ""),
    }
)
"""A subscription's properties by name (KIP-714)."""

_INTERVAL_MIN_MS, _INTERVAL_MAX_MS = 100, 3_600_000
_SHOWN_CHARACTERS = 1_000
_MATCHABLE = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_group_config(name: str, values: Mapping[str, str], file: Mapping[str, str]) -> None:
    """Check a group's overrides. Raises KafkaError(INVALID_CONFIG or INVALID_REQUEST)."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for each in values:
        if each not in GROUP_CONFIGS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {each}")
    for each, text in values.items():
        value = parse_value(GROUP_CONFIGS[each], text)
        if isinstance(value, int) and each in _GROUP_BOUNDS:
            _check_bounds(each, value, file)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _in_effect(session, values, file) <= _in_effect(heartbeat, values, file):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}"
            )
    _check_offset_reset(values.get("share.auto.offset.reset", "latest"))


def _in_effect(name: str, values: Mapping[str, str], file: Mapping[str, str]) -> int:
    """The group's own value, else that of the broker's file, else the default."""
    definition = GROUP_CONFIGS[name]
    inherited = file.get(f"group.{name}", definition.default)
    value = parse_value(definition, values.get(name, inherited))
    assert isinstance(value, int), "Sessions and heartbeats have defaults."
    return value


def _check_bounds(name: str, value: int, file: Mapping[str, str]) -> None:
    pattern, lowest, highest = _GROUP_BOUNDS[name]
    least, most = pattern.format("min."), pattern.format("max.")
    if lowest is not None and value < int(file.get(least, lowest)):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {least}"
        )
    if value > int(file.get(most, highest)):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {most}")


def _check_offset_reset(text: str) -> None:
    if text in ("earliest", "latest") or text.startswith("by_duration:P"):
        return
    raise KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"Invalid value {text} for configuration share.auto.offset.reset: Invalid value `{text}` "
        "for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


def validate_client_metrics(name: str, values: Mapping[str, str]) -> None:
    """Check a subscription. Raises KafkaError(INVALID_CONFIG or INVALID_REQUEST)."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for each, text in values.items():
        definition = CLIENT_METRICS_CONFIGS.get(each)
        if definition is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {each}"
            )
        value = parse_value(definition, text)
        if isinstance(value, int) and not _INTERVAL_MIN_MS <= value <= _INTERVAL_MAX_MS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {text} for interval.ms, interval must be between "
                f"{_INTERVAL_MIN_MS} and {_INTERVAL_MAX_MS} (1 hour)",
            )
    client_patterns(values.get("match", ""))


def client_patterns(text: str) -> Mapping[str, Pattern]:
    """The patterns that a client must match, by client attribute. Raises KafkaError.

    Of several patterns with the same key only the last one is compiled and used.
    """
    items: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        subject, separator, _ = item.partition("=")
        if not separator or subject.strip() not in _MATCHABLE:
            raise _illegal_pattern(item)
        items[subject.strip()] = item
    patterns: dict[str, Pattern] = {}
    for subject, item in items.items():
        try:
            patterns[subject] = compile_pattern(item.partition("=")[2].strip())
        except InvalidRegexError as error:
            raise _illegal_pattern(item) from error
    return patterns


def _illegal_pattern(item: str) -> KafkaError:
    shown = item if len(item) <= _SHOWN_CHARACTERS else item[:_SHOWN_CHARACTERS] + "..."
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {shown}")

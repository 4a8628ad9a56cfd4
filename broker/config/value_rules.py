"""Kafka's rules between properties and for changes (`KafkaConfig`, `Reconfigurable`).

`check_values` applies at startup and to every change; `check_change` applies only to a change at
run time. A change may at most double or halve a thread count, because Kafka starts or stops that
many threads at once. Here some thread counts limit concurrency and the others have no effect, but
the rule applies to all of them, as in Kafka.
"""

from ...clients.config_def import invalid
from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.compression import CompressionType
from .config_values import ConfigValues
from .topic_defaults import TopicDefaults

THREADS = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
"""The thread counts that Kafka can change at run time."""

_DEDUPE_BYTES_PER_THREAD = 1 << 20
_LOAD_FACTOR = "log.cleaner.io.buffer.load.factor"
_SELECTOR = "replica.selector.class"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only replica selector (KIP-392)."""
_GROUPS = "group.consumer."
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_POLICY = "group.consumer.migration.policy"
_POLICIES = ("bidirectional", "downgrade", "disabled", "upgrade")
_RATES = ("max.connections", "max.connection.creation.rate")


def check_values(values: ConfigValues) -> None:
    """Check the rules between properties. Raises KafkaError(INVALID_CONFIG)."""
    topics = TopicDefaults(values)
    for name, least, message in (
        ("segment.ms", 1, "log.roll.ms must be greater than or equal to 1"),
        ("segment.jitter.ms", 0, "log.roll.jitter.ms must be greater than or equal to 0"),
    ):
        stated = topics.stated(name)
        if stated is not None and int(stated) < least:
            raise _refusal(message)
    if topics.stated("retention.ms") == "0":
        raise _refusal("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = 1
    if "log.cleaner.threads" in values.stated:
        # Looked up only if set, so that a start need not parse the table of unused properties.
        threads = max(values.integer("log.cleaner.threads"), 1)
    dedupe_bytes = values.integer("log.cleaner.dedupe.buffer.size")
    if values.boolean("log.cleaner.enable") and dedupe_bytes // threads <= _DEDUPE_BYTES_PER_THREAD:
        raise _refusal("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    load_factor = values.number(_LOAD_FACTOR)
    if not 0 < load_factor <= 1:
        # Kafka accepts any value, but a cleaner without room for a key cleans nothing.
        raise invalid(
            _LOAD_FACTOR, values.text(_LOAD_FACTOR), "Value must be above 0 and no more than 1"
        )
    _check_relations(values)
    overrides = values.text("max.connections.per.ip.overrides")
    if values.integer("max.connections.per.ip") == 0 and not overrides:
        raise _refusal(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )
    _check_groups(values)
    selector = values.text(_SELECTOR).strip() if _SELECTOR in values.stated else ""
    if selector not in ("", RACK_AWARE_SELECTOR):
        raise _refusal(
            f"{_SELECTOR}={selector} is a Java class, which tierlog cannot load; use"
            f" {RACK_AWARE_SELECTOR}, or remove the property."
        )


def _check_relations(values: ConfigValues) -> None:
    """Check the codec of offsets, and Kafka's rules for pairs of properties.

    The defaults satisfy these rules. So a pair is checked only if one of the two is set, and a
    start need not parse the table of unused properties.
    """
    stated = values.stated
    codec = values.integer("offsets.topic.compression.codec")
    if codec not in tuple(map(int, CompressionType)):
        raise _refusal(f"Unknown compression type id: {codec}.")
    for least, most, purpose in (
        (
            "replica.fetch.wait.max.ms",
            "replica.lag.time.max.ms",
            "to prevent frequent changes in ISR",
        ),
        (
            "connection.failed.authentication.delay.ms",
            "connections.max.idle.ms",
            "to prevent failed authentication responses from timing out",
        ),
    ):
        if least not in stated and most not in stated:
            continue
        is_unbounded = most == "connections.max.idle.ms" and values.integer(most) < 0
        if values.integer(least) > values.integer(most) and not is_unbounded:
            raise _refusal(
                f"{least}={values.integer(least)} should always be less than or equal to"
                f" {most}={values.integer(most)} {purpose}."
            )


def _check_groups(values: ConfigValues) -> None:
    """Check Kafka's rules for several properties of groups (`GroupCoordinatorConfig`, KIP-848).

    The defaults satisfy them, so they are checked only if one of the properties is set.
    """
    if _PROTOCOLS in values.stated and "classic" not in values.texts(_PROTOCOLS):
        raise _refusal("Disabling the 'classic' protocol is not supported.")
    if not any(name.startswith(_GROUPS) for name in values.stated):
        return
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        least, most, own = (f"{_GROUPS}{part}{name}" for part in ("min.", "max.", ""))
        _require_at_least(values, most, least)
        _require_at_least(values, own, least)
        if values.integer(own) > values.integer(most):
            raise _refusal(f"{own} must be less than or equal to {most}")
    heartbeat, session = f"{_GROUPS}heartbeat.interval.ms", f"{_GROUPS}session.timeout.ms"
    if values.integer(heartbeat) >= values.integer(session):
        raise _refusal(f"{heartbeat} must be less than {session}")
    policy = values.text(_POLICY)
    if policy.lower() not in _POLICIES:
        allowed = ", ".join(name.upper() for name in _POLICIES)
        raise invalid(_POLICY, policy, f"String must be one of (case insensitive): {allowed}")
    assignors = values.texts(f"{_GROUPS}assignors")
    if not assignors:
        raise invalid(f"{_GROUPS}assignors", "[]", "Configuration must not be empty")


def _require_at_least(values: ConfigValues, name: str, least: str) -> None:
    if values.integer(name) < values.integer(least):
        raise _refusal(f"{name} must be greater than or equal to {least}")


def check_change(before: ConfigValues, after: ConfigValues) -> None:
    """Reject values that are valid in a file but not as a change. Raises INVALID_CONFIG."""
    for name in sorted(THREADS):
        now, then = before.integer(name), after.integer(name)
        failed = f"Dynamic thread count update validation failed for {name}={then}"
        if then < 1:
            raise _refusal(f"{failed}, value should be at least 1")
        if then < now // 2:
            raise _refusal(f"{failed}, value should be at least half the current value {now}")
        if then > now * 2:
            raise _refusal(
                f"{failed}, value should not be greater than double the current value {now}"
            )
    for name in _RATES:
        if after.integer(name) == 0:
            raise _refusal(f"Invalid {name} 0")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)

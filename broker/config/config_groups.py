"""Checks the rules between several properties of consumer groups (KIP-848).

`config_table.py` has the rules for single properties; these rules of Kafka's GroupCoordinatorConfig
are for several at once. The defaults satisfy them, so they are checked only if one of the
properties is set.
"""

from ...clients.config_def import invalid
from ...clients.errors import ErrorCode, KafkaError
from .config_values import ConfigValues

_PREFIX = "group.consumer."
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_POLICY = "group.consumer.migration.policy"
_POLICIES = ("bidirectional", "downgrade", "disabled", "upgrade")


def check_group_properties(values: ConfigValues) -> None:
    """Check the rules. Raises KafkaError(INVALID_CONFIG) with Kafka's message."""
    if _PROTOCOLS in values.stated and "classic" not in values.texts(_PROTOCOLS):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Disabling the 'classic' protocol is not supported."
        )
    if not any(name.startswith(_PREFIX) for name in values.stated):
        return
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        least, most, own = (f"{_PREFIX}{part}{name}" for part in ("min.", "max.", ""))
        _require_at_least(values, most, least)
        _require_at_least(values, own, least)
        if values.integer(own) > values.integer(most):
            raise _refusal(f"{own} must be less than or equal to {most}")
    heartbeat, session = f"{_PREFIX}heartbeat.interval.ms", f"{_PREFIX}session.timeout.ms"
    if values.integer(heartbeat) >= values.integer(session):
        raise _refusal(f"{heartbeat} must be less than {session}")
    policy = values.text(_POLICY)
    if policy.lower() not in _POLICIES:
        allowed = ", ".join(name.upper() for name in _POLICIES)
        raise invalid(_POLICY, policy, f"String must be one of (case insensitive): {allowed}")
    assignors = values.texts(f"{_PREFIX}assignors")
    if not assignors:
        raise invalid(f"{_PREFIX}assignors", "[]", "Configuration must not be empty")


def _require_at_least(values: ConfigValues, name: str, least: str) -> None:
    if values.integer(name) < values.integer(least):
        raise _refusal(f"{name} must be greater than or equal to {least}")


def _refusal(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)

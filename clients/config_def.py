"""Defines configuration properties: name, type, default and rule (Kafka's `ConfigDef`).

Topics and brokers define their properties with the same class, so that a server.properties file,
a CreateTopics request and a DescribeConfigs response agree on every name. Defaults are kept as
text, as in a properties file, and rules in the notation in which Kafka prints its validators, so
that a table of hundreds of rows costs nothing until a row is used.

The notations: ``[1,...]`` is a minimum, ``[0,...,1]`` a range, ``[0,...,1] or -1`` a range and one
more value, ``[a, b]`` the allowed values (in a list: of each item), ``non-empty string`` any string
but the empty one, and ``""`` any value of the type.
"""

import math
from enum import IntEnum
from typing import NamedTuple

from .errors import ErrorCode, KafkaError

ConfigValue = bool | int | float | str | list[str] | None


class ConfigType(IntEnum):
    """The types of properties, numbered as in DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigDef(NamedTuple):
    """One property. `default` is in text form; None means that there is no default."""

    name: str
    type: ConfigType
    default: str | None = None
    validator: str = ""
    server_synonym: str | None = None
    """For a topic property: the broker property that provides its default."""
    documentation: str = ""


_WIDTHS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def invalid(name: str, text: str, reason: str) -> KafkaError:
    """The error for a value that breaks its property's rule, in Kafka's wording."""
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"Invalid value {text} for configuration {name}: {reason}",
    )


def parse_value(definition: ConfigDef, text: str | None) -> ConfigValue:
    """Parse and check a value. Raises KafkaError(INVALID_CONFIG)."""
    if text is None:
        return None
    text = text.strip()
    value = _parse_value(definition, text)
    reason = _objection(definition, value)
    if reason:
        strange = _first_not_allowed(definition, value)
        raise invalid(definition.name, strange or text, reason)
    return value


def _first_not_allowed(definition: ConfigDef, value: ConfigValue) -> str:
    """The first list item that is not allowed; Kafka's error names only that item."""
    if not isinstance(value, list):
        return ""
    return next((item for item in value if _objection(definition, [item])), "")


def _parse_value(definition: ConfigDef, text: str) -> ConfigValue:
    kind = definition.type
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise invalid(definition.name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind in _WIDTHS:
        return _integer(definition, text)
    if kind is ConfigType.DOUBLE:
        return _double(definition, text)
    if kind is ConfigType.LIST:
        return [item.strip() for item in text.split(",")] if text else []
    return text


def _double(definition: ConfigDef, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        # Kafka accepts NaN. It is refused here because it would pass every rule: it is neither
        # below nor above any bound.
        raise invalid(definition.name, text, "Not a number of type DOUBLE")
    return value


def _integer(definition: ConfigDef, text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    limit = 1 << (_WIDTHS[definition.type] - 1)
    # Check the length before calling int(), so that a megabyte of digits is not converted.
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 20:
        value = int(text)
        if -limit <= value < limit:
            return value
    # Kafka also uses this message for numbers that are too large for their type.
    raise invalid(definition.name, text, f"Not a number of type {definition.type.name}")


def _objection(definition: ConfigDef, value: ConfigValue) -> str:
    """Why `value` breaks the rule of its property, or ''."""
    rule = definition.validator
    if not rule:
        return ""
    if rule == "non-empty string":
        return "String must be non-empty" if value == "" else ""
    if isinstance(value, int | float):
        return _outside(rule, value)
    allowed = [item.strip() for item in rule.strip("[]").split(",")]
    for item in value if isinstance(value, list) else [value]:
        if item not in allowed:
            return f"String must be one of: {', '.join(allowed)}"
    return ""


def _outside(rule: str, value: float) -> str:
    """Why `value` lies outside ``[low,...,high]`` (either end may be open), or ''."""
    interval, _, exception = rule.partition(" or ")
    if exception and value == float(exception):
        return ""
    low, _, high = interval.strip("[]").partition("...")
    low, high = low.strip(","), high.strip(",")
    if exception and low and high and not float(low) <= value <= float(high):
        return f"Value must be between {low} and {high} or equal to {exception}"
    if low and value < float(low):
        return f"Value must be at least {low}{f', or {exception}' if exception else ''}"
    if high and value > float(high):
        return f"Value must be no more than {high}"
    return ""

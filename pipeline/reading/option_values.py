"""Parses single values of a scan's options, each with an error that names the option."""

import re
from collections.abc import Mapping

_DURATION = re.compile(r"([0-9]{1,15})(us|ms|s|m|min|h|d)?", re.ASCII)

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


class ScanError(Exception):
    """A scan cannot continue. The message is one plain line that names the problem."""


def words(text: str) -> list[str]:
    """The parts of a list with commas, without spaces around them and without empty ones."""
    return [word for part in text.split(",") if (word := part.strip())]


def whole_number(name: str, text: str, *, at_least: int) -> int:
    """A decimal number. Raises ScanError."""
    if re.fullmatch(r"-?[0-9]{1,18}", text.strip()) and int(text) >= at_least:
        return int(text)
    raise ScanError(f"The option {name}={text!r} is not a whole number of at least {at_least}")


def number_if_stated(options: Mapping[str, str], name: str) -> int | None:
    """A positive number, None if the option is not there. Raises ScanError."""
    text = options.get(name.lower())
    return None if text is None else whole_number(name, text, at_least=1)


def one_of(
    options: Mapping[str, str], name: str, no: str, yes: str, *, default: bool = False
) -> bool:
    """Whether the option is `yes`, in any case of letters. Raises ScanError if it is neither."""
    text = options.get(name.lower(), yes if default else no).strip().lower()
    if text not in (no, yes):
        stated = options[name.lower()]
        raise ScanError(f"The option {name}={stated!r} is neither {no} nor {yes}")
    return text == yes


def duration_ms(name: str, text: str) -> int:
    """Milliseconds from a time string as Spark reads it: 15m, 30s, 250ms; without a unit, ms.

    Raises ScanError.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ScanError(f"The option {name}={text!r} is not a time such as 15m, 30s or 250ms")
    return int(match[1]) * _UNITS_US[match[2] or "ms"] // 1_000

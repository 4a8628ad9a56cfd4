"""Parsing of the broker ids that name a resource in requests."""

_CHARACTERS_MAX = 11
_INT32_MAX = (1 << 31) - 1


def parse_broker_id(text: str) -> int | None:
    """The number, or None if the text is not a 32-bit integer (`Integer.valueOf`).

    Checks the length first: `int` is slow for long texts, and refuses thousands of digits.
    """
    if len(text) > _CHARACTERS_MAX or not text.removeprefix("-").isdecimal():
        return None
    value = int(text)
    return value if abs(value) <= _INT32_MAX else None

"""Parses broker ids that are the names of resources in requests."""

_CHARACTERS_MAX = 11
_INT32_MAX = (1 << 31) - 1


def parse_broker_id(text: str) -> int | None:
    """The number, or None unless the text is digits, after a minus at most, of at most 2^31 - 1.

    Checks the length first: `int` is slow for long texts, and refuses thousands of digits.
    """
    if len(text) > _CHARACTERS_MAX or not text.removeprefix("-").isdecimal():
        return None
    value = int(text)
    return value if abs(value) <= _INT32_MAX else None

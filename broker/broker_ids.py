"""Broker ids as clients write them, where a resource is named by one."""

_CHARACTERS_MAX = 11
_INT32_MAX = (1 << 31) - 1


def parse_broker_id(text: str) -> int | None:
    """The number, or None for what is no 32-bit integer (`Integer.valueOf`).

    Python refuses to read numbers of thousands of digits, and takes long for fewer.
    """
    if len(text) > _CHARACTERS_MAX or not text.removeprefix("-").isdecimal():
        return None
    value = int(text)
    return value if abs(value) <= _INT32_MAX else None

"""Kafka's names, as users write them, and messages that help with a wrong one."""

from collections.abc import Iterable
from difflib import get_close_matches

from ...clients.errors import ErrorCode
from ...clients.protocol.api import SERVED_ON, ApiKey, ListenerKind

SECONDS_MAX = 3_600.0
"""The longest delay and throttle time."""

_APIS = {api.name: api.key for api in SERVED_ON[ListenerKind.BROKER].values()}


def api_key_of(name: str) -> ApiKey:
    """The key of an API, such as "Produce". Raises ValueError."""
    key = _APIS.get(name)
    if key is None:
        raise ValueError(f"There is no API {name!r}{_meant(name, _APIS)}")
    return key


def api_name_of(key: int) -> str:
    """The name of an API that a broker serves."""
    return SERVED_ON[ListenerKind.BROKER][key].name


def error_code_of(error: str | int) -> ErrorCode:
    """An error by its name, such as "NOT_LEADER_OR_FOLLOWER", or its number. Raises ValueError."""
    try:
        code = ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        names = [each.name for each in ErrorCode]
        raise ValueError(f"There is no error {error!r}{_meant(str(error), names)}") from None
    if code is ErrorCode.NONE:
        raise ValueError("NONE is not an error: use another one.")
    return code


def checked_seconds(seconds: float) -> float:
    """The seconds. Raises ValueError if they are negative, or more than an hour."""
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{seconds} s is not between 0 and {SECONDS_MAX:.0f} s.")
    return seconds


def checked_times(times: int | None) -> int | None:
    """How often a fault is met, or None for no end. Raises ValueError if less than once."""
    if times is not None and times < 1:
        raise ValueError(f"A fault is met at least once, not {times} times.")
    return times


def _meant(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else "."

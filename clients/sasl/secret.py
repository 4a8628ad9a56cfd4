"""A value that must not be read by chance: not in a log, a traceback or the repr of its owner."""

import hmac
from typing import Final, NoReturn

_STARS: Final = "********"


class Secret:
    """A password, token or key. Its text is stars, whichever way it is printed (`Password`)."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that needs it."""
        return self._value

    def equals(self, other: str) -> bool:
        """Whether the other text is the same; the time says nothing of where they differ."""
        return hmac.compare_digest(self._value.encode(), other.encode())

    def __repr__(self) -> str:
        return _STARS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.equals(other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not serialised.")

"""A value that must not be read by chance: not in a log, a traceback or the repr of its owner."""

import hmac
import re
from typing import Final, NoReturn

_STARS: Final = "********"
_IN_NO_WORD_BY_CHANCE = 8
"""Characters of a secret that stand in no longer word by chance."""
_WORD_CHARACTER = r"[\w-]"
_WORD_BEGINS = rf"(?:(?<!{_WORD_CHARACTER})|(?<=%[0-9A-Fa-f]{{2}})|(?<=\\[abfnrtv]))"
"""Also behind `%3D` of an address and `\\n` of a repr, which end in letters."""


def mask(text: str, secret: str, shown: str = "***") -> str:
    """The text with `shown` in place of the secret.

    A short one, such as the `test` of an emulator, is hidden where it is a word of its own: in
    longer words, such as the bucket `test-data`, it reveals nothing, but its stars would show that
    it is the secret. An end that is not a letter needs no word boundary.
    """
    if len(secret) >= _IN_NO_WORD_BY_CHANCE:
        return text.replace(secret, shown)
    begin = _WORD_BEGINS if re.match(_WORD_CHARACTER, secret) else ""
    end = f"(?!{_WORD_CHARACTER})" if re.match(_WORD_CHARACTER, secret[-1]) else ""
    return re.sub(f"{begin}{re.escape(secret)}{end}", lambda _: shown, text)


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

"""What no cluster can be sent is refused before anything is: broken text, numbers too large."""

import argparse
from collections.abc import Callable
from typing import cast

from .address import UsageError

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TEXT_BYTES_MAX = INT16_MAX
"""The longest name or value that Kafka's protocol has room for."""

_ANY_BYTES = frozenset({"delimiter", "format", "header", "key", "key_delimiter"})
"""Arguments that stand for bytes of records, whatever those are."""


def whole_number(most: int) -> Callable[[str], int]:
    """A type of argparse: a whole number whose size is at most `most`."""

    def parse(word: str) -> int:
        try:
            number = int(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word!r} is not a whole number") from None
        if not -most <= number <= most:
            raise argparse.ArgumentTypeError(f"{word} is more than {most}")
        return number

    return parse


def refuse_unsendable(parsed: argparse.Namespace) -> None:
    """Raise UsageError for an argument that cannot be sent as text."""
    arguments = cast("dict[str, object]", vars(parsed))
    for name, value in arguments.items():
        if name not in _ANY_BYTES:
            words = cast("list[object]", value) if isinstance(value, list) else [value]
            for word in words:
                if isinstance(word, str):
                    refuse_unsendable_word(word)


def refuse_unsendable_word(word: str) -> None:
    """Raise UsageError for a word that cannot be sent as text."""
    try:
        size = len(word.encode())
    except UnicodeEncodeError:
        raise UsageError(f"The argument {word!a} is not UTF-8: write it in UTF-8.") from None
    if size > TEXT_BYTES_MAX:
        raise UsageError(f"An argument has {size} bytes: names and values have {TEXT_BYTES_MAX}.")

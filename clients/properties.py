"""Parses Java .properties files, the format of Kafka's server.properties.

The rules are those of `java.util.Properties.load`. ``#`` and ``!`` begin a comment line. A name
ends at the first ``=``, ``:`` or blank without a backslash before it. A backslash at the end of a
line continues it on the next line, whose leading blanks are dropped. ``\\t \\n \\r \\f`` and
``\\uXXXX`` are escapes, and a backslash before any other character stands for that character. If a
name occurs more than once, the last value applies. Files are read as UTF-8, which is usual today; a
byte order mark, which editors on Windows write, is skipped.
"""

import re
from collections.abc import Iterator

from .errors import ErrorCode, KafkaError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


_NAME_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+")
_NAME_CHARACTERS_MAX = 200
_SEPARATOR = re.compile(r"[=:\s]")


def looks_like_a_name(text: str) -> bool:
    """Whether it is words with dots between them, as names of properties are.

    A line of a private key is not: pasted without backslashes, it is read as a name.
    """
    return len(text) <= _NAME_CHARACTERS_MAX and _NAME_LIKE.fullmatch(text) is not None


def shown_pair(word: str) -> str:
    """What a message may show of a word that should be name=value: never what may be a value."""
    name = _SEPARATOR.split(word, maxsplit=1)[0]
    return name if looks_like_a_name(name) else "(not shown, as it may be a secret)"


class _BadEscapeError(Exception):
    """A ``\\u`` without four hexadecimal digits."""


def parse_properties(text: str) -> dict[str, str]:
    """Values by name, in the file's order. Raises KafkaError for an invalid Unicode escape."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _end_of_name(line)
        value = line[end:].lstrip(_BLANKS)
        if value[:1] in ("=", ":") and value:
            value = value[1:].lstrip(_BLANKS)
        try:
            properties[_unescape(line[:end])] = _unescape(value)
        except _BadEscapeError:
            name = line[:end]
            place = f", property {name}" if looks_like_a_name(name) else ""
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Line {number}{place}: a \\u is not followed by four"
                " hexadecimal digits, as in a Unicode escape; a backslash itself is written twice.",
            ) from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, each with the number of its first line, from 1.

    Blank lines and comments are left out.
    """
    pending = ""
    first = 0
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(lines, 1):
        stripped = raw.lstrip(_BLANKS)
        if not pending:
            first = number
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        line = pending + stripped
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield first, line
    if pending:
        yield first, pending


def _end_of_name(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + 4]
        if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise _BadEscapeError
        out.append(chr(int(digits, 16)))
        position += 4
    return "".join(out)

"""The format of records as text (`consume -f`): kcat's letters, rpk's names for two of them.

`%s` or `%v` value, `%S` or `%V` its length (-1: null), `%k` key, `%K` its length, `%t` topic, `%p`
partition, `%o` offset, `%T` or `%d` timestamp in milliseconds, `%h` headers as `name=value,…`,
`%%` a percent sign. `%s`, `%v` and `%k` may say how bytes are written: `%v{hex}`, `%k{base64}`.
`\\n`, `\\t`, `\\r`, `\\\\`, `\\0` and `\\xHH` stand for a byte.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence

from ...clients.consumer.completed_fetch import ConsumerRecord
from .address import UsageError

Part = Callable[[ConsumerRecord], bytes]

_TOKEN = re.compile(
    r"%(?P<letter>[A-Za-z%])(?:\{(?P<encoding>[^}]*)\})?"
    r"|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.))"
    r"|(?P<text>[^%\\]+)|(?P<rest>.)",
    re.DOTALL,
)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda content: content.hex().encode(),
    "base64": b64encode,
}


def parse_format(text: str) -> Callable[[ConsumerRecord], bytes]:
    """A function that writes a record in this format. Raises UsageError."""
    parts = [_part(match) for match in _TOKEN.finditer(text)]

    def write(record: ConsumerRecord) -> bytes:
        return b"".join([part(record) for part in parts])

    return write


def parse_delimiter(text: str) -> bytes:
    """A delimiter, with the escapes of a format. Raises UsageError if it is empty."""
    delimiter = b"".join(_literal(match) or _bytes_of(match[0]) for match in _TOKEN.finditer(text))
    if not delimiter:
        raise UsageError("A delimiter has at least one character.")
    return delimiter


def _part(match: re.Match[str]) -> Part:
    literal = _literal(match)
    if literal is not None:
        return lambda _record: literal
    letter, encoding = match["letter"], match["encoding"]
    if letter == "%" and encoding is None:
        return lambda _record: b"%"
    if encoding is not None and letter in ("s", "v", "k"):
        encode = _ENCODINGS.get(encoding)
        if encode is None:
            raise UsageError(
                f"{match[0]} is not a valid format: {{hex}} or {{base64}} may stand there."
            )
        content = _CONTENTS[letter]
        return lambda record: encode(content(record))
    part = _LETTERS.get(letter or "")
    if part is None or encoding is not None:
        raise UsageError(
            f"{match[0]!r} is not a valid format: write %t %p %o %k %s %T %h %K %S, or %% for a"
            " percent sign."
        )
    return part


def _literal(match: re.Match[str]) -> bytes | None:
    if match["text"] is not None:
        return _bytes_of(match["text"])
    if match["hex"] is not None:
        return bytes.fromhex(match["hex"])
    if match["escape"] is not None:
        return _ESCAPES.get(match["escape"], _bytes_of(match[0]))
    return None


def _bytes_of(text: str) -> bytes:
    """The bytes that were written on the command line, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers
    )


def _length(content: bytes | None) -> bytes:
    return b"%d" % (-1 if content is None else len(content))


_CONTENTS: dict[str, Part] = {
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "k": lambda record: record.key or b"",
}
_LETTERS: dict[str, Part] = {
    **_CONTENTS,
    "S": lambda record: _length(record.value),
    "V": lambda record: _length(record.value),
    "K": lambda record: _length(record.key),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "d": lambda record: b"%d" % record.timestamp,
    "h": lambda record: _headers(record.headers),
}

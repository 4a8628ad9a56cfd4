"""Messages as text that people read and programs parse: a constructor call, as in Python.

    MetadataRequest(topics=[MetadataRequestTopic(name='known')])

A field that has its default is left out, and so are those that the version lacks. Ids are in
Kafka's form of 22 characters. What does not fit on a line has a line for each field or element.
Long bytes of an answer are compressed, and `zipped('…')` is their base64; those of a request, which
is only compared, are `digest(size, 'sha256')`. So is a whole message that nobody would read.
"""

import ast
import hashlib
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from tierlog.clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from tierlog.clients.protocol.schema import FieldType, Message, Struct, fields_of

_WIDTH = 100
_SHORT_BYTES = 120
"""Longer ones are compressed."""
_LONG = re.compile(r"(?:v\d+ )?\w+(?=\((?s:.){30000})")
"""The name of a message that is too long to be read."""


class TextError(ValueError):
    """A text that is no message of the expected class."""


def answer_to_text(message: Message, names: Mapping[object, str], column: int = 0) -> str:
    """An answer as text, of which `from_text` makes it again.

    The lines after the first one begin with two spaces or more, or are a bracket. `names` are
    fields' values that have a name instead: `{("port", 9092): "PORT"}`. `column` is how much of the
    first line is taken.
    """
    return _Writer(names, _zipped).struct(message, column, 2)


def request_to_text(message: Message, names: Mapping[object, str], column: int = 0) -> str:
    """A request as text that is the same for the same request."""
    return _Writer(names, _digest).struct(message, column, 2)


def shortened_answer(text: str) -> str:
    """An answer's text, compressed if nobody would read it."""
    name = _LONG.match(text)
    return f"{name[0]} {_zipped(text.encode())}" if name else text


def shortened_request(text: str) -> str:
    """A request's text, or its digest if nobody would read it."""
    name = _LONG.match(text)
    return f"{name[0]} {_digest(text.encode())}" if name else text


def _zipped(value: bytes) -> str:
    return f"zipped({b64encode(zlib.compress(value, 9)).decode()!r})"


def _digest(value: bytes) -> str:
    return f"digest({len(value)}, {hashlib.sha256(value).hexdigest()!r})"


class _Writer:
    def __init__(self, names: Mapping[object, str], shorten: Callable[[bytes], str]) -> None:
        self._names = names
        self._shorten = shorten

    def struct(self, value: Struct, column: int, indent: int) -> str:
        set_fields = [
            (spec.name, spec.type, getattr(value, spec.name))
            for spec in fields_of(type(value))
            if getattr(value, spec.name) != ([] if spec.default == () else spec.default)
        ]
        parts = [
            f"{name}={self._field(name, kind, each, len(name) + indent + 3, indent + 2)}"
            for name, kind, each in set_fields
        ]
        return _joined(f"{type(value).__name__}(", parts, ")", column, indent)

    def _field(self, name: str, kind: FieldType, value: object, column: int, indent: int) -> str:
        named = self._names.get((name, value)) if isinstance(value, int | str) else None
        return named or self._value(kind, value, column, indent)

    def _value(self, kind: FieldType, value: object, column: int, indent: int) -> str:
        if value is None:
            return "None"
        if kind.struct is not None:
            return self.struct(cast("Struct", value), column, indent)
        if kind.element is not None:
            element = kind.element
            parts = [
                self._value(element, each, indent + 1, indent + 2)
                for each in cast("Iterable[object]", value)
            ]
            return _joined("[", parts, "]", column, indent)
        if kind.kind == "uuid":
            return repr(uuid_to_string(cast("Uuid", value)))
        if kind.kind in ("bytes", "records"):
            raw = bytes(cast("memoryview", value))
            return repr(raw) if len(raw) <= _SHORT_BYTES else self._shorten(raw)
        return repr(value)


def _joined(opening: str, parts: list[str], closing: str, column: int, indent: int) -> str:
    line = opening + ", ".join(parts) + closing
    if "\n" not in line and column + len(line) < _WIDTH:
        return line
    margin = "\n" + " " * indent
    return opening + "".join(f"{margin}{part}," for part in parts) + margin[:-2] + closing


def from_text(text: str, cls: type[Message], names: Mapping[str, int | str]) -> Message:
    """The message of an answer's text; raises TextError. `names` are the values of names."""
    packed = re.fullmatch(r"\w+ zipped\('(.+)'\)", text)
    if packed:
        text = zlib.decompress(b64decode(packed[1])).decode()
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise TextError(f"{text[:80]!r} is not a message: {error}") from error
    return cast("Message", _Reader(names).struct(cls, parsed))


class _Reader:
    def __init__(self, names: Mapping[str, int | str]) -> None:
        self._names = names

    def struct(self, cls: type[Struct], node: ast.expr) -> Struct:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise TextError(f"a {cls.__name__} is expected, not {ast.unparse(node)[:80]}")
        if node.func.id != cls.__name__:
            raise TextError(f"a {cls.__name__} is expected, not a {node.func.id}")
        kinds = {spec.name: spec.type for spec in fields_of(cls)}
        values: dict[str, object] = {}
        for each in node.keywords:
            if each.arg is None or each.arg not in kinds:
                raise TextError(f"{cls.__name__} has no field {each.arg}")
            values[each.arg] = self._value(kinds[each.arg], each.value)
        return cls(**values)

    def _value(self, kind: FieldType, node: ast.expr) -> object:
        match node:
            case ast.Name(id=name):
                return self._names[name]
            case ast.Constant(value=None):
                return None
            case ast.List(elts=elements) if kind.element is not None:
                return [self._value(kind.element, each) for each in elements]
            case ast.Call(func=ast.Name(id="zipped"), args=[ast.Constant(value=str() as packed)]):
                return zlib.decompress(b64decode(packed))
            case _ if kind.struct is not None:
                return self.struct(kind.struct, node)
            case _:
                value = ast.literal_eval(node)
                return uuid_from_string(value) if kind.kind == "uuid" else value

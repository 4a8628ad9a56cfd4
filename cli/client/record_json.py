"""Records as JSON, one object a line: what `consume --json` writes and `produce --json` reads.

The keys are kcat's: `topic`, `partition`, `offset`, `tstype`, `ts` (milliseconds), `headers` (names
and values in turn), `key`, `payload`. Where bytes are not UTF-8, `key_base64`, `payload_base64` or
`headers_base64` stands instead; there, each value is base64, and each name plain text.

A line of other fields is somebody's own JSON, which was meant as a value: it is refused, as is a
line without a payload. Both would be records that delete something from a compacted topic.
"""

import json
from base64 import b64decode, b64encode
from typing import NamedTuple, cast

from ...clients.consumer.completed_fetch import ConsumerRecord
from ...clients.record.batch import TimestampType
from .sendable import INT64_MAX

Headers = tuple[tuple[str, bytes | None], ...]

_TYPES = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "logappend"}
_NO_TIMESTAMP = -1
_PAYLOADS = ("payload", "payload_base64")
_FIELDS = (
    *("key", "key_base64", *_PAYLOADS, "headers", "headers_base64", "ts"),
    # What says where a record was read; `broker` is kcat's.
    *("topic", "partition", "offset", "tstype", "broker"),
)
_OTHER_NAMES = {"value": "payload", "timestamp": "ts"}


class BadLineError(Exception):
    """A line is no record; says why."""


class NewRecord(NamedTuple):
    """What a producer needs of a record; the timestamp is None where the line has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


def line_of(record: ConsumerRecord) -> bytes:
    """A record as a line, with its end."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": "unknown" if record.timestamp < 0 else _TYPES[record.timestamp_type],
        "ts": record.timestamp,
        **_headers(record.headers),
        **_content("key", record.key),
        **_content("payload", record.value),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _content(name: str, content: bytes | None) -> dict[str, object]:
    text = _text(content)
    if content is not None and text is None:
        return {f"{name}_base64": b64encode(content).decode()}
    return {name: text}


def _text(content: bytes | None) -> str | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _headers(headers: Headers) -> dict[str, object]:
    texts = [_text(value) for _, value in headers]
    is_text = all(
        text is not None or value is None for text, (_, value) in zip(texts, headers, strict=True)
    )
    flat: list[str | None] = []
    for (name, value), text in zip(headers, texts, strict=True):
        encoded = text if is_text or value is None else b64encode(value).decode()
        flat += (name, encoded)
    return {"headers" if is_text else "headers_base64": flat}


def record_of(line: bytes) -> NewRecord:
    """The record that a line describes. Raises BadLineError."""
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"it is not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise BadLineError("it is not a JSON object")
    fields = cast("dict[str, object]", parsed)
    _check_names(fields)
    stamp = fields.get("ts")
    if stamp is not None and (not isinstance(stamp, int) or isinstance(stamp, bool)):
        raise BadLineError("ts is not a whole number of milliseconds")
    if stamp is not None and stamp > INT64_MAX:
        raise BadLineError(f"ts is more than {INT64_MAX}")
    if stamp is not None and stamp < _NO_TIMESTAMP:
        raise BadLineError(f"ts is less than {_NO_TIMESTAMP}, which stands for no timestamp")
    return NewRecord(
        _bytes_of(fields, "key"),
        _bytes_of(fields, "payload"),
        _headers_of(fields),
        None if stamp is None or stamp == _NO_TIMESTAMP else stamp,
    )


def _check_names(fields: dict[str, object]) -> None:
    """Raise BadLineError for a field that is none of a record's, or without a payload."""
    for name in fields:
        if name not in _FIELDS:
            near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else _near(name)
            if near:
                hint = f'(did you mean "{near[0]}"?)'
                raise BadLineError(f"it has the unknown field {name!r} {hint}")
            raise BadLineError(
                f"it has the unknown field {name!r}: with --json the value stands in the field"
                ' "payload"; without --json each line is sent as it is'
            )
    if not any(name in fields for name in _PAYLOADS):
        raise BadLineError('it has no "payload": write "payload": null for a record without value')
    for name in ("key", "payload", "headers"):
        if name in fields and f"{name}_base64" in fields:
            raise BadLineError(f'it has both "{name}" and "{name}_base64": leave one of them out')


def _near(name: str) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name.lower(), _FIELDS, 1)


def _bytes_of(fields: dict[str, object], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        return _decode(encoded, f"{name}_base64")
    text = fields.get(name)
    return None if text is None else _encode(text, name)


def _headers_of(fields: dict[str, object]) -> Headers:
    is_base64 = fields.get("headers_base64") is not None
    name = "headers_base64" if is_base64 else "headers"
    stated = fields.get(name)
    if stated is None:
        return ()
    if not isinstance(stated, list) or len(cast("list[object]", stated)) % 2:
        raise BadLineError(f"{name} is not a list of names and values in turn")
    flat = cast("list[object]", stated)
    headers: list[tuple[str, bytes | None]] = []
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        if not isinstance(key, str):
            raise BadLineError(f"{name} has a name that is not text")
        _encode(key, name)
        content = _decode if is_base64 else _encode
        headers.append((key, None if value is None else content(value, name)))
    return tuple(headers)


def _encode(text: object, name: str) -> bytes:
    if not isinstance(text, str):
        raise BadLineError(f"{name} is neither text nor null")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadLineError(f"{name} has half a character: {error.reason}") from error


def _decode(text: object, name: str) -> bytes:
    try:
        return b64decode(_encode(text, name), validate=True)
    except ValueError as error:
        raise BadLineError(f"{name} is not valid base64: {error}") from error

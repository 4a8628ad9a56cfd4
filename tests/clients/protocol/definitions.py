"""Kafka's JSON message definitions and our schemas, brought into one form that can be compared."""

import json
import re
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.schema import (
    FieldType,
    Message,
    Struct,
    VersionRange,
    fields_of,
    version_range,
)

STRUCT_OF_DEFAULTS = "a struct of defaults"


@dataclass(frozen=True, slots=True)
class FieldDefinition:
    """One field as it is in the valid versions of its message."""

    name: str
    type: str
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    default: object
    ignorable: bool
    fields: tuple["FieldDefinition", ...]


@dataclass(frozen=True, slots=True)
class MessageDefinition:
    """A message without the fields that none of its valid versions has."""

    name: str
    api_key: int
    versions: VersionRange
    flexible: VersionRange
    fields: tuple[FieldDefinition, ...]


class JsonField(TypedDict):
    """A field in Kafka's JSON; most values are strings, numbers and booleans among them."""

    name: str
    type: str
    versions: str
    nullableVersions: NotRequired[str]
    taggedVersions: NotRequired[str]
    tag: NotRequired[int]
    default: NotRequired[str | int | bool | None]
    ignorable: NotRequired[str | bool]
    fields: NotRequired[list["JsonField"]]


class JsonStruct(TypedDict):
    """A struct that several fields share."""

    name: str
    fields: list[JsonField]


class JsonMessage(TypedDict):
    """A file of Kafka's JSON."""

    apiKey: NotRequired[int]
    name: str
    validVersions: str
    flexibleVersions: str
    fields: list[JsonField]
    commonStructs: NotRequired[list[JsonStruct]]


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def clip(versions: VersionRange, valid: VersionRange) -> VersionRange:
    """The part of `versions` that is valid; one and the same value where nothing is."""
    clipped = VersionRange(max(versions.lowest, valid.lowest), min(versions.highest, valid.highest))
    return clipped if clipped.lowest <= clipped.highest else VersionRange(0, -1)


class KafkaDefinition:
    """Reads one of Kafka's files."""

    def __init__(self, text: str) -> None:
        without_comments = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
        self._json = cast(JsonMessage, json.loads(without_comments))
        self._valid = version_range(self._json["validVersions"])
        self._structs = {
            struct["name"]: struct["fields"] for struct in self._json.get("commonStructs", [])
        }

    def message(self) -> MessageDefinition:
        flexible = self._json["flexibleVersions"]
        return MessageDefinition(
            self._json["name"],
            self._json.get("apiKey", -1),
            self._valid,
            clip(version_range(None if flexible == "none" else flexible), self._valid),
            self._fields(self._json["fields"]),
        )

    def _fields(self, fields: list[JsonField]) -> tuple[FieldDefinition, ...]:
        definitions = (self._field(field) for field in fields)
        return tuple(field for field in definitions if field.versions.highest >= 0)

    def _field(self, field: JsonField) -> FieldDefinition:
        versions = clip(version_range(field["versions"]), self._valid)
        assert field.get("taggedVersions", field["versions"]) == field["versions"]
        struct = field["type"].removeprefix("[]")
        return FieldDefinition(
            snake_case(field["name"]),
            field["type"],
            versions,
            clip(version_range(field.get("nullableVersions")), self._valid),
            field.get("tag"),
            self._default(field),
            str(field.get("ignorable", False)).lower() == "true",
            self._fields(field.get("fields", self._structs.get(struct, []))),
        )

    def _default(self, field: JsonField) -> object:
        kind = field["type"]
        named = field.get("default")
        if named == "null" or kind == "records":
            return None
        if kind.startswith("[]"):
            return ()
        if kind[0].isupper():
            return STRUCT_OF_DEFAULTS
        others: dict[str, object] = {"uuid": ZERO_UUID, "bytes": b"", "string": named or ""}
        if kind in others:
            return others[kind]
        if kind == "bool":
            return str(named).lower() == "true"
        return int(str(named), 0) if named is not None else 0


def our_definition(cls: type[Message]) -> MessageDefinition:
    """The same, read from a message class."""
    valid = version_range(cls.versions)
    return MessageDefinition(
        cls.__name__,
        cls.api_key,
        valid,
        clip(version_range(cls.flexible_versions), valid),
        _our_fields(cls, valid),
    )


def _our_fields(cls: type[Struct], valid: VersionRange) -> tuple[FieldDefinition, ...]:
    definitions: list[FieldDefinition] = []
    for spec in fields_of(cls):
        inner = spec.type.element or spec.type
        definitions.append(
            FieldDefinition(
                spec.name,
                _type_name(spec.type),
                clip(spec.versions, valid),
                clip(spec.nullable, valid),
                spec.tag,
                STRUCT_OF_DEFAULTS if isinstance(spec.default, Struct) else spec.default,
                spec.ignorable,
                _our_fields(inner.struct, valid) if inner.struct is not None else (),
            )
        )
    return tuple(definitions)


def _type_name(field_type: FieldType) -> str:
    if field_type.element is not None:
        return f"[]{_type_name(field_type.element)}"
    return field_type.struct.__name__ if field_type.struct is not None else field_type.kind

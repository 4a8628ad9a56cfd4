"""A schema as a registry or a file of schemas has it, and the checks that make it one.

Both are input from outside: each value is looked at before it is used, and what is wrong ends with
one sentence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

AVRO, JSON = KINDS = "AVRO", "JSON"
"""The types of schemas that are decoded, by the registry's names."""

MAX_ID = 2**31 - 1
"""Ids and versions are 32-bit integers."""


_SHOWN = 250
"""Characters shown of the beginning and of the end of a message, with names of any length in it."""


class SchemaError(ValueError):
    """A schema, a registry or a file of schemas cannot be used; the message says why."""

    def __init__(self, message: str) -> None:
        if len(message) > 2 * _SHOWN:
            message = f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One schema of a registry, with the texts of all schemas that it refers to."""

    schema_id: int
    kind: str
    text: str
    references: Mapping[str, str]
    """Texts by the names that the schemas refer to them by."""

    @property
    def parsed(self) -> object:
        """The schema as JSON values. Raises SchemaError if it is not JSON."""
        return parsed_json(self.text, f"Schema {self.schema_id}")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a subject at one moment: its schemas by id, and which is the newest."""

    name: str
    newest: RegisteredSchema
    schemas: Mapping[int, RegisteredSchema]


def subject_of(name: str, newest: int, schemas: Mapping[int, RegisteredSchema]) -> Subject:
    """A subject, whose schemas are all of one type. Raises SchemaError if they are not."""
    kinds = {schema.kind for schema in schemas.values()}
    if len(kinds) != 1:
        raise SchemaError(
            f"The schemas of subject {name!r} have several types, {', '.join(sorted(kinds))}: one "
            "column cannot hold them all"
        )
    return Subject(name, schemas[newest], schemas)


def parsed_json(text: str | bytes, what: str) -> object:
    """Text as JSON values. Raises SchemaError, which begins with `what`, if it is not JSON."""
    try:
        return cast("object", json.loads(text))
    except RecursionError:
        raise SchemaError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise SchemaError(f"{what} is not JSON: {error}") from None


def object_of(value: object, what: str) -> dict[str, object]:
    """The value, if it is a JSON object; raises SchemaError if not."""
    if not isinstance(value, dict):
        raise SchemaError(f"{what} is not a JSON object")
    return cast("dict[str, object]", value)


def list_of(value: object, what: str) -> list[object]:
    """The value, if it is a JSON array; raises SchemaError if not."""
    if not isinstance(value, list):
        raise SchemaError(f"{what} is not a JSON array")
    return cast("list[object]", value)


def text_of(value: object, what: str) -> str:
    """The value, if it is a string of whole characters; raises SchemaError if not."""
    if not isinstance(value, str):
        raise SchemaError(f"{what} is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON may hold half of a pair of surrogates, which no URL and no file can.
        raise SchemaError(f"{what} holds half a character") from None
    return value


def id_of(value: object, what: str) -> int:
    """The value, if it may be an id or a version; raises SchemaError if not."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ID:
        raise SchemaError(f"{what} is not a number from 0 to {MAX_ID}")
    return value


def kind_of(value: object, what: str) -> str:
    """The type of a schema; a registry leaves out AVRO. Raises SchemaError for another type."""
    kind = AVRO if value is None else text_of(value, f"The type of {what}")
    if kind not in KINDS:
        stated = " and ".join(KINDS)
        raise SchemaError(f"The type of {what} is {kind[:40]!r}; only {stated} are decoded")
    return kind

"""Subjects in a JSON file, for clusters that do not reach a registry.

The file has come from elsewhere by the time it is read, so it is checked like a registry's answers.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from .registered_schema import (
    RegisteredSchema,
    SchemaError,
    Subject,
    id_of,
    kind_of,
    list_of,
    object_of,
    parsed_json,
    subject_of,
    text_of,
)

MAX_FILE_BYTES = 64 << 20
_FORMAT = "tierlog schemas 1"


def write_subjects(path: str, subjects: Iterable[Subject]) -> None:
    """Write subjects into a file, in the place of what it held. Raises SchemaError if it cannot."""
    stated = {
        subject.name: {
            "newest": subject.newest.schema_id,
            "schemas": [_as_json(schema) for schema in subject.schemas.values()],
        }
        for subject in subjects
    }
    text = json.dumps({"format": _FORMAT, "subjects": stated}, indent=1)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"The file of schemas cannot be written: {error}") from None


def _as_json(schema: RegisteredSchema) -> dict[str, object]:
    return {
        "id": schema.schema_id,
        "schemaType": schema.kind,
        "schema": schema.text,
        "references": dict(schema.references),
    }


def read_subjects(path: str) -> dict[str, Subject]:
    """The subjects of a file, by name. Raises SchemaError if it was not written by this module."""
    stated = read_json_schema(path)
    if stated.get("format") != _FORMAT:
        raise SchemaError(f"{path} is not a file of schemas that Schemas.save wrote")
    subjects = object_of(stated.get("subjects"), f"The subjects of {path}")
    return {name: _read_subject(name, value, path) for name, value in subjects.items()}


def read_json_schema(path: str) -> dict[str, object]:
    """A JSON object of a file. Raises SchemaError if there is none, or it is too large."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SchemaError(f"The file of schemas cannot be read: {error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SchemaError(f"{path} has more than {MAX_FILE_BYTES} bytes")
    return object_of(parsed_json(content, path), path)


def _read_subject(name: str, value: object, path: str) -> Subject:
    what = f"subject {name!r} of {path}"
    stated = object_of(value, what)
    schemas: dict[int, RegisteredSchema] = {}
    for each in list_of(stated.get("schemas"), f"The schemas of {what}"):
        schema = object_of(each, f"A schema of {what}")
        schema_id = id_of(schema.get("id"), f"The id of a schema of {what}")
        references = object_of(schema.get("references"), f"The references of {what}")
        texts = {key: text_of(text, f"A reference of {what}") for key, text in references.items()}
        text = text_of(schema.get("schema"), f"The text of a schema of {what}")
        kind = kind_of(schema.get("schemaType"), what)
        schemas[schema_id] = RegisteredSchema(schema_id, kind, text, texts)
    newest = id_of(stated.get("newest"), f"The newest schema of {what}")
    if newest not in schemas:
        raise SchemaError(f"The newest schema of {what} is not among its schemas")
    return subject_of(name, newest, schemas)

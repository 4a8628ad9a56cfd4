"""Avro schemas that a registry may hand out: resolved whole and bounded, or refused."""

import json
from typing import Any

import fastavro
import pytest

from tierlog.pipeline.spark.typed.avro_schema import MAX_DEPTH, resolved_schema
from tierlog.pipeline.spark.typed.registered_schema import RegisteredSchema, SchemaError


def registered(schema: object, **references: object) -> RegisteredSchema:
    texts = {name: json.dumps(text) for name, text in references.items()}
    return RegisteredSchema(7, "AVRO", json.dumps(schema), texts)


def record(name: str, *types: object, **more: object) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **more}


def test_what_a_schema_refers_to_stands_where_its_name_is_first_used() -> None:
    outer = record("Outer", "Inner", "Inner", {"type": "array", "items": "Deep"}, namespace="n")
    references = {
        "n.Inner": record("Inner", "n.Deep", namespace="n"),
        "n.Deep": record("n.Deep", "int"),
    }
    schema = registered(outer, **references)
    resolved: Any = resolved_schema(schema)
    # fastavro, which knows no references, reads it as it is.
    parsed = fastavro.parse_schema(resolved)
    value = {"f0": {"f0": {"f0": 1}}, "f1": {"f0": {"f0": 2}}, "f2": [{"f0": 3}]}
    assert fastavro.validate(value, parsed)
    assert resolved["fields"][1]["type"] == "n.Inner"


def test_a_schema_without_a_namespace_keeps_none_within_one_that_has() -> None:
    schema = registered(record("Outer", "Inner", namespace="n"), Inner=record("Inner", "int"))
    resolved: Any = resolved_schema(schema)
    assert resolved["fields"][0]["type"]["namespace"] == ""


def nested(depth: int) -> object:
    schema: object = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(count: int) -> dict[str, Any]:
    """A schema of a few lines that stands for 2 ** count columns."""
    schema = record("R0", "int")
    for number in range(1, count):
        schema = record(f"R{number}", schema, f"R{number - 1}")
    return schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record("R", "int", ["null", "R"]), "is recursive at 'R'"),
        (record("R", {"type": "map", "values": record("S", "R")}), "is recursive at 'R'"),
        (record("R", "Elsewhere"), "has the unknown type 'Elsewhere'"),
        (nested(MAX_DEPTH + 2), "is nested more than 64 deep"),
        (doubling(40), "stands for more than 10000 columns"),
        (record("R", *["int"] * 10_001), "stands for more than 10000 columns"),
        (record("R", record("S"), record("S")), "defines 'S' twice"),
        ({"type": "array", "items": "null"}, "whose items take no bytes"),
        ({"type": "array", "items": record("R", "null")}, "whose items take no bytes"),
        (record("R", record("S"), {"type": "array", "items": "S"}), "whose items take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "take no bytes"),
        (
            record("R", {"type": "fixed", "name": "F", "size": 0}, {"type": "array", "items": "F"}),
            "take no bytes",
        ),
        ({"type": "array", "items": {"type": {"type": "null"}}}, "take no bytes"),
        (
            record("R", record("S"), {"type": "array", "items": {"type": "S"}}),
            "whose items take no bytes",
        ),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, "'F' of 2147483647 bytes"),
        ({"type": "fixed", "name": "F", "size": -1}, "'F' of -1 bytes"),
        ({"type": "fixed", "name": "F", "size": "9" * 999}, "has the fixed 'F' of '999"),
        ({"type": "fixed", "name": "F"}, "'F' of None bytes"),
        ({"type": "array"}, "an array of nothing"),
        ({"type": "record", "fields": []}, "has a type without a name"),
        ({"type": "record", "name": "R"}, "is not a JSON array"),
        ({"type": "record", "name": "R", "fields": [3]}, "is not a JSON object"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "a field without a type"),
        ({"type": None}, "has 'None' where a type should be"),
        (3, "has '3' where a type should be"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: object, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        resolved_schema(registered(schema))
    assert message in str(caught.value)


def test_text_that_is_no_schema_is_refused() -> None:
    for text in ("{", "[" * 100_000):
        with pytest.raises(SchemaError, match="Schema 7"):
            resolved_schema(RegisteredSchema(7, "AVRO", text, {}))
    with pytest.raises(SchemaError, match="What Avro schema 7 refers to as 'R' is not JSON"):
        resolved_schema(RegisteredSchema(7, "AVRO", '"R"', {"R": "{"}))


@pytest.mark.parametrize("text", ["int", {"type": "int"}, record("S"), [record("A"), "null"]])
def test_what_is_referred_to_is_a_type_of_that_name(text: object) -> None:
    """Something else would stand in the schema again at each use, however long it is."""
    with pytest.raises(SchemaError, match="refers to as 'A' does not define it"):
        resolved_schema(registered(record("R", "A", "A"), A=text))


def test_references_in_a_circle_are_recursive() -> None:
    schema = registered("A", A=record("A", "B"), B=record("B", "A"))
    with pytest.raises(SchemaError, match="is recursive at 'A'"):
        resolved_schema(schema)

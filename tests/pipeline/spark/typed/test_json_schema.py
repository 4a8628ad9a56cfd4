"""JSON Schema as types of Spark: what has one, and what is refused and where."""

import json
from typing import Any

import pytest

from tierlog.pipeline.spark.typed.json_schema import spark_type
from tierlog.pipeline.spark.typed.registered_schema import SchemaError


def text(schema: object, **references: object) -> str:
    return spark_type(
        schema, {name: json.dumps(each) for name, each in references.items()}
    ).simpleString()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["null", "boolean"]}, "boolean"),
        ({"type": "string", "pattern": "a+", "not": {"const": "aa"}}, "string"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"enum": ["a", "b"]}, "string"),
        ({"const": "a"}, "string"),
        ({"type": "array", "items": {"type": "string"}}, "array<string>"),
        ({"type": "object"}, "map<string,string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        (
            {"properties": {"b": {"type": "integer"}, "a": {"type": "object"}}},
            "struct<b:bigint,a:map<string,string>>",
        ),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"allOf": [{"type": "string"}]}, "string"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, "bigint"),
        ({"$ref": "other.json#/definitions/x"}, "boolean"),
        (
            {"type": "object", "properties": {"a": {"$ref": "other.json"}}},
            "struct<a:struct<c:boolean>>",
        ),
    ],
)
def test_types(schema: object, expected: str) -> None:
    other = {
        "properties": {"c": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"type": "boolean"}},
    }
    assert text(schema, **{"other.json": other}) == expected


def doubling(count: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for number in range(1, count):
        below = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"properties": {"a": below, "b": below}}
    return {"$ref": f"#/$defs/d{count - 1}", "$defs": definitions}


REFUSED: list[tuple[Any, str]] = [
    (True, "at # allows any value or none"),
    ({}, "at # states no type"),
    ({"enum": ["a", 1]}, "states no type"),
    ({"type": "null"}, "has the type 'null'"),
    ({"type": {}}, "has the type '{}'"),
    ({"type": ["string", "integer"]}, "has several types"),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "has oneOf"),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "has allOf"),
    ({"type": "object", "patternProperties": {}}, "has patternProperties"),
    ({"type": "array"}, "is an array without one schema"),
    ({"properties": {"a": {"items": [{}], "type": "array"}}}, "at #/a is an array without"),
    ({"properties": {"a": True}}, "at #/a allows any value"),
    ({"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "ignores case"),
    ({"properties": 3}, "is not a JSON object"),
    ({"$ref": "#"}, "is recursive"),
    ({"properties": {"a": {"$ref": "#"}}}, "is recursive"),
    ({"$ref": "#/none"}, "refers to '#/none', which is not there"),
    ({"$ref": "#anchor"}, "refers to the anchor 'anchor'"),
    ({"$ref": "http://127.0.0.1:1/x"}, "which is not registered with it"),
    ({"$ref": 3}, "is not a string"),
    ([], "is not a JSON object"),
    (doubling(20), "stands for more than 10000 types"),
]


@pytest.mark.parametrize(("schema", "message"), REFUSED)
def test_what_has_no_type_is_refused(schema: object, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        text(schema)
    assert message in str(caught.value)


def test_a_document_is_parsed_once_however_often_it_is_referred_to() -> None:
    class Texts(dict[str, str]):
        read = 0

        def __getitem__(self, name: str) -> str:
            self.read += 1
            return super().__getitem__(name)

    texts = Texts(x='{"a": {"type": "integer"}}')
    uses = {f"f{number}": {"$ref": "x#/a"} for number in range(100)}
    assert len(spark_type({"properties": uses}, texts).simpleString().split(",")) == 100
    assert texts.read == 1

"""JSON Schema as types of Spark.

A type of Spark says less than a JSON Schema: keywords that only restrict values (`required`,
`minimum`, `pattern`, `not`, …) are not checked. What has no type, such as `oneOf`, is refused with
one sentence that says where it is.

`$ref` can make a small schema stand for billions of columns, so the number of types is bounded.

https://json-schema.org/draft/2020-12/json-schema-core
"""

from collections.abc import Mapping
from typing import cast

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .registered_schema import SchemaError, list_of, object_of, parsed_json, text_of

MAX_DEPTH = 64
MAX_NODES = 10_000

_REFUSED = ("oneOf", "anyOf", "allOf", "if", "patternProperties", "prefixItems", "$dynamicRef")
_FORMATS: Mapping[str, DataType] = {"date": DateType(), "date-time": TimestampType()}
_SCALARS: Mapping[str, DataType] = {
    "boolean": BooleanType(),
    "integer": LongType(),
    "number": DoubleType(),
}


def spark_type(schema: object, references: Mapping[str, str] | None = None) -> DataType:
    """The type of Spark for a JSON Schema, given as JSON values.

    Args:
        schema: the schema.
        references: texts of other schemas, by the names that `$ref` has for them.

    Raises:
        SchemaError: the schema is not valid, too large, recursive, or has no type in Spark.
    """
    return _Mapper(references or {}).type_of(_Place(schema, schema, "#"), 0)


class _Place:
    """A schema within its document."""

    __slots__ = ("document", "path", "schema")

    def __init__(self, schema: object, document: object, path: str) -> None:
        self.schema = schema
        self.document = document
        self.path = path

    def below(self, schema: object, name: str) -> "_Place":
        return _Place(schema, self.document, f"{self.path}/{name}"[:300])

    def error(self, problem: str) -> SchemaError:
        return SchemaError(f"The JSON Schema at {self.path} {problem}")


class _Mapper:
    def __init__(self, references: Mapping[str, str]) -> None:
        self._references = references
        self._documents: dict[str, object] = {}
        """Those of the references that were followed."""
        self._nodes = 0

    def type_of(self, place: _Place, depth: int) -> DataType:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise place.error(f"stands for more than {MAX_NODES} types")
        if depth > MAX_DEPTH:
            raise place.error(f"is recursive, or nested more than {MAX_DEPTH} deep")
        if isinstance(place.schema, bool):
            raise place.error("allows any value or none, which has no type in Spark")
        schema = object_of(place.schema, f"The JSON Schema at {place.path}")
        if "$ref" in schema:
            return self.type_of(self._target(place, schema["$ref"]), depth + 1)
        if (inner := _only_choice(schema)) is not None:
            return self.type_of(place.below(*inner), depth + 1)
        for keyword in _REFUSED:
            if keyword in schema:
                raise place.error(f"has {keyword}, which has no type in Spark")
        kind = _kind(place, schema)
        if kind == "object":
            return self._object(place, schema, depth)
        if kind == "array":
            if "items" not in schema or isinstance(schema["items"], list):
                raise place.error("is an array without one schema for its items")
            return ArrayType(self.type_of(place.below(schema["items"], "items"), depth + 1))
        return _scalar(place, schema, kind)

    def _object(self, place: _Place, schema: Mapping[str, object], depth: int) -> DataType:
        if schema.get("properties"):
            properties = object_of(schema["properties"], f"What {place.path} has as properties")
            by_case: dict[str, str] = {}
            for name in properties:
                if by_case.setdefault(name.lower(), name) != name:
                    raise place.error(f"has two properties {name!r}, as Spark ignores case")
            return StructType(
                [
                    StructField(name, self.type_of(place.below(each, name), depth + 1))
                    for name, each in properties.items()
                ]
            )
        others = schema.get("additionalProperties", True)
        if isinstance(others, bool):
            # Values of any kind, as their JSON text.
            return MapType(StringType(), StringType())
        inner = place.below(others, "additionalProperties")
        return MapType(StringType(), self.type_of(inner, depth + 1))

    def _target(self, place: _Place, reference: object) -> _Place:
        stated = text_of(reference, f"The $ref at {place.path}")
        name, _, pointer = stated.partition("#")
        document = place.document
        if name:
            document = self._document(place, name)
        if pointer and not pointer.startswith("/"):
            raise place.error(f"refers to the anchor {pointer[:100]!r}: only paths are followed")
        node = document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise place.error(f"refers to {stated[:100]!r}, which is not there")
            node = cast("dict[str, object]", node)[key]
        return _Place(node, document, stated[:300])

    def _document(self, place: _Place, name: str) -> object:
        """What a reference has the name for; it may be large, and is parsed once."""
        if name not in self._documents:
            if name not in self._references:
                raise place.error(f"refers to {name[:100]!r}, which is not registered with it")
            text = self._references[name]
            self._documents[name] = parsed_json(text, f"What {name[:100]!r} refers to")
        return self._documents[name]


def _scalar(place: _Place, schema: Mapping[str, object], kind: object) -> DataType:
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return BinaryType()
        stated = schema.get("format")
        return _FORMATS.get(stated, StringType()) if isinstance(stated, str) else StringType()
    if isinstance(kind, str) and kind in _SCALARS:
        return _SCALARS[kind]
    raise place.error(f"has the type {str(kind)[:40]!r}, which has no type in Spark")


def _only_choice(schema: Mapping[str, object]) -> tuple[object, str] | None:
    """The one schema that `oneOf`, `anyOf` or `allOf` leaves beside null, and its path."""
    for keyword in ("oneOf", "anyOf", "allOf"):
        if keyword not in schema or "type" in schema or "properties" in schema:
            continue
        choices = list_of(schema[keyword], f"What a JSON Schema has as {keyword}")
        left = [
            (each, f"{keyword}/{index}")
            for index, each in enumerate(choices)
            if keyword == "allOf" or each != {"type": "null"}
        ]
        if len(left) == 1:
            return left[0]
    return None


def _kind(place: _Place, schema: Mapping[str, object]) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in cast("list[object]", kind) if each != "null"]
        if len(kinds) != 1:
            raise place.error("has several types, which no column can hold")
        return kinds[0]
    if kind is None:
        if "properties" in schema:
            return "object"
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        texts = list_of(values, f"What {place.path} has as enum")
        if texts and all(isinstance(each, str) for each in texts):
            return "string"
        raise place.error("states no type")
    return kind

"""Random schemas and values: Spark decodes what fastavro and json wrote, and nothing that is cut.

Each example is a Spark job, so there are few of them, each with many records.
"""

import io
import json
from importlib import import_module
from typing import Any, cast

import fastavro
import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.typed.registered_schema import Subject
from tierlog.spark import typed
from tierlog.tests.pipeline.spark.typed.records import collected, framed, rows_of, subject
from tierlog.tests.pipeline.spark.worker_session import WorkerSession

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

_fastavro: Any = fastavro
_jsonschema: Any = import_module("jsonschema")
Schema = Any
"""An Avro or a JSON schema."""
Typed = tuple[Any, st.SearchStrategy[Any]]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
AVRO: list[Typed] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXTS),
    ("bytes", st.binary(max_size=8)),
]
# An int that a float cannot hold is rounded, by each implementation in its own way.
PROMOTED = {"int": ("long", "double"), "float": ("double",)}


@st.composite
def avro_types(draw: st.DrawFn, depth: int = 3) -> Typed:
    """A type, whose names are unlike all others, and its values."""
    kind = draw(st.sampled_from(["scalar", "null", "array", "map", "record", "enum"]))
    if depth == 0 or kind == "scalar":
        return draw(st.sampled_from(AVRO))
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": _name(draw), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "record":
        return draw(avro_records(depth - 1))
    inner, values = draw(avro_types(depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=3)
    is_union = isinstance(inner, list)
    return (cast("Any", inner), values) if is_union else (["null", inner], st.none() | values)


@st.composite
def avro_records(draw: st.DrawFn, depth: int = 2) -> Typed:
    fields = draw(st.lists(avro_types(depth), min_size=1, max_size=4))
    stated = [{"name": f"f{index}", "type": kind} for index, (kind, _) in enumerate(fields)]
    values = st.fixed_dictionaries({f"f{index}": each for index, (_, each) in enumerate(fields)})
    return {"type": "record", "name": _name(draw), "fields": stated}, values


def _name(draw: st.DrawFn) -> str:
    return f"N{draw(st.uuids()).hex}"


def written(schema: Schema, value: object) -> bytes:
    buffer = io.BytesIO()
    _fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()


def read(content: bytes, writer: Schema, reader: Schema) -> object:
    return _fastavro.schemaless_reader(io.BytesIO(content), writer, reader)


def plain(value: object) -> object:
    """A value of Spark's as fastavro has it."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [plain(each) for each in cast("list[object]", value)]
    return value


def decoded(
    spark: SparkSession, values: list[bytes], stated: Subject | Schema
) -> list[tuple[object, bool]]:
    """Each value, and whether it was decoded."""
    rows = collected(typed(rows_of(spark, values), value=stated), "value", "undecoded")
    return [(plain(value), undecoded is None) for value, undecoded in rows]


@settings(max_examples=12)
@given(st.data())
def test_avro_of_any_schema_comes_as_fastavro_reads_it(
    worker_session: WorkerSession, data: st.DataObject
) -> None:
    schema, values = data.draw(avro_types())
    payloads = [written(schema, each) for each in data.draw(st.lists(values, min_size=8))]
    cut = [each[: data.draw(st.integers(0, len(each) - 1))] for each in payloads if each]
    longer = [each + data.draw(st.binary(min_size=1, max_size=9)) for each in payloads]
    framed_values = [framed(3, each) for each in payloads + cut + longer]
    got = decoded(worker_session.session(), framed_values, subject({3: schema}))
    assert got[: len(payloads)] == [(read(each, schema, schema), True) for each in payloads]
    assert got[len(payloads) :] == [(None, False)] * (len(cut) + len(longer))


def test_no_bytes_behind_a_value_are_those_that_end_it(worker_session: WorkerSession) -> None:
    """The bytes that the decoder appends were once the same ones for all."""
    contents = [framed(3, b"\x01"), framed(3, b"\x01\xfftierlog"), framed(3, b"\x01" + bytes(16))]
    got = decoded(worker_session.session(), contents, subject({3: "boolean"}))
    assert got == [(True, True), (None, False), (None, False)]


@st.composite
def evolved(draw: st.DrawFn) -> tuple[Any, Any, st.SearchStrategy[Any]]:
    """Two versions of a record: fields are promoted, removed and added with a default."""
    writer, values = draw(avro_records())
    kept = [field for field in writer["fields"] if draw(st.booleans())]
    fields = [
        {**field, "type": draw(st.sampled_from(PROMOTED[field["type"]]))}
        if isinstance(field["type"], str) and field["type"] in PROMOTED
        else field
        for field in kept
    ]
    added: list[Any] = [
        {"name": "more", "type": ["null", "string"], "default": None},
        {"name": "count", "type": "long", "default": 5},
        {"name": "texts", "type": {"type": "array", "items": "string"}, "default": []},
    ]
    reader = {**writer, "fields": draw(st.permutations([*fields, *added]))}
    return writer, reader, values


@settings(max_examples=12)
@given(st.data())
def test_records_of_an_older_version_come_as_the_newest(
    worker_session: WorkerSession, data: st.DataObject
) -> None:
    writer, reader, values = data.draw(evolved())
    older = data.draw(st.lists(values, min_size=5))
    payloads = [written(writer, each) for each in older]
    newer = [written(reader, read(each, writer, reader)) for each in payloads]
    by_id = [framed(3, each) for each in payloads] + [framed(4, each) for each in newer]
    got = decoded(worker_session.session(), by_id, subject({3: writer, 4: reader}))
    expected = [(read(each, writer, reader), True) for each in payloads]
    assert got == expected + expected


JSON: list[Typed] = [
    ({"type": "integer"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "string"}, TEXTS),
]


@st.composite
def json_types(draw: st.DrawFn, depth: int = 3) -> Typed:
    kind = draw(st.sampled_from(["scalar", "array", "map", "object"]))
    if depth == 0 or kind == "scalar":
        return draw(st.sampled_from(JSON))
    if kind == "object":
        fields = draw(st.lists(json_types(depth - 1), min_size=1, max_size=4))
        properties = {f"p{index}": schema for index, (schema, _) in enumerate(fields)}
        by_name = {f"p{index}": each for index, (_, each) in enumerate(fields)}
        return {"type": "object", "properties": properties}, st.fixed_dictionaries(by_name)
    inner, values = draw(json_types(depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    stated = {"type": "object", "additionalProperties": inner}
    return stated, st.dictionaries(TEXTS, values, max_size=3)


@settings(max_examples=12)
@given(st.data())
def test_json_of_any_schema_comes_as_json_reads_it(
    worker_session: WorkerSession, data: st.DataObject
) -> None:
    schema, values = data.draw(json_types())
    drawn = data.draw(st.lists(values, min_size=8))
    for value in drawn:
        _jsonschema.validate(value, schema)
    is_ascii = data.draw(st.booleans())
    texts = [json.dumps(each, ensure_ascii=is_ascii).encode() for each in drawn]
    # A number that is cut is a number.
    bad = [each + b" 1" for each in texts] + [b"[" + each for each in texts] + [b"{", b"\xff"]
    got = decoded(worker_session.session(), texts + bad, schema)
    assert got[: len(texts)] == [(each, True) for each in drawn]
    assert got[len(texts) :] == [(None, False)] * len(bad)

"""Typed columns of records that real serializers wrote, by schemas of a real registry."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tierlog.pipeline.spark.typed.typed_columns import JsonType
from tierlog.spark import SchemaError, SchemaRegistry, Schemas, typed
from tierlog.tests.pipeline.spark.typed.apicurio import Apicurio
from tierlog.tests.pipeline.spark.typed.producer import (
    NEWER,
    ORDER,
    Producer,
    avro_serializer,
    bytes_of,
)
from tierlog.tests.pipeline.spark.typed.records import collected, framed, rows_of, subject

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

CLICK: dict[str, Any] = {
    "title": "Click",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.fixture
def producer(apicurio: Apicurio) -> Producer:
    return Producer(apicurio.url)


@pytest.fixture
def schemas(apicurio: Apicurio) -> Schemas:
    return Schemas(SchemaRegistry(apicurio.url))


def test_records_of_two_versions_come_as_the_newest_among_bad_ones(
    spark: SparkSession, producer: Producer, schemas: Schemas
) -> None:
    old, new = (
        *producer.avro(ORDER, {"id": 1, "old": "x"}),
        *producer.avro(NEWER, {"id": 2, "note": "n"}),
    )
    huge = new[:5] + b"\x04\x02\xfe\xff\xff\xff\x0f"  # a string of 2 GB, by its own word
    values = [old, new[:-1], new, new + b"\0", None, b"\1" + new[1:], b"\0\0", b"", huge]
    unknown = [framed(2**31 - 1, b"x"), framed(2**32 - 1, b"x")]
    rows = typed(rows_of(spark, [*values, *unknown]), value=schemas.value_of(producer.topic))
    number = int.from_bytes(new[1:5], "big")
    misfit = f"the bytes do not fit Avro schema {number}"
    not_known = f"is not known for subject {producer.topic}-value"
    no_id = "no schema id: the first byte is not 0"
    short = "fewer than 5 bytes: no schema id"

    def bad(content: bytes, reason: str, schema_id: int | None = number) -> tuple[None, Any]:
        return (None, {"value": {"schemaId": schema_id, "reason": reason, "bytes": content}})

    got = [
        (value, stated and {"value": {**stated["value"], "bytes": bytes(stated["value"]["bytes"])}})
        for value, stated in collected(rows, "value", "undecoded")
    ]
    assert got == [
        ({"id": 1, "note": None}, None),
        bad(new[:-1], misfit),
        ({"id": 2, "note": "n"}, None),
        bad(new + b"\0", misfit),
        (None, None),
        bad(b"\1" + new[1:], no_id, None),
        bad(b"\0\0", short, None),
        bad(b"", short, None),
        bad(huge, misfit),
        bad(unknown[0], f"schema id {2**31 - 1} {not_known}", 2**31 - 1),
        bad(unknown[1], f"schema id {2**32 - 1} {not_known}", 2**32 - 1),
    ]
    assert rows.columns == ["key", "value", "topic", "partition", "offset", "undecoded"]


def test_a_record_of_nulls_alone_is_decoded(
    spark: SparkSession, producer: Producer, schemas: Schemas
) -> None:
    schema = {**NEWER, "fields": [NEWER["fields"][1]]}
    rows = typed(
        rows_of(spark, producer.avro(schema, {"note": None})),
        value=schemas.value_of(producer.topic),
    )
    assert collected(rows, "value", "undecoded") == [({"note": None}, None)]


def test_json_by_a_registered_schema_among_bad_records(
    spark: SparkSession, producer: Producer, schemas: Schemas
) -> None:
    (good,) = producer.json(CLICK, {"id": 5, "at": "2026-01-02T03:04:05.123456Z", "tags": ["a"]})
    header = good[:5]
    texts = {
        b'{"id": "x"}': "does not fit",
        b'{"id": 1.5}': "does not fit",
        b'{"id": 99999999999999999999}': "does not fit",
        b'{"id": 1, "at": "yesterday"}': "does not fit",
        b"{'id': 1}": "does not fit",
        b"1],[2": "does not fit",
        b'{"id": 1}, {"id": 2}': "not one JSON value",
        b'{"id": 1},"value":{"id":2}': "not one JSON value",
        b'{"id": 1} 7': "not one JSON value",
        b'{"id": 1': "not one JSON value",
        b"[" * 5000: "not one JSON value",
        b"": "not one JSON value",
        b'{"id": "\xff"}': "not UTF-8",
    }
    values = [good, *(header + text for text in texts), header + b"null", header + b'{"b": [1]} ']
    rows = typed(rows_of(spark, values), value=schemas.value_of(producer.topic))
    first, *bad, null, sparse = collected(rows, "value", "undecoded.value.reason")
    assert first[0]["id"] == 5
    assert first[0]["tags"] == ["a"]
    at = rows.where("offset = 0").selectExpr("CAST(value.at AS STRING)").collect()
    assert at[0][0] == "2026-01-02 03:04:05.123456"
    for (value, reason), (text, expected) in zip(bad, texts.items(), strict=True):
        assert value is None, text
        assert expected in reason, text
    assert null == (None, None)
    assert sparse == ({"id": None, "at": None, "tags": None}, None)
    # One field of a bad record is as null as all of it, whatever Spark leaves out of its plan.
    assert {row[0] for row in collected(rows.where("offset between 1 and 13"), "value.id")} == {
        None
    }


@pytest.mark.parametrize("stated", ["id BIGINT, at TIMESTAMP", CLICK], ids=["ddl", "json-schema"])
def test_json_without_a_registry(spark: SparkSession, stated: JsonType) -> None:
    rows = typed(rows_of(spark, [b'{"id": 7}', b'{"id": []}', None]), value=stated)
    assert collected(rows, "value.id", "undecoded.value.reason") == [
        (7, None),
        (None, "the JSON value does not fit the schema"),
        (None, None),
    ]


def test_key_and_value_are_decoded_each_by_its_own_schema(spark: SparkSession) -> None:
    by_avro = subject({4: "long"})
    rows = rows_of(spark, [b'{"id": 1}', b"{", b'{"id": 2}'], [framed(4, b"\x0a"), b"", None])
    got = collected(
        typed(rows, key=by_avro, value="id INT"), "key", "value", "undecoded.key", "undecoded.value"
    )
    assert [row[:2] for row in got] == [(5, {"id": 1}), (None, None), (None, {"id": 2})]
    assert [[each and each["reason"] for each in row[2:]] for row in got] == [
        [None, None],
        ["fewer than 5 bytes: no schema id", "the text is not one JSON value"],
        [None, None],
    ]


def test_a_bad_record_fails_the_job_when_asked_to(spark: SparkSession) -> None:
    rows = rows_of(spark, [b"{}", b"{"])
    message = "The value of offset 1 of orders-0 cannot be decoded: the text is not one JSON value"
    with pytest.raises(PySparkException, match=message):
        typed(rows, value="id INT", on_error="fail").collect()
    good = typed(rows.where("offset = 0"), value="id INT", on_error="fail")
    assert collected(good, "value") == [({"id": None},)]


def test_schemas_that_refer_to_others(
    spark: SparkSession, producer: Producer, schemas: Schemas
) -> None:
    name = f"inner-{uuid4().hex}"
    producer.client.register_schema(
        name, Schema(json.dumps({**NEWER, "namespace": "shop"}), "AVRO")
    )
    outer = {
        "type": "record",
        "name": "Pair",
        "namespace": "shop",
        "fields": [{"name": "a", "type": "Order"}, {"name": "b", "type": "shop.Order"}],
    }
    refers = Schema(json.dumps(outer), "AVRO", [SchemaReference("shop.Order", name, 1)])
    write = avro_serializer(producer.client, refers)
    context = SerializationContext(producer.topic, MessageField.VALUE)
    value = {"a": {"id": 1, "note": None}, "b": {"id": 2, "note": "x"}}
    rows = rows_of(spark, [bytes_of(write(value, context))])
    assert collected(typed(rows, value=schemas.value_of(producer.topic)), "value") == [(value,)]


def test_a_file_of_schemas_decodes_without_the_registry(
    spark: SparkSession, producer: Producer, schemas: Schemas, tmp_path: Path
) -> None:
    rows = rows_of(spark, producer.avro(ORDER, {"id": 1, "old": "x"}))
    schemas.value_of(producer.topic)
    file = str(tmp_path / "schemas.json")
    schemas.save(file)
    kept = Schemas.of_file(file)
    assert kept.value_of(producer.topic) == schemas.value_of(producer.topic)
    assert collected(typed(rows, value=kept.value_of(producer.topic)), "value.id") == [(1,)]
    with pytest.raises(SchemaError, match="has no subject 'other-value'"):
        kept.value_of("other")


def test_each_micro_batch_of_a_stream_has_the_schemas_of_its_moment(
    spark: SparkSession, producer: Producer, schemas: Schemas, tmp_path: Path
) -> None:
    def put(name: str, values: list[bytes]) -> None:
        rows_of(spark, values).coalesce(1).write.parquet(str(tmp_path / "in" / name))

    def run(act: Callable[[DataFrame], None]) -> None:
        source = spark.readStream.schema(rows_of(spark, []).schema).parquet(str(tmp_path / "in/*"))

        def refreshed(batch: DataFrame, _number: int) -> None:
            schemas.refresh()
            act(typed(batch, value=schemas.value_of(producer.topic)))

        query = source.writeStream.foreachBatch(refreshed)
        started = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert started.trigger(availableNow=True).start().awaitTermination(120)

    batches: list[list[tuple[Any, ...]]] = []

    def keep(batch: DataFrame) -> None:
        batches.append(collected(batch, "value", "undecoded"))

    put("1", producer.avro(ORDER, {"id": 1, "old": "x"}))
    run(keep)
    put("2", producer.avro(NEWER, {"id": 2, "note": "n"}))
    run(keep)
    assert batches == [[({"id": 1, "old": "x"}, None)], [({"id": 2, "note": "n"}, None)]]


def test_a_stream_is_typed_like_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows_of(spark, [b'{"id": 1}', b"{"]).coalesce(1).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(rows_of(spark, []).schema).parquet(str(tmp_path / "in"))
    writing = typed(source, value="id INT").writeStream.format("parquet")
    options = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = options.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(120)
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert collected(rows, "value.id", "undecoded.value.reason") == [
        (1, None),
        (None, "the text is not one JSON value"),
    ]


def test_what_cannot_be_typed_is_refused(spark: SparkSession) -> None:
    rows = rows_of(spark, [])
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "needs a schema"),
        ({"value": "id INT", "on_error": "skip"}, "on_error is 'skip'"),
        ({"value": "id INTEGRAL"}, "is not a schema in DDL: .*INTEGRAL"),
        ({"value": {"type": "object", "oneOf": [{}, {}]}}, "has oneOf"),
    ]
    for options, message in refused:
        with pytest.raises(SchemaError, match=message):
            typed(rows, **options)
    with pytest.raises(SchemaError, match="no binary column 'value'"):
        typed(rows.drop("value"), value="id INT")
    with pytest.raises(SchemaError, match="'undecoded' already"):
        typed(typed(rows, key="id INT"), value="id INT")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([{"name": "a.b", "type": "int"}], "Illegal character in: a.b"),
        ([{"name": "a'; DROP TABLE x; --`", "type": "int"}], "Illegal character in: a'; DROP"),
        ([{"name": "a", "type": "int"}] * 2, "Duplicate field a"),
        ([{"name": "a", "type": ["int", "int"]}], "Duplicate in union"),
        ([{"name": "a", "type": "int", "order": "sideways"}], "SIDEWAYS"),
        (
            [{"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 1000}}],
            "precision 1000 exceeds max precision 38",
        ),
    ],
)
def test_an_avro_schema_that_avro_refuses_ends_with_one_sentence(
    spark: SparkSession, fields: list[object], message: str
) -> None:
    schema = {"type": "record", "name": "R", "fields": fields}
    with pytest.raises(SchemaError) as caught:
        typed(rows_of(spark, []), value=subject({1: schema}))
    assert str(caught.value).startswith("Spark cannot use the schema: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_of_any_name_stay(spark: SparkSession) -> None:
    rows = rows_of(spark, [b'{"id": 1}']).withColumnRenamed("topic", "a`b.c")
    typed_rows = typed(rows, value="id INT")
    assert typed_rows.columns[2] == "a`b.c"
    assert [row["a`b.c"] for row in typed_rows.collect()] == ["orders"]

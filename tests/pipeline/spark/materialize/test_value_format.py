"""Materialize with typed columns: JSON by a schema in a file, Avro and JSON by a registry."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.__main__ import main
from tierlog.spark import SchemaRegistry, Schemas
from tierlog.tests.pipeline.spark.materialize.lake import Lake
from tierlog.tests.pipeline.spark.typed.apicurio import Apicurio
from tierlog.tests.pipeline.spark.typed.producer import ORDER, Producer

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

KINDS = [pytest.param("iceberg", marks=pytest.mark.long), "delta"]
ORDER_WITH_A_NOTE: dict[str, Any] = {
    **ORDER,
    "fields": [
        ORDER["fields"][0],
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "date", "type": ["null", "string"], "default": None},
    ],
}
PLACE = {"type": "object", "properties": {"a-b": {"type": "number"}}}


@pytest.fixture
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, getattr(request, "param", "delta"), tmp_path)


def write_schema(lake: Lake, topic: str, **fields: object) -> tuple[str, ...]:
    """Write the JSON Schema of a topic's values; the words that name it."""
    folder = lake.tier.parent
    schema = {"type": "object", "properties": fields}
    (folder / f"{topic}.json").write_text(json.dumps(schema))
    return ("--value-format", "json", "--schemas", str(folder / "{topic}.json"))


def rows_of(lake: Lake, topic: str, *columns: str) -> list[tuple[object, ...]]:
    rows = lake.rows(topic).selectExpr("offset", *columns).orderBy("offset").collect()
    return [tuple(cast("Any", row)[1:]) for row in rows]


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_fields_become_columns_and_a_field_that_comes_later_becomes_another(lake: Lake) -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    lake.put_records("orders", 0, (None, b'{"id": 1, "old": "x"}'), (None, b"{"), (None, None))
    words = ("--topic", "orders", *write_schema(lake, "orders", id=number, old=text))
    assert lake.run(*words) == 0
    assert rows_of(lake, "orders", "id", "old", "CAST(value AS STRING)", "undecoded.reason") == [
        (1, "x", '{"id": 1, "old": "x"}', None),
        (None, None, "{", "the text is not one JSON value"),
        (None, None, None, None),
    ]
    # `date` is a column of every table, and `old` is no longer a field.
    write_schema(lake, "orders", id=number, date=text, place=PLACE)
    lake.put_records("orders", 3, (None, b'{"id": 2, "date": "today", "place": {"a-b": 0.5}}'))
    assert lake.run(*words) == 0
    columns = ("id", "old", "value_date", "place.`a-b`", "CAST(date AS STRING)")
    assert rows_of(lake, "orders", *columns)[::3] == [
        (1, "x", None, None, "1970-01-01"),
        (2, None, "today", 0.5, "1970-01-01"),
    ]


def test_a_field_of_another_type_fails_the_topic_in_one_sentence(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put_records("orders", 0, (None, b'{"id": 1}'))
    words = ("--topic", "orders", *write_schema(lake, "orders", id={"type": "integer"}))
    assert lake.run(*words) == 0
    write_schema(lake, "orders", id={"type": "string"})
    lake.put_records("orders", 1, (None, b'{"id": "2"}'))
    assert lake.run(*words) == 2
    assert "is bigint, and string in the rows that come now" in capsys.readouterr().out
    assert rows_of(lake, "orders", "id") == [(1,)]


def test_a_value_that_cannot_be_decoded_fails_its_topic_if_asked_to(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put_records("orders", 0, (None, b'{"id": 1}'), (None, b"{"))
    lake.put_records("refunds", 0, (None, b'{"id": 1}'))
    words = write_schema(lake, "orders", id={"type": "integer"})
    write_schema(lake, "refunds", id={"type": "integer"})
    topics = ("--topic", "orders", "--topic", "refunds", "--topic", "stock")
    assert lake.run(*topics, *words, "--on-undecodable", "fail") == 2
    printed = capsys.readouterr().out
    assert "orders: The value of offset 1 of orders-0 cannot be decoded: the text is not" in printed
    assert rows_of(lake, "orders", "id") == []
    assert rows_of(lake, "refunds", "id") == [(1,)]
    assert "undecoded" not in lake.rows("refunds").columns


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_with_upsert_the_newest_record_of_a_key_has_typed_columns(lake: Lake) -> None:
    number = {"type": "integer"}
    words = ("--topic", "orders", "--upsert", *write_schema(lake, "orders", id=number))
    lake.put_records("orders", 0, (b"a", b'{"id": 1}'), (b"b", b'{"id": 1}'), (b"c", b"{"))
    assert lake.run(*words) == 0
    write_schema(lake, "orders", note={"type": "string"})
    lake.put_records("orders", 3, (b"a", b'{"note": "n"}'), (b"b", None))
    assert lake.run(*words) == 0
    assert rows_of(lake, "orders", "CAST(key AS STRING)", "id", "note", "undecoded.reason") == [
        ("c", None, None, "the text is not one JSON value"),
        ("a", None, "n", None),
    ]


@pytest.mark.requires("mvn")
@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_a_newer_version_in_the_registry_gives_the_table_its_columns(
    lake: Lake, apicurio: Apicurio, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Producer(apicurio.url)
    topic = producer.topic
    name = topic.replace("-", "_") if lake.kind == "iceberg" else topic
    old = producer.avro(ORDER, {"id": 1, "old": "x"})[0]
    lake.put_records(topic, 0, (None, old), (None, b"\0\0"))
    registry = ("--schema-registry", apicurio.url)
    words = ("--topic", topic, "--value-format", "avro", *registry)
    assert lake.run(*words) == 0
    assert rows_of(lake, name, "id", "old") == [(1, "x"), (None, None)]
    new = producer.avro(ORDER_WITH_A_NOTE, {"id": 2, "note": "n", "date": "today"})[0]
    lake.put_records(topic, 2, (None, new), (None, old))
    assert lake.run(*words) == 0
    columns = ("id", "old", "note", "value_date", "undecoded.schemaId", "undecoded.reason")
    assert rows_of(lake, name, *columns) == [
        (1, "x", None, None, None, None),
        (None, None, None, None, None, "fewer than 5 bytes: no schema id"),
        (2, None, "n", "today", None, None),
        (1, None, None, None, None, None),
    ]
    assert lake.run("--topic", topic, "--value-format", "json-schema", *registry) == 2
    assert "are of type AVRO, and not of --value-format json-schema" in capsys.readouterr().out


@pytest.mark.requires("mvn")
def test_json_with_the_ids_of_a_registry_also_by_a_file_of_its_schemas(
    lake: Lake, apicurio: Apicurio
) -> None:
    producer = Producer(apicurio.url)
    topic, file = producer.topic, str(lake.tier.parent / "schemas.json")
    click = {"title": "Click", "type": "object", "properties": {"id": {"type": "integer"}}}
    for number, place in enumerate((("--schema-registry", apicurio.url), ("--schemas", file))):
        (value,) = producer.json(click, {"id": number})
        lake.put_records(topic, number, (None, value))
        schemas = Schemas(SchemaRegistry(apicurio.url))
        schemas.value_of(topic)
        schemas.save(file)
        assert lake.run("--topic", topic, "--value-format", "json-schema", *place) == 0
    assert rows_of(lake, topic, "id", "undecoded") == [(0, None), (1, None)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--schemas", "x"), "--schemas is of no use without --value-format."),
        (("--on-undecodable", "fail"), "--on-undecodable is of no use without --value-format."),
        (("--value-format", "json"), "--value-format json needs --schemas FILE, and no registry."),
        (("--value-format", "avro"), "needs either --schema-registry URL or --schemas FILE."),
        (("--value-format", "avro", "--schemas", "/nowhere"), "file of schemas cannot be read"),
        (
            ("--value-format", "avro", "--schema-registry", "ftp://x"),
            "is not the http or https URL of a schema registry",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    table = ["--format", "delta", "--table", str(tmp_path / "{topic}")]
    assert main(["materialize", "--tier", str(tmp_path), "--topic", "orders", *table, *words]) == 2
    assert reason in capsys.readouterr().err

"""Rows for typed columns, and subjects made without a registry."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession, functions as f

from tierlog.pipeline.spark.typed.registered_schema import RegisteredSchema, Subject, subject_of

SCHEMA = "key binary, value binary, topic string, partition int, offset long"


def rows_of(
    spark: SparkSession, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()
) -> DataFrame:
    """One row a value, with the columns of Kafka's source that a record has."""
    padded = [*keys, *[None] * (len(values) - len(keys))]
    records = [
        (key, value, "orders", 0, offset)
        for offset, (key, value) in enumerate(zip(padded, values, strict=True))
    ]
    return spark.createDataFrame(cast("Any", records), SCHEMA)


def collected(rows: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows by offset, as tuples of these columns; structs as dictionaries."""
    named = [f.col(name).alias(f"c{index}") for index, name in enumerate(columns)]
    stated = [row.asDict(recursive=True) for row in rows.select("offset", *named).collect()]
    in_order = sorted(stated, key=lambda row: row["offset"])
    return [tuple(row[f"c{index}"] for index in range(len(columns))) for row in in_order]


def subject(
    schemas: Mapping[int, object], kind: str = "AVRO", references: Mapping[str, str] | None = None
) -> Subject:
    """A subject, whose last schema is the newest."""
    made = {
        number: RegisteredSchema(number, kind, json.dumps(schema), references or {})
        for number, schema in schemas.items()
    }
    return subject_of("orders-value", max(made), made)


def framed(schema_id: int, payload: bytes) -> bytes:
    """A payload in the wire format of schema registries."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload

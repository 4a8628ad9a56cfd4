"""Typed access to Spark SQL: the arguments of PySpark's own `sql` are untyped."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from .export_state import ExportError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructField


class _Session(Protocol):
    def sql(self, sqlQuery: str) -> "DataFrame": ...


def query(spark: "SparkSession", statement: str) -> "DataFrame":
    """The result of a statement, as a DataFrame."""
    return cast("_Session", spark).sql(statement)


def execute(spark: "SparkSession", statement: str) -> "list[Row]":
    """Run a statement that returns few rows, and return them."""
    return query(spark, statement).collect()


@contextmanager
def session_settings(spark: "SparkSession", settings: Mapping[str, str]) -> Generator[None]:
    """Settings of the session while the context lasts; statements have no options of their own."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def add_missing_columns(
    spark: "SparkSession", table: str, there: "DataFrame", rows: "DataFrame"
) -> "DataFrame":
    """Add the columns of `rows` that the table lacks; `table` is its name in SQL.

    Returns the rows with those that only the table has, which are null. Raises ExportError if a
    column of both has another type in the rows than in the table.
    """
    from pyspark.sql.functions import lit
    from pyspark.sql.types import StructType

    held = {field.name.lower(): field for field in there.schema.fields}
    came = {field.name.lower(): field for field in rows.schema.fields}
    for name, field in came.items():
        if name in held and _type_of(held[name]) != _type_of(field):
            raise ExportError(
                f"The column {field.name} of {table} is {_type_of(held[name])}, and "
                f"{_type_of(field)} in the rows that come now: name another table."
            )
    missing = StructType([_nullable(field) for name, field in came.items() if name not in held])
    if missing.fields:
        execute(spark, f"ALTER TABLE {table} ADD COLUMNS ({missing.toDDL()})")
    others = {
        field.name: lit(None).cast(field.dataType)
        for name, field in held.items()
        if name not in came
    }
    return rows.withColumns(others) if others else rows


def _type_of(field: "StructField") -> str:
    return field.dataType.simpleString()


def _nullable(field: "StructField") -> "StructField":
    """The field as a column that rows without it can have, as deep as it goes."""
    from pyspark.sql.types import StructField

    text = field.json()
    for name in ("nullable", "containsNull", "valueContainsNull"):
        text = text.replace(f'"{name}":false', f'"{name}":true')
    return StructField.fromJson(json.loads(text))

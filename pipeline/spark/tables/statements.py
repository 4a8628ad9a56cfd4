"""Typed access to Spark SQL: the arguments of PySpark's own `sql` are untyped."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


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
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def add_missing_columns(
    spark: "SparkSession", table: str, there: "DataFrame", rows: "DataFrame"
) -> None:
    """Add the columns of `rows` that the table lacks; `table` is its name in SQL."""
    names = {name.lower() for name in there.columns}
    missing = ", ".join(
        f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}"
        for field in rows.schema.fields
        if field.name.lower() not in names
    )
    if missing:
        execute(spark, f"ALTER TABLE {table} ADD COLUMNS ({missing})")

"""Typed access to Spark SQL: the arguments of PySpark's own `sql` are untyped."""

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

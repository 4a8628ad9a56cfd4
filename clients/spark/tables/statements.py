"""Spark's SQL with types: the arguments of PySpark's own `sql` are untyped."""

from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


class _Session(Protocol):
    def sql(self, sqlQuery: str) -> "DataFrame": ...


def query(spark: "SparkSession", statement: str) -> "DataFrame":
    """What a statement gives."""
    return cast("_Session", spark).sql(statement)


def execute(spark: "SparkSession", statement: str) -> "list[Row]":
    """Run a statement; its rows, which are few."""
    return query(spark, statement).collect()

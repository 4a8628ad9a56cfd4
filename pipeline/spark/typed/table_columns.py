"""The fields of a decoded value as columns of a table, beside those that Kafka's rows have.

The raw `value` stays. A field has its own name, or `value_` before it if Kafka's rows have a column
of that name. A value that is no record is the one column `decoded`. What cannot be decoded is null
in all of them, and the column `undecoded` has the schema id and the reason.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame, functions as f
from pyspark.sql.types import StructType

from .registered_schema import SchemaError, Subject
from .typed_columns import FAIL, UNDECODED, JsonType, typed

DECODED = "decoded"
_RAW = "tierlog_raw_value"
_FROM_VALUE = "value_"


def with_value_columns(
    rows: DataFrame, schema: Subject | JsonType, more_columns: Collection[str], *, on_error: str
) -> DataFrame:
    """The rows with a column for each field of their values.

    Args:
        rows: rows of Kafka's columns.
        schema: how values are decoded; see `typed`.
        more_columns: columns that the table has beside those of the rows.
        on_error: "undecoded", or "fail": then there is no column `undecoded`, and the first record
            that cannot be decoded fails the query.

    Raises:
        SchemaError: the schema cannot be used, or two fields would be one column.
    """
    decoded = typed(rows.withColumn(_RAW, f.col("value")), value=schema, on_error=on_error)
    reserved = {name.lower() for name in (*rows.columns, *more_columns, UNDECODED)}
    data_type = decoded.schema["value"].dataType
    names = data_type.names if isinstance(data_type, StructType) else None
    columns = [
        f.col(_RAW).alias("value") if name == "value" else f.col(name) for name in rows.columns
    ]
    if names is None:
        columns.append(f.col("value").alias(DECODED))
    for name, column in _column_names(names or (), reserved).items():
        columns.append(f.col("value").getField(name).alias(column))
    if on_error != FAIL:
        failure = f.col(UNDECODED).getField("value")
        stated = f.struct(
            failure.getField("schemaId").alias("schemaId"),
            failure.getField("reason").alias("reason"),
        )
        columns.append(f.when(failure.isNotNull(), stated).alias(UNDECODED))
    return decoded.select(*columns)


def _column_names(fields: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    """The column of each field. Raises SchemaError if tables would take two for one."""
    columns: dict[str, str] = {}
    fields_by_column: dict[str, str] = {}
    for name in fields:
        column = f"{_FROM_VALUE}{name}" if name.lower() in reserved else name
        other = fields_by_column.setdefault(column.lower(), name)
        if other != name:
            raise SchemaError(
                f"The fields {other!r} and {name!r} of the schema would be one column: tables "
                "ignore case"
            )
        columns[name] = column
    return columns

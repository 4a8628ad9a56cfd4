"""`typed`: the key and the value of Kafka's rows as columns of a schema.

    orders = typed(rows, value=schemas.value_of("orders"))
    orders.select("offset", "value.id").where("undecoded IS NULL")

Works on batches and streams, of `format("tierlog")` and of Spark's Kafka source. In a stream the
schemas are those of its start: a record with a newer id is undecoded until the query is started
again. In `foreachBatch`, `Schemas.refresh` before `typed` gives each micro-batch the newest ones.
"""

import warnings
from collections.abc import Mapping
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions as f
from pyspark.sql.types import DataType, StructType

from ..known_jars import AVRO_LIMITS
from .decoding import Decoder, PlainJson, Registered
from .json_schema import spark_type
from .registered_schema import AVRO, SchemaError, Subject

UNDECODED = "undecoded"
FAIL = "fail"
_ATTEMPT = "tierlog_attempt_"

JsonType = str | DataType | Mapping[str, object]
"""The type of JSON texts: a DDL string of Spark, one of its types, or a JSON Schema."""


def typed(
    rows: DataFrame,
    *,
    value: Subject | JsonType | None = None,
    key: Subject | JsonType | None = None,
    on_error: str = UNDECODED,
) -> DataFrame:
    """Rows whose `value`, `key` or both are decoded, with a column `undecoded` behind the others.

    A null stays null. What cannot be decoded is null too, and then `undecoded` is not: it is a
    struct with a field for each decoded column, of the schema id, the reason and the bytes.

    Args:
        rows: a batch or stream with the binary columns `key`, `value` or both.
        value: how values are decoded: by a subject of a schema registry, whose records begin with
            a schema id, or as JSON texts of a type.
        key: the same for keys.
        on_error: "undecoded", or "fail": then the first such record fails a query that reads its
            column.

    Raises:
        SchemaError: a schema cannot be used, a column is missing, or Spark lacks the jars.
    """
    if on_error not in (UNDECODED, FAIL):
        raise SchemaError(f"on_error is {on_error!r}, and not 'undecoded' or 'fail'")
    stated = {"key": key, "value": value}
    decoders = {name: _decoder(each) for name, each in stated.items() if each is not None}
    if not decoders:
        raise SchemaError("typed needs a schema for the value or for the key")
    _check_columns(rows, decoders)
    if any(isinstance(each, Subject) and each.newest.kind == AVRO for each in stated.values()):
        limit_avro(rows)
    try:
        attempts = rows.withColumns(
            {_ATTEMPT + name: each.attempt(f.col(name)) for name, each in decoders.items()}
        )
        return attempts.select(*_columns(rows, decoders, on_error))
    except (PySparkException, Py4JJavaError) as error:
        # What Avro itself says of a schema comes as it is, not as one of Spark's errors.
        if "AVRO_NOT_LOADED" in str(error):
            raise SchemaError(
                "Spark lacks the jar for Avro: use spark_session(jars=('avro', …)), or spark-submit"
                ' --jars "$(tierlog-spark jars avro)"'
            ) from None
        raise SchemaError(f"Spark cannot use the schema: {_first_line(error)}") from None


def limit_avro(rows: DataFrame) -> None:
    """Lower the lengths that Avro allocates on a record's word; see the top of `decoding.py`.

    On one machine this sets them. On a cluster it warns if the executors lack the setting, which
    `spark_session(jars=("avro",))` gives them.
    """
    context = cast("Any", rows.sparkSession.sparkContext)
    if context.master.startswith("local"):
        system = context._jvm.java.lang.System
        for name, limit in AVRO_LIMITS.items():
            if system.getProperty(name) is None:
                system.setProperty(name, str(limit))
        return
    options = context.getConf().get("spark.executor.extraJavaOptions", "")
    if missing := [name for name in AVRO_LIMITS if name not in options]:
        flags = " ".join(f"-D{name}={AVRO_LIMITS[name]}" for name in missing)
        warnings.warn(
            "A malformed Avro record may end executors by its size alone: add to "
            f"spark.executor.extraJavaOptions {flags}",
            stacklevel=3,
        )


def _decoder(stated: Subject | JsonType) -> Decoder:
    if isinstance(stated, Subject):
        return Registered(stated)
    if isinstance(stated, DataType):
        return PlainJson(stated)
    if isinstance(stated, str):
        try:
            return PlainJson(StructType.fromDDL(stated))
        except Exception as error:
            raise SchemaError(f"{stated!r} is not a schema in DDL: {_first_line(error)}") from None
    return PlainJson(spark_type(stated))


def _check_columns(rows: DataFrame, decoders: Mapping[str, Decoder]) -> None:
    types = dict(rows.dtypes)
    for name in decoders:
        if types.get(name) != "binary":
            raise SchemaError(f"The rows have no binary column {name!r} to decode")
    if UNDECODED in types:
        raise SchemaError("The rows have a column 'undecoded' already")


def _columns(rows: DataFrame, decoders: Mapping[str, Decoder], on_error: str) -> list[Column]:
    reasons = {
        name: f.when(f.col(name).isNotNull(), each.reason(f.col(name), f.col(_ATTEMPT + name)))
        for name, each in decoders.items()
    }
    columns: list[Column] = []
    for name in rows.columns:
        if name not in decoders:
            quoted = name.replace("`", "``")
            columns.append(f.col(f"`{quoted}`"))
            continue
        value = decoders[name].value(f.col(_ATTEMPT + name))
        reason = reasons[name]
        good = f.when(reason.isNull(), value)
        if on_error == FAIL:
            message = f.concat(f.lit(f"The {name} of "), _place(rows), reason)
            good = f.when(reason.isNotNull(), f.raise_error(message)).otherwise(value)
        columns.append(good.alias(name))
    failures = [
        f.when(
            reason.isNotNull(),
            f.struct(
                decoders[name].schema_id(f.col(name)).alias("schemaId"),
                reason.alias("reason"),
                f.col(name).alias("bytes"),
            ),
        ).alias(name)
        for name, reason in reasons.items()
    ]
    is_any = f.coalesce(*reasons.values()).isNotNull()
    return [*columns, f.when(is_any, f.struct(*failures)).alias(UNDECODED)]


def _place(rows: DataFrame) -> Column:
    """Which record it is, as far as the rows say so."""
    cannot = f.lit(" cannot be decoded: ")
    if not {"topic", "partition", "offset"}.issubset(rows.columns):
        return f.concat(f.lit("a record"), cannot)
    partition, offset = f.col("partition").cast("string"), f.col("offset").cast("string")
    return f.concat(f.lit("offset "), offset, f.lit(" of "), "topic", f.lit("-"), partition, cannot)


def _first_line(error: Exception) -> str:
    said = str(error)
    if isinstance(error, Py4JJavaError):
        said = str(cast("Any", error).java_exception.getMessage())
    # Spark's errors of parsing begin with an empty line.
    return said.strip().partition("\n")[0][:300]

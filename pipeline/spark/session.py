"""Creates a Spark session with the jars and settings that the jobs and the connector need.

The jar versions match the installed PySpark (`jars.py`). The workers run this same interpreter,
unless PYSPARK_PYTHON names another. Spark's own default is the first `python3` on the PATH, which
may lack this package.

    with_kafka = spark_session("counts")                       # local[*], Spark's Kafka connector
    with_tables = spark_session("export", jars=("iceberg", "delta"), warehouse="/data/lake")

With Iceberg's jar and a warehouse, the session has an Iceberg catalog named `lake`, whose tables
are below the warehouse.
Other catalogs can be configured in `settings`.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from ...clients.runtime.supported_system import refusal
from ..extra import missing_extra

if (_sentence := refusal()) is not None:
    raise ImportError(_sentence)

from .jars import DELTA, ICEBERG, KAFKA, jar_paths, java_command

try:
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

CATALOG = "lake"
"""The name of the Iceberg catalog in a warehouse."""

_EXTENSIONS = {
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
}

# Settings for a small driver: no web UI, few shuffle partitions (Delta's default is 50 even
# for a tiny log), and timestamps in UTC on every machine.
_USUAL = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the jobs show progress (watching.py)
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_session(
    app_name: str = "tierlog",
    *,
    master: str | None = None,
    jars: Sequence[str] = (KAFKA,),
    warehouse: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, created if there is none yet.

    Args:
        app_name: the name that a cluster shows.
        master: where Spark runs; by default `local[*]`, or the master of spark-submit.
        jars: the kinds of jars to add: "kafka", "iceberg", "delta".
        warehouse: the path or URL of the tables of the Iceberg catalog `lake`.
        settings: Spark's own settings, which override everything here.

    Raises:
        KafkaError: INVALID_CONFIG, if Java, PySpark or a jar is not available.
    """
    java_command()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    stated = {"spark.app.name": app_name, **_USUAL}
    # spark-submit has set the master already.
    where = master or (None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]")
    if where is not None:
        stated |= {"spark.master": where} | (_LOCAL if where.startswith("local") else {})
    stated |= _table_settings(jars, warehouse)
    files = jar_paths(jars)
    if files:
        stated["spark.jars"] = ",".join(files)
    stated |= settings or {}
    return SparkSession.builder.config(map=dict(stated)).getOrCreate()


def _table_settings(jars: Sequence[str], warehouse: str | None) -> dict[str, str]:
    stated: dict[str, str] = {}
    extensions = [_EXTENSIONS[kind] for kind in jars if kind in _EXTENSIONS]
    if extensions:
        stated["spark.sql.extensions"] = ",".join(extensions)
    if DELTA in jars:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        stated["spark.sql.catalog.spark_catalog"] = catalog
    if ICEBERG in jars and warehouse is not None:
        prefix = f"spark.sql.catalog.{CATALOG}"
        stated[prefix] = "org.apache.iceberg.spark.SparkCatalog"
        stated[f"{prefix}.type"] = "hadoop"
        stated[f"{prefix}.warehouse"] = warehouse
    return stated

"""A Spark session that has what the jobs and the connector need.

The jars come in versions that match the installed PySpark (`jars.py`). The workers run this very
interpreter, unless PYSPARK_PYTHON says otherwise: left alone, they would take whichever `python3`
is first on the PATH, without this package.

    with_kafka = spark_session("counts")                       # local[*], Spark's Kafka connector
    with_tables = spark_session("export", jars=("iceberg", "delta"), warehouse="/data/lake")

With a warehouse there is an Iceberg catalog by the name of `lake` whose tables live below it.
Other catalogs are Spark's business: give their settings in `settings`.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from .extra import missing_extra
from .jars import DELTA, ICEBERG, KAFKA, jar_paths, java_command

try:
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

CATALOG = "lake"
"""The Iceberg catalog that a warehouse gives."""

_EXTENSIONS = {
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
}

# A driver that is asked little: no page to watch it by, no more shuffle partitions than it has work
# for (Delta's are 50 for the smallest of its logs), and times that mean the same on every machine.
_USUAL = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # jobs show their own (watching.py)
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.python.filterPushdown.enabled": "true",
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
    """The session, or the one that this process has already.

    Args:
        app_name: what a cluster shows.
        master: where it runs; `local[*]`, or the master of spark-submit, if it is not set.
        jars: which jars it needs: "kafka", "iceberg", "delta".
        warehouse: where the Iceberg catalog `lake` keeps its tables, a path or URL.
        settings: Spark's own settings, which win over everything here.

    Raises:
        KafkaError: INVALID_CONFIG, where Java, PySpark or a jar is not to be had.
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

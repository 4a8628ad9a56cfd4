"""Creates a Spark session with the jars and settings that the jobs and the connector need.

The jar versions match the installed PySpark (`jars.py`). The workers run this same interpreter,
unless PYSPARK_PYTHON names another. Spark's own default is the first `python3` on the PATH, which
may lack this package.

    with_kafka = spark_session("counts")                       # local[*], Spark's Kafka connector
    with_tables = spark_session("export", jars=("iceberg", "delta"), warehouse="/data/lake")

With Iceberg's jar and a warehouse, the session has an Iceberg catalog named `lake`, whose tables
are below the warehouse.
Other catalogs can be configured in `settings`.

`spark-submit` starts the driver's JVM before this code runs, so its jars come with the command:

    spark-submit --jars "$(tierlog-spark jars iceberg delta)" job.py
"""

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.supported_system import refusal as system_refusal
from ..extra import missing_extra

if (_message := system_refusal()) is not None:
    raise ImportError(_message)

from .jars import jar_paths, java_command
from .known_jars import (
    ABFS,
    AVRO,
    AVRO_LIMITS,
    CATALOGS,
    DELTA,
    GCS,
    ICEBERG,
    ICEBERG_AWS,
    KAFKA,
    S3,
    check_together,
    refusal,
    unknown_kind,
)
from .store_settings import REDACTED

try:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

CATALOG = "lake"
"""The name of the Iceberg catalog in a warehouse."""

_URIS = {"rest": "http://catalog:8181", "jdbc": "jdbc:postgresql://database/iceberg"}

_EXTENSIONS = {
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
}

_MARKERS = {
    KAFKA: "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    ICEBERG: "org.apache.iceberg.spark.SparkCatalog",
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    AVRO: "org.apache.spark.sql.avro.AvroDataToCatalyst",
    S3: "org.apache.hadoop.fs.s3a.S3AFileSystem",
    # A class of that bundle which the modules of `s3` lack.
    ICEBERG_AWS: "software.amazon.awssdk.s3accessgrants.plugin.S3AccessGrantsPlugin",
    GCS: "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    ABFS: "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
}
"""A class of each kind of jar."""

_FILE_SYSTEMS = {
    # Hadoop itself knows S3A by s3a:// only; the tier's URLs begin with s3://.
    S3: {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    },
    GCS: {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": (
            "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS"
        ),
    },
}
_LISTS = ("spark.jars", "spark.sql.extensions")
"""Settings to which the caller's own are added: to lose ours would lose the table format."""
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
"""So is this: ours keep Avro from ending executors. Java takes the last of two that differ."""

# Timestamps in UTC on every machine; the jobs show progress themselves (watching.py).
_USUAL = {
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": REDACTED,
}
# One machine: nothing but loopback listens, so no web UI, which would listen everywhere; and few
# shuffle partitions (Delta's default is 50 even for a tiny log). A cluster has Spark's defaults.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def spark_session(
    app_name: str = "tierlog",
    *,
    master: str | None = None,
    jars: Sequence[str] = (KAFKA,),
    warehouse: str | None = None,
    catalog: str = "hadoop",
    catalog_uri: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, created if there is none yet.

    Args:
        app_name: the name that a cluster shows.
        master: where Spark runs; by default `local[*]`, or the master of spark-submit.
        jars: the kinds of jars to add: "kafka", "iceberg", "delta", "avro" for typed columns, and
            for tables on object stores "s3", "gcs", "abfs", or "iceberg-aws" for Iceberg's own
            access to S3.
        warehouse: the path or URL of the tables of the Iceberg catalog `lake`; or what its REST
            server calls a warehouse.
        catalog: the type of that catalog, by Iceberg's name: "hadoop", "rest", "jdbc".
        catalog_uri: where a REST server or a database has the catalog.
        settings: Spark's own settings, which override everything here, except that `spark.jars`,
            `spark.sql.extensions` and the executors' Java options add to those of this session.

    Raises:
        KafkaError: INVALID_CONFIG, if Java, PySpark or a jar is not available, if two kinds of jars
            do not go together, or if spark-submit was started without the jars, other than Kafka's.
    """
    check_together(jars)
    java_command()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_submitted:
        _check_submitted(jars)
    # What the command line of spark-submit says counts more than what is usual here.
    submitted = dict(SparkConf().getAll()) if is_submitted else {}
    where = master or submitted.get("spark.master", "local[*]")
    usual = _USUAL | (_LOCAL if where.startswith("local") else {})
    stated = {name: value for name, value in usual.items() if name not in submitted}
    stated |= {"spark.app.name": app_name, "spark.master": where}
    stated |= _table_settings(jars)
    if ICEBERG in jars:
        stated |= catalog_settings(catalog, catalog_uri, warehouse)
    if not is_submitted and (files := jar_paths(jars)):
        stated["spark.jars"] = ",".join(files)
    if _EXECUTOR_OPTIONS in submitted:
        stated = overridden(stated, {_EXECUTOR_OPTIONS: submitted[_EXECUTOR_OPTIONS]})
    stated = overridden(stated, settings or {})
    return SparkSession.builder.config(map=dict(stated)).getOrCreate()


def overridden(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Our settings with the caller's, which count more; lists and Java options are joined."""
    joined = {
        name: ",".join(dict.fromkeys([*ours[name].split(","), *theirs[name].split(",")]))
        for name in _LISTS
        if ours.get(name) and theirs.get(name)
    }
    if _EXECUTOR_OPTIONS in ours and _EXECUTOR_OPTIONS in theirs:
        joined[_EXECUTOR_OPTIONS] = f"{ours[_EXECUTOR_OPTIONS]} {theirs[_EXECUTOR_OPTIONS]}"
    return {**ours, **theirs, **joined}


def set_hadoop(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set names of Hadoop's in a session that has not used the file system yet.

    Secrets come this way and not as Spark's settings, which PySpark puts on the command line of its
    JVM, where every user of the machine sees them.
    """
    configuration = cast("Any", spark.sparkContext)._jsc.hadoopConfiguration()
    for name, value in settings.items():
        configuration.set(name, value)


def stated_settings(spark: SparkSession) -> set[str]:
    """The names of the settings that Spark was given, on a command line or in its own file."""
    return {name for name, _ in spark.sparkContext.getConf().getAll()}


def _check_submitted(kinds: Sequence[str]) -> None:
    """Check that spark-submit's JVM has the jars: it takes none that are named later.

    The Kafka connector, which is wanted by default, may be missing: a job that only reads a tier
    does not need it.
    """
    for kind in kinds:
        if kind not in _MARKERS:
            raise unknown_kind(kind)
    # PySpark has no public way to that JVM before there is a session.
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]  # connects to it
    jvm = cast("Any", SparkContext._jvm)  # pyright: ignore[reportPrivateUsage]  # what is connected
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def is_there(name: str) -> bool:
        try:
            jvm.java.lang.Class.forName(name, False, loader)
        except Py4JJavaError:
            return False
        return True

    missing = [kind for kind in kinds if not is_there(_MARKERS[kind])]
    if not missing:
        return
    message = (
        f"spark-submit was started without the jars of {', '.join(missing)}; use"
        # All of them, as this command takes the place of one that may have named the others.
        f' spark-submit --jars "$(tierlog-spark jars {" ".join(kinds)})"'
    )
    if missing != [KAFKA]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    warnings.warn(f"Kafka topics cannot be read: {message}", stacklevel=3)


def _table_settings(jars: Sequence[str]) -> dict[str, str]:
    stated: dict[str, str] = {}
    for kind in jars:
        stated |= _FILE_SYSTEMS.get(kind, {})
    extensions = [_EXTENSIONS[kind] for kind in jars if kind in _EXTENSIONS]
    if extensions:
        stated["spark.sql.extensions"] = ",".join(extensions)
    if AVRO in jars:
        flags = " ".join(f"-D{name}={limit}" for name, limit in AVRO_LIMITS.items())
        stated[_EXECUTOR_OPTIONS] = flags
    if DELTA in jars:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        stated["spark.sql.catalog.spark_catalog"] = catalog
    return stated


def catalog_settings(kind: str, uri: str | None, warehouse: str | None) -> dict[str, str]:
    """The settings of the Iceberg catalog `lake`; none if the caller has it configured otherwise.

    Raises KafkaError(INVALID_CONFIG) if the type is unknown, or what it needs is missing.
    """
    if kind not in CATALOGS:
        raise refusal(f"no Iceberg catalog of type {kind!r} is known, only {', '.join(CATALOGS)}")
    if kind == "hadoop":
        if uri is not None:
            raise refusal("an Iceberg catalog of type hadoop has a warehouse and no URI")
        if warehouse is None:
            return {}
    elif uri is None:
        raise refusal(f"an Iceberg catalog of type {kind} needs a URI, such as {_URIS[kind]}")
    elif kind == "jdbc" and warehouse is None:
        raise refusal("an Iceberg catalog of type jdbc needs a warehouse, where its tables lie")
    prefix = f"spark.sql.catalog.{CATALOG}"
    stated = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.type": kind}
    if kind == "jdbc":
        # Spark looks for a view where there is no table, which the older schema refuses.
        stated[f"{prefix}.jdbc.schema-version"] = "V1"
    for name, value in (("uri", uri), ("warehouse", warehouse)):
        if value is not None:
            stated[f"{prefix}.{name}"] = value
    return stated

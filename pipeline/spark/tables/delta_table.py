"""A Delta table as the target of an export.

The offsets are in the commit's user metadata. The series is Delta's transaction application id
(`txnAppId`), and the commit number its `txnVersion`: Delta silently skips a write whose version is
not above the last one, and lets only one of two concurrent writers of the same version win. So
after each write the export checks that the latest commit is its own.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from .export_state import (
    PARTITIONED_BY,
    SCHEMA,
    Compaction,
    Exported,
    commit_conflict,
    rows_condition,
    what_it_holds,
)
from .hadoop_files import HadoopFiles
from .statements import add_missing_columns, execute, query, session_settings
from .upsert import upsert_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ....clients.topic_partition import TopicPartition
    from ...reading.scan_bounds import OffsetRange

_TARGET_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_SMALL_SIZE = "spark.databricks.delta.optimize.minFileSize"


class DeltaTable:
    """A Delta table; `name` is a path or URL that Spark can write."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self.name = name
        self._spark = spark
        self._run = uuid_to_string(SystemEnvironment().random_uuid())
        # In a statement Delta takes only a path for one that begins with a slash or a scheme.
        self._files = HadoopFiles(spark, name)
        self._quoted = "delta.`" + self._files.url("").replace("`", "``") + "`"

    def state(self) -> Exported | None:
        if not self._files.exists("_delta_log"):
            return None
        rows = self._spark.read.format("delta").load(self.name)
        return what_it_holds(self._saved_state(), rows, self.name)

    def _saved_state(self) -> str | None:
        """The state in the latest commit of an export; None if there is none."""
        newest = (
            query(self._spark, f"DESCRIBE HISTORY {self._quoted}")
            .where('userMetadata LIKE \'{"series":"tierlog-export%\'')
            .orderBy("version", ascending=False)
            .select("userMetadata")
            .head(1)
        )
        return str(newest[0][0]) if newest else None

    def create(self, *, is_upsert: bool = False) -> None:
        partitioned = "" if is_upsert else f"PARTITIONED BY ({', '.join(PARTITIONED_BY)})"
        execute(
            self._spark,
            f"CREATE TABLE IF NOT EXISTS {self._quoted} ({SCHEMA}) USING delta {partitioned}",
        )

    def add_columns(self, rows: "DataFrame") -> "DataFrame":
        there = self._spark.read.format("delta").load(self.name)
        return add_missing_columns(self._spark, self._quoted, there, rows)

    def append(self, rows: "DataFrame", after: Exported) -> None:
        text = after.to_json(self._run)
        with self._conflicts_named(after):
            (
                rows.write.format("delta")
                .mode("append")
                .option("txnAppId", after.series)
                .option("txnVersion", after.sequence)
                .option("userMetadata", text)
                .save(self.name)
            )
        if self._saved_state() != text:
            raise commit_conflict(self.name, after.sequence)

    def delete(self, ranges: "Mapping[TopicPartition, OffsetRange]", after: Exported) -> None:
        self._change(f"DELETE FROM {self._quoted} WHERE {rows_condition(ranges)}", after)

    def upsert(self, rows: "DataFrame", after: Exported) -> None:
        with upsert_statement(self._quoted, rows) as statement:
            self._change(statement, after)

    def _change(self, statement: str, after: Exported) -> None:
        """Run a statement that changes rows, in the commit of this state."""
        # What `append` states as options.
        settings = {
            "spark.databricks.delta.write.txnAppId": after.series,
            "spark.databricks.delta.write.txnVersion": str(after.sequence),
            "spark.databricks.delta.commitInfo.userMetadata": after.to_json(self._run),
        }
        with session_settings(self._spark, settings), self._conflicts_named(after):
            execute(self._spark, statement)
        # Delta makes no commit without a change.
        if self._saved_state() != after.to_json(self._run):
            none = self._spark.read.format("delta").load(self.name).limit(0)
            self.append(none, after)

    @contextmanager
    def _conflicts_named(self, after: Exported) -> Generator[None]:
        try:
            yield
        except PySparkException as error:
            if "CONCURRENT_TRANSACTION" in (error.getCondition() or ""):
                raise commit_conflict(self.name, after.sequence) from error
            raise

    def compact(self, small_bytes: int, *, dry_run: bool) -> Compaction:
        if dry_run:
            (detail,) = execute(self._spark, f"DESCRIBE DETAIL {self._quoted}")
            return Compaction(int(detail["numFiles"]), 0)
        settings = {_SMALL_SIZE: str(small_bytes), _TARGET_SIZE: str(small_bytes * 4)}
        with session_settings(self._spark, settings):
            (row,) = execute(self._spark, f"OPTIMIZE {self._quoted}")
        metrics = row["metrics"]
        return Compaction(int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"]))

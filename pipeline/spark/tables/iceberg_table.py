"""An Iceberg table as the target of an export.

A commit is first staged (Iceberg's write-audit-publish) under an id made of its series and number,
with the offsets as a snapshot property, and then published. Iceberg refuses to publish an id that
an ancestor of the current snapshot already has, whatever was committed meanwhile. A killed job's
staged snapshot is never published, and disappears when snapshots expire.

Other commits (rewritten files, deletions) may come in between, so the state is that of the latest
ancestor with offsets. If a staged snapshot is cherry-picked onto a newer one, the resulting
snapshot has no offsets itself, but names the staged one as its source, which has them.
"""

from typing import TYPE_CHECKING

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from .export_state import (
    PARTITIONED_BY,
    SCHEMA,
    Compaction,
    Exported,
    commit_conflict,
    refusal,
    what_it_holds,
)
from .statements import execute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE = "tierlog.exported"
_RUN = "tierlog.run"
_PROPERTIES = {
    "write.wap.enabled": "true",
    # A task reads neighbouring records of one partition, of few dates, so no shuffle is needed.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


class IcebergTable:
    """An Iceberg table; `name` is catalog.namespace.table, as in Spark SQL."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self.name = name
        self._spark = spark
        self._catalog, _, self._table = name.partition(".")
        if "." not in self._table:
            raise refusal(f"An Iceberg table is catalog.namespace.table: {name!r} is not.")
        self._run = uuid_to_string(SystemEnvironment().random_uuid())

    def state(self) -> Exported | None:
        if not self._spark.catalog.tableExists(self.name):
            return None
        rows = self._spark.table(self.name)
        return what_it_holds(self._saved_state(), rows, self.name)

    def _saved_state(self) -> str | None:
        """The state in the latest published commit of an export; None if there is none."""
        snapshots = {
            int(row[0]): dict(row[1])
            for row in execute(
                self._spark, f"SELECT snapshot_id, summary FROM {self.name}.snapshots"
            )
        }
        ancestors = execute(
            self._spark,
            f"SELECT snapshot_id FROM {self.name}.history WHERE is_current_ancestor "
            "ORDER BY made_current_at DESC",
        )
        for row in ancestors:
            summary = snapshots.get(int(row[0]), {})
            source = snapshots.get(int(summary.get("source-snapshot-id", 0)), {})
            text = summary.get(_STATE) or source.get(_STATE)
            if text is not None:
                return str(text)
        return None

    def create(self) -> None:
        namespace = self.name.rpartition(".")[0]
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
        execute(self._spark, f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        execute(
            self._spark,
            f"CREATE TABLE IF NOT EXISTS {self.name} ({SCHEMA}) USING iceberg "
            f"PARTITIONED BY ({', '.join(PARTITIONED_BY)}) TBLPROPERTIES ({properties})",
        )

    def append(self, rows: "DataFrame", after: Exported) -> None:
        wap_id = f"{after.series}-{after.sequence}"
        self._spark.conf.set("spark.wap.id", wap_id)
        try:
            (
                rows.writeTo(self.name)
                .option(f"snapshot-property.{_STATE}", after.to_json())
                .option(f"snapshot-property.{_RUN}", self._run)
                .append()
            )
            self._publish(wap_id)
        except Exception as error:
            # However Spark wraps the error, its text contains Iceberg's own message.
            if "wap id that was published already" in str(error):
                raise commit_conflict(self.name, after.sequence) from error
            raise
        finally:
            self._spark.conf.unset("spark.wap.id")

    def _publish(self, wap_id: str) -> None:
        (staged,) = execute(
            self._spark,
            f"SELECT snapshot_id FROM {self.name}.snapshots WHERE summary['wap.id'] = '{wap_id}' "
            f"AND summary['{_RUN}'] = '{self._run}' ORDER BY committed_at DESC LIMIT 1",
        )
        execute(
            self._spark,
            f"CALL {self._catalog}.system.cherrypick_snapshot('{self._table}', {int(staged[0])})",
        )

    def compact(self, small_bytes: int, *, dry_run: bool) -> Compaction:
        small = execute(
            self._spark,
            f"SELECT count(*) FROM {self.name}.files WHERE file_size_in_bytes < {small_bytes}",
        )
        if dry_run:
            return Compaction(int(small[0][0]), 0)
        (row,) = execute(
            self._spark,
            f"CALL {self._catalog}.system.rewrite_data_files(table => '{self._table}', options => "
            f"map('min-file-size-bytes', '{small_bytes}', 'min-input-files', '2', "
            f"'target-file-size-bytes', '{small_bytes * 4}', "
            f"'max-file-size-bytes', '{small_bytes * 8}'))",
        )
        return Compaction(
            int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])
        )

"""An Iceberg table as the target of an export.

A commit is first staged (Iceberg's write-audit-publish) under an id made of its series and number,
with the offsets as a snapshot property, and then published. Iceberg refuses to publish an id that
an ancestor of the current snapshot already has, whatever was committed meanwhile. A killed job's
staged snapshot is never published, and disappears when snapshots expire.

Other commits (rewritten files, deletions) may come in between, so the state is that of the latest
ancestor with offsets. If a staged snapshot is cherry-picked onto a newer one, the resulting
snapshot has no offsets itself, but names the staged one as its source, which has them.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from .export_state import (
    PARTITIONED_BY,
    SCHEMA,
    Compaction,
    Exported,
    commit_conflict,
    exported_from_json,
    refusal,
    rows_condition,
    what_it_holds,
)
from .statements import add_missing_columns, execute, session_settings
from .upsert import upsert_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ....clients.topic_partition import TopicPartition
    from ...reading.scan_bounds import OffsetRange

_STATE = "tierlog.exported"
_RUN = "tierlog.run"
_SNAPSHOT_SETTING = "spark.sql.iceberg.snapshot-property."
_CONFLICTS = (
    "wap id that was published already",
    # A change of rows is published only on top of the snapshot that it has read.
    "not append, dynamic overwrite, or fast-forward",
)
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

    def create(self, *, is_upsert: bool = False) -> None:
        partitioned = "" if is_upsert else f"PARTITIONED BY ({', '.join(PARTITIONED_BY)})"
        namespace = self.name.rpartition(".")[0]
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
        execute(self._spark, f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        execute(
            self._spark,
            f"CREATE TABLE IF NOT EXISTS {self.name} ({SCHEMA}) USING iceberg "
            f"{partitioned} TBLPROPERTIES ({properties})",
        )

    def add_columns(self, rows: "DataFrame") -> "DataFrame":
        return add_missing_columns(self._spark, self.name, self._spark.table(self.name), rows)

    def append(self, rows: "DataFrame", after: Exported) -> None:
        with self._staging(after):
            self._append(rows, after)

    def _append(self, rows: "DataFrame", after: Exported) -> None:
        (
            rows.writeTo(self.name)
            .option(f"snapshot-property.{_STATE}", after.to_json())
            .option(f"snapshot-property.{_RUN}", self._run)
            .append()
        )

    def delete(self, ranges: "Mapping[TopicPartition, OffsetRange]", after: Exported) -> None:
        # Iceberg does not stage a deletion of whole files; no condition on abs() selects those.
        condition = f"({rows_condition(ranges)}) AND abs(offset) >= 0"
        with self._staging(after):
            self._change(f"DELETE FROM {self.name} WHERE {condition}", after)

    def upsert(self, rows: "DataFrame", after: Exported) -> None:
        with self._staging(after), upsert_statement(self.name, rows) as statement:
            self._change(statement, after)

    def _change(self, statement: str, after: Exported) -> None:
        """Run a statement that changes rows, and stage the state with it."""
        properties = {_STATE: after.to_json(), _RUN: self._run}
        settings = {f"{_SNAPSHOT_SETTING}{name}": text for name, text in properties.items()}
        with session_settings(self._spark, settings):
            execute(self._spark, statement)
            if not self._staged(after):
                # Nothing has changed but the state.
                self._append(self._spark.table(self.name).limit(0), after)
        # Only appends are published by their number. A change is published on top of what it has
        # read or not at all, so it is enough that the commit before this one was that.
        before = self._saved_state()
        number = 0 if before is None else exported_from_json(before, self.name).sequence
        if number != after.sequence - 1:
            raise commit_conflict(self.name, after.sequence)

    @contextmanager
    def _staging(self, after: Exported) -> Generator[None]:
        """Stage what is written in this context, and publish it at its end."""
        with session_settings(self._spark, {"spark.wap.id": _wap_id(after)}):
            try:
                yield
                self._publish(after)
            except Exception as error:
                # However Spark wraps the error, its text contains Iceberg's own message.
                if any(words in str(error) for words in _CONFLICTS):
                    raise commit_conflict(self.name, after.sequence) from error
                raise

    def _publish(self, after: Exported) -> None:
        (staged,) = self._staged(after)
        execute(
            self._spark,
            f"CALL {self._catalog}.system.cherrypick_snapshot('{self._table}', {staged})",
        )

    def _staged(self, after: Exported) -> list[int]:
        """The snapshot that this run has staged for a commit, if it has."""
        staged = execute(
            self._spark,
            f"SELECT snapshot_id FROM {self.name}.snapshots "
            f"WHERE summary['wap.id'] = '{_wap_id(after)}' "
            f"AND summary['{_RUN}'] = '{self._run}' ORDER BY committed_at DESC LIMIT 1",
        )
        return [int(row[0]) for row in staged]

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


def _wap_id(after: Exported) -> str:
    return f"{after.series}-{after.sequence}"

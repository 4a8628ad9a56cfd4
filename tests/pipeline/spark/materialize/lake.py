"""Topics in a tier in a folder, and tables that `materialize` keeps of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.spark.__main__ import main
from tierlog.pipeline.spark.jobs.export import export_table
from tierlog.pipeline.spark.tables.export_state import Exported
from tierlog.tests.pipeline.spark.exports import rows_of, table_name
from tierlog.tests.tiering.tools.bucket import Bucket, History


def topic_partition(topic: str, *, again: bool = False) -> TopicIdPartition:
    """Partition 0 of a topic; `again` is the topic that came later under the same name."""
    text = f"{topic}{'/again' if again else ''}".encode()
    return TopicIdPartition(Uuid(text[:16].ljust(16, b".")), topic, 0)


class Lake:
    """A tier, and the tables of its topics in one format."""

    def __init__(self, spark: SparkSession, kind: str, directory: Path) -> None:
        self.spark = spark
        self.kind = kind
        self.tier = directory / "tier"
        self._tables = directory / "tables"
        self._namespace = directory.name.replace("-", "_")
        self._bucket = Bucket()
        self._segments = 0

    def put(
        self,
        topic: str,
        offsets: tuple[int, int],
        history: History = ((0, 0),),
        *,
        again: bool = False,
    ) -> None:
        """Add a segment of a topic to the tier."""
        self._segments += 1
        partition = topic_partition(topic, again=again)
        self._bucket.put(self._segments, offsets, history, partition=partition)
        self._bucket.write_to(self.tier)

    def put_records(
        self, topic: str, first: int, *records: tuple[bytes | None, bytes | None]
    ) -> None:
        """Add a segment of records with these keys and values."""
        self._segments += 1
        batch = build_batch(
            [
                Record(offset, offset * 10, key, value, ())
                for offset, (key, value) in enumerate(records, first)
            ],
            base_offset=first,
            leader_epoch=0,
        )
        self._bucket.put_log(self._segments, bytes(batch), partition=topic_partition(topic))
        self._bucket.write_to(self.tier)

    def drop(self, topic: str, first_offset: int) -> None:
        """Remove the segment of a topic that begins at this offset."""
        for key in list(self._bucket.objects):
            if key.startswith(f"{topic}-") and f"/{first_offset:020}-" in key:
                del self._bucket.objects[key]
                (self.tier / key).unlink()

    @property
    def template(self) -> str:
        if self.kind == "iceberg":
            return f"lake.{self._namespace}.{{topic}}"
        return table_name(self.kind, self._tables, "{topic}")

    def arguments(self, *words: str) -> list[str]:
        return [
            *("materialize", "--tier", str(self.tier), "--format", self.kind),
            *("--table", self.template, *words),
        ]

    def run(self, *words: str) -> int:
        """Run the job in this process; its exit code."""
        return main(self.arguments(*words))

    def state(self, name: str) -> Exported | None:
        goal = export_table(self.spark, self.kind, self.template.replace("{topic}", name))
        return goal.state()

    def rows(self, name: str) -> DataFrame:
        goal = export_table(self.spark, self.kind, self.template.replace("{topic}", name))
        return rows_of(self.spark, self.kind, goal)

    def values(self, name: str) -> Mapping[bytes, bytes]:
        """The value of each key of a table, in which no key is twice."""
        rows = self.rows(name).select("key", "value").collect()
        values = {bytes(row[0]): bytes(row[1]) for row in rows}
        assert len(values) == len(rows)
        return values

    def offsets(self, name: str) -> Sequence[int]:
        """The offsets in a table, with those that are there twice."""
        return sorted(int(row[0]) for row in self.rows(name).select("offset").collect())

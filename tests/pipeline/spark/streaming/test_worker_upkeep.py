"""What PySpark's worker does around each task costs it next to nothing after a scan's."""

import gc
import importlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.pipeline.spark.streaming.worker_upkeep import forget_spark_archives
from tierlog.tests.tiering.tools.bucket import Bucket

if TYPE_CHECKING:
    import pyarrow as pa

TASKS = 8
"""More than there are workers."""


def scanned(spark: SparkSession, place: Path) -> int:
    """How many rows there are; each worker has read some."""
    options = {"path": str(place), "topic": "orders", "maxPartitionBytes": "1"}
    rows = spark.read.format("tierlog").options(**options).load()
    assert rows.rdd.getNumPartitions() == TASKS
    return rows.count()


def worker_facts() -> "Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]":
    """What stands in a worker before a task, and what it can import meanwhile."""

    # Within another, for Spark to carry it whole to processes that have not this module.
    def facts_of_a_worker(batches: "Iterable[pa.RecordBatch]") -> "Iterable[pa.RecordBatch]":
        import pyarrow as arrow

        looked_through = [
            importer.archive
            for importer in sys.path_importer_cache.values()
            if isinstance(importer, zipimporter)
        ]
        facts = {
            "frozen": gc.get_freeze_count(),
            "looked_through": looked_through,
            "of_spark": importlib.import_module("pyspark.sql.merge").__file__,
            "of_users": importlib.import_module("brought_along").ANSWER,
        }
        for _ in batches:
            yield cast("Any", arrow).RecordBatch.from_pydict({"facts": [json.dumps(facts)]})

    return facts_of_a_worker


def test_archives_beside_sparks_home_are_not_sparks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    for folder in ("spark", "spark-jobs"):
        archive = tmp_path / folder / "some.zip"
        archive.parent.mkdir()
        with ZipFile(archive, "w") as made:
            made.writestr("some.py", "")
        monkeypatch.setitem(
            sys.path_importer_cache, str(archive), cast("Any", zipimporter)(str(archive))
        )
    forget_spark_archives()
    assert str(tmp_path / "spark" / "some.zip") not in sys.path_importer_cache
    assert str(tmp_path / "spark-jobs" / "some.zip") in sys.path_importer_cache


@pytest.mark.slow
@pytest.mark.requires("java")
def test_neither_modules_nor_archives_are_looked_through_with_each_task(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucket = Bucket()
    for number in range(TASKS):
        # A single batch, which no task shares.
        records = [Record(0, 0, None, b"%d" % offset) for offset in range(100)]
        batch = build_batch(records, base_offset=number * 100, leader_epoch=0)
        bucket.put_log(number + 1, bytes(batch))
    bucket.write_to(tmp_path)
    assert scanned(spark, tmp_path) == TASKS * 100
    assert scanned(spark, tmp_path) == TASKS * 100

    archive = tmp_path / "brought.zip"
    with ZipFile(archive, "w") as made:
        made.writestr("brought_along.py", "ANSWER = 42\n")
    spark.sparkContext.addPyFile(str(archive))
    rows = spark.range(TASKS, numPartitions=TASKS).mapInArrow(worker_facts(), "facts string")
    found = [json.loads(row.facts) for row in rows.collect()]
    assert {each["of_users"] for each in found} == {42}
    assert all("pyspark.zip" in each["of_spark"] for each in found)
    ours = [each for each in found if each["frozen"]]
    assert ours, "No worker has read of the tier before."
    assert not [path for each in ours for path in each["looked_through"] if "pyspark/" in path]

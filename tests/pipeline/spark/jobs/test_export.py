"""Exports: a table holds each record of the tier once, whatever happened to the job meanwhile."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.pipeline.spark.jobs.export import ExportSettings
from tierlog.pipeline.spark.tables import parquet_table
from tierlog.pipeline.spark.tables.export_state import NOTHING, Exported, ExportError
from tierlog.pipeline.spark.tables.hadoop_files import HadoopFiles
from tierlog.pipeline.spark.tables.iceberg_table import IcebergTable
from tierlog.pipeline.spark.tables.parquet_table import ParquetTable
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.tests.pipeline.spark.exports import (
    FORMATS,
    TieredTopic,
    assert_holds_each_once,
    bucket_for_tables,
    goal_of,
    rows_of,
    run_export,
    tiered_topic_of_two,
)
from tierlog.tiering.blocking_pool import ThreadedPool

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

# The other formats take their libraries and two minutes more.
KINDS = [
    kind if kind == "parquet" else pytest.param(kind, marks=pytest.mark.long) for kind in FORMATS
]

RACES = 50

PLACES = ["folder", pytest.param("s3", marks=pytest.mark.requires("go"))]


class KilledError(Exception):
    """The job ends here."""


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    with tiered_topic_of_two(tmp_path_factory.mktemp("exports"), "orders") as found:
        yield found


@pytest.fixture
def where(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path | str:
    """Below what tables are: a folder, or in a bucket if a test says so."""
    if getattr(request, "param", "folder") == "folder":
        return tmp_path
    return bucket_for_tables(spark, request.getfixturevalue("s3"))


@pytest.mark.parametrize("where", PLACES, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_brings_what_is_there_the_next_what_came_since_and_files_become_fewer(
    spark: SparkSession,
    topic: TieredTopic,
    where: Path | str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    goal = goal_of(spark, kind, where, "grows")
    run_export(spark, topic, goal, ExportSettings(dry_run=True))
    assert "dry run: " in capsys.readouterr().out
    assert goal.state() is None
    ends = run_export(spark, topic, goal, ExportSettings(records_per_commit=4000))
    assert_holds_each_once(rows_of(spark, kind, goal), ends)

    topic.produce_and_wait()
    later = run_export(spark, topic, goal)
    assert all(later[partition] > ends[partition] for partition in ends)
    rows = rows_of(spark, kind, goal)
    assert_holds_each_once(rows, later)
    days = rows.where("date <> to_date(timestamp)").count()
    assert days == 0
    (first,) = rows.where("partition = 1 AND offset = 7").select("headers", "topic").collect()
    assert (first["topic"], first["headers"][0]["value"]) == ("orders", b"7")

    done = goal.compact(16 << 20, dry_run=False)
    assert done.files_before > done.files_after > 0
    # The offsets are still known: nothing comes twice.
    capsys.readouterr()
    assert run_export(spark, topic, goal) == later
    assert "it holds all that" in capsys.readouterr().out
    assert_holds_each_once(rows_of(spark, kind, goal), later)


def ends_in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """While rows are written, a task of Spark's fails, and the job with it."""
    from tierlog.pipeline.spark.jobs import export

    whole = export.with_date

    def with_a_bad_row(rows: DataFrame) -> DataFrame:
        fails = "IF(partition = 1 AND offset % 1000 = 999, raise_error('killed'), value)"
        return (
            whole(rows)
            .selectExpr("*", f"{fails} AS other")
            .drop("value")
            .withColumnRenamed("other", "value")
        )

    monkeypatch.setattr(export, "with_date", with_a_bad_row)


def ends_before_it_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergTable, "_publish", _killed)


def ends_before_the_manifest_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HadoopFiles, "publish", _killed)


def ends_before_files_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParquetTable, "_move_files", _killed)


def ends_between_two_files(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = HadoopFiles.rename
    renamed: list[str] = []

    def rename(files: HadoopFiles, old: str, new: str) -> bool:
        renamed.append(new)
        if len(renamed) == 2:
            raise KilledError
        return plain(files, old, new)

    monkeypatch.setattr(HadoopFiles, "rename", rename)


def _killed(*_: object) -> None:
    raise KilledError


@pytest.mark.parametrize("where", PLACES, indirect=True)
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("delta", ends_in_a_task),
        ("iceberg", ends_before_it_publishes),
        ("parquet", ends_before_the_manifest_has_its_name),
        ("parquet", ends_before_files_are_moved),
        ("parquet", ends_between_two_files),
    ],
)
def test_a_job_that_ended_anywhere_is_simply_run_again(
    spark: SparkSession,
    topic: TieredTopic,
    where: Path | str,
    kind: str,
    end: Callable[[pytest.MonkeyPatch], None],
) -> None:
    name = end.__name__
    with pytest.MonkeyPatch.context() as monkeypatch:
        end(monkeypatch)
        with pytest.raises(Exception, match=r"killed|^$"):
            run_export(spark, topic, goal_of(spark, kind, where, name))
    goal = goal_of(spark, kind, where, name)
    ends = run_export(spark, topic, goal)
    assert_holds_each_once(rows_of(spark, kind, goal), ends)


@pytest.mark.parametrize(
    ("kind", "where"),
    # In S3 two jobs at once are not for Delta and for Iceberg without a server of its catalog.
    [*((kind, "folder") for kind in FORMATS), ("parquet", "s3")],
    indirect=["where"],
)
def test_of_two_jobs_at_once_the_second_is_refused(
    spark: SparkSession, topic: TieredTopic, where: Path | str, kind: str
) -> None:
    goal = goal_of(spark, kind, where, "contested")
    appends: list[Exported] = []

    class Overtaken:
        """The table, to which another job commits just before this one does."""

        def __getattr__(self, name: str) -> object:
            return getattr(goal, name)

        def append(self, rows: DataFrame, after: Exported) -> None:
            if not appends:
                appends.append(after)
                run_export(
                    spark,
                    topic,
                    goal_of(spark, kind, where, "contested"),
                    ExportSettings(1_000_000),
                )
            goal.append(rows, after)

    with pytest.raises(ExportError, match="Another export has committed"):
        run_export(spark, topic, cast("IcebergTable", Overtaken()))
    assert_holds_each_once(rows_of(spark, kind, goal), run_export(spark, topic, goal))


def test_a_table_that_has_forgotten_its_commits_goes_on_after_its_rows(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path
) -> None:
    goal = goal_of(spark, "iceberg", tmp_path, "forgetful")
    run_export(spark, topic, goal)
    execute(spark, f"DELETE FROM {goal.name} WHERE offset < 10")
    execute(
        spark,
        "CALL lake.system.expire_snapshots(table => 'exports.forgetful', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
    )
    topic.produce_and_wait()
    ends = run_export(spark, topic, goal)
    state = goal.state()
    assert state is not None
    assert state.series.startswith("tierlog-export-")
    rows = rows_of(spark, "iceberg", goal)
    assert rows.count() == rows.select("partition", "offset").distinct().count()
    assert rows.count() == sum(ends.values()) - 20


def test_a_job_that_was_overtaken_long_ago_is_refused_although_its_number_is_free(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_table, "_COMMITS_KEPT", 2)
    name = str(tmp_path / "overtaken")
    columns = ("'orders' AS topic", "DATE'2026-01-01' AS date", "0 AS partition")

    def commit(goal: ParquetTable, state: Exported) -> Exported:
        after = state.after({}, {}, {})
        goal.append(spark.range(1).selectExpr(*columns, f"{after.sequence} AS offset"), after)
        return after

    late, job = ParquetTable(spark, name), ParquetTable(spark, name)
    late.create()
    state = NOTHING
    for _ in range(4):
        state = commit(job, state)
    with pytest.raises(ExportError, match="Another export has committed"):
        commit(late, NOTHING)
    assert spark.read.parquet(name).count() == 4
    assert job.state() == state


def test_a_folder_of_somebody_elses_files_is_left_alone(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "foreign"))
    with pytest.raises(ExportError, match="foreign has files but no manifest"):
        run_export(spark, topic, goal_of(spark, "parquet", tmp_path, "foreign"))


def test_a_job_whose_request_was_repeated_and_found_its_own_commit_is_not_refused(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = HadoopFiles.publish

    def publish(files: HadoopFiles, old: str, new: str) -> bool:
        """S3 says that the name exists: the first answer was lost."""
        assert plain(files, old, new)
        return False

    monkeypatch.setattr(HadoopFiles, "publish", publish)
    goal = goal_of(spark, "parquet", tmp_path, "repeated")
    ends = run_export(spark, topic, goal)
    assert_holds_each_once(rows_of(spark, "parquet", goal), ends)


@pytest.mark.parametrize("where", PLACES, indirect=True)
def test_of_two_that_publish_under_one_name_one_wins(
    spark: SparkSession, where: Path | str
) -> None:
    files = HadoopFiles(spark, str(where))
    files.make_folder("names")

    async def both_publish(name: str) -> set[str]:
        """Who has won, by their own words."""
        for who in "ab":
            files.create(f"{name}{who}", who)
        calls = [partial(files.publish, f"{name}{who}", f"names/{name}") for who in "ab"]
        won = await asyncio.gather(*(pool.run(call) for call in calls))
        return {who for who, has_won in zip("ab", won, strict=True) if has_won}

    pool = ThreadedPool(2, "publish")
    try:
        for number in range(RACES):
            name = str(number)
            assert asyncio.run(both_publish(name)) == {files.read(f"names/{name}")}
    finally:
        pool.stop()

"""Exports: a table holds each record of the tier once, over several runs and a compaction."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.clients.spark.export import Wanted
from tierlog.tests.clients.spark.exports import (
    FORMATS,
    TieredTopic,
    assert_holds_each_once,
    goal_of,
    rows_of,
    run_export,
    tiered_topic_of_two,
)

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    with tiered_topic_of_two(tmp_path_factory.mktemp("exports"), "orders") as found:
        yield found


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_brings_what_is_there_the_next_what_came_since_and_files_become_fewer(
    spark: SparkSession,
    topic: TieredTopic,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    goal = goal_of(spark, kind, tmp_path, "grows")
    run_export(spark, topic, goal, Wanted(dry_run=True))
    assert "dry run: " in capsys.readouterr().out
    assert goal.state() is None
    ends = run_export(spark, topic, goal, Wanted(records_per_commit=4000))
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

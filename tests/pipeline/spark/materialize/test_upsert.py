"""Materialize with --upsert: the newest record of each key, and nothing of a deleted one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.jobs.export import export_table
from tierlog.tests.pipeline.spark.materialize.lake import Lake

KINDS = ["iceberg", "delta"]

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]


@pytest.fixture
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, request.param, tmp_path)


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_a_table_holds_the_newest_record_of_each_key_and_none_that_was_deleted(lake: Lake) -> None:
    lake.put_records("orders", 0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"))
    words = ("--topic", "orders", "--upsert", "--records-per-commit", "3")
    assert lake.run(*words) == 0
    assert lake.values("orders") == {b"a": b"2", b"b": b"1", b"c": b"1"}
    # A tombstone, one of a key that is not there, and one that a newer record follows.
    more = [(b"b", None), (b"x", None), (b"c", None), (b"c", b"3"), (b"d", b"1"), (b"d", None)]
    lake.put_records("orders", 4, *more)
    for _ in range(2):
        assert lake.run(*words) == 0
        assert lake.values("orders") == {b"a": b"2", b"c": b"3"}
    state = lake.state("orders")
    assert state is not None
    assert list(state.offsets.values()) == [10]
    # What is there already, or older, changes nothing.
    goal = export_table(lake.spark, lake.kind, lake.template.replace("{topic}", "orders"))
    goal.upsert(
        lake.rows("orders").selectExpr(
            *("key", "CAST('old' AS BINARY) AS value", "topic", "partition"),
            *("offset - 1 AS offset", "timestamp", "timestampType", "headers", "date"),
        ),
        state.after({}, {}, {}),
    )
    assert lake.values("orders") == {b"a": b"2", b"c": b"3"}
    # Only tombstones of keys that are not there: a commit of offsets alone.
    lake.put_records("orders", 10, (b"y", None))
    assert lake.run(*words) == 0
    after = lake.state("orders")
    assert after is not None
    assert list(after.offsets.values()) == [11]
    # A job that runs for weeks leaves nothing of its rounds in the session.
    views = [each.name for each in lake.spark.catalog.listTables() if each.isTemporary]
    assert [name for name in views if name.startswith("tierlog_")] == []


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_record_without_a_key_is_named_and_nothing_is_written(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put_records("orders", 0, (b"a", b"1"), (None, b"1"))
    assert lake.run("--topic", "orders", "--upsert") == 2
    assert (
        "orders: Offset 1 of orders-0 has no key, so it cannot be upserted: materialize the "
        "topic without --upsert."
    ) in capsys.readouterr().out.splitlines()
    assert lake.offsets("orders") == []


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_table_is_of_all_records_or_of_the_newest_but_not_of_both(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put_records("orders", 0, (b"a", b"1"))
    assert lake.run("--topic", "orders") == 0
    lake.put_records("orders", 1, (b"a", b"2"))
    assert lake.run("--topic", "orders", "--upsert") == 2
    assert "holds all records of its topics: go on without --upsert" in capsys.readouterr().out
    assert lake.offsets("orders") == [0]

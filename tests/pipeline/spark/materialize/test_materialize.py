"""Materialize: one table a topic, in rounds; what fails stops only itself."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.pipeline.spark.jobs.export import ExportSettings, RowMapping
from tierlog.pipeline.spark.materialize.stop_request import StopRequest
from tierlog.pipeline.spark.materialize.table_names import TableNames
from tierlog.pipeline.spark.materialize.topic_tables import Target, TopicTables
from tierlog.tests.pipeline.spark.exports import FORMATS
from tierlog.tests.pipeline.spark.materialize.lake import Lake, topic_partition
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.terminal import Output

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

# The other formats take their libraries and more time.
KINDS = [
    kind if kind == "parquet" else pytest.param(kind, marks=pytest.mark.long) for kind in FORMATS
]


@pytest.fixture
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, getattr(request, "param", "parquet"), tmp_path)


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_topics_that_match_become_tables_and_later_rounds_bring_what_came_since(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("shop.orders", (0, 99))
    lake.put("shop.refunds", (0, 49))
    lake.put("audit", (0, 9))
    mapped = lake.kind == "iceberg"
    orders, refunds, stock = (
        f"shop_{name}" if mapped else f"shop.{name}" for name in ("orders", "refunds", "stock")
    )
    assert lake.run("--pattern", r"shop\..*") == 0
    printed = capsys.readouterr().out
    assert ("topic 'shop.orders' is the table" in printed) is mapped
    assert "shop.orders: 100 offsets of about" in printed
    assert "round 1: 2 topics, 0 behind the tier" in printed
    assert lake.offsets(orders) == list(range(100))
    assert lake.offsets(refunds) == list(range(50))
    assert lake.state("audit") is None

    lake.put("shop.orders", (100, 119))
    lake.put("shop.stock", (0, 4))
    for _ in range(2):
        assert lake.run("--pattern", r"shop\..*") == 0
        assert lake.offsets(orders) == list(range(120))
        assert lake.offsets(refunds) == list(range(50))
        assert lake.offsets(stock) == list(range(5))


def test_a_topic_that_fails_is_reported_in_one_sentence_and_the_others_go_on(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("a", (0, 9))
    lake.put("c", (0, 9))
    assert lake.run("--topic", "a", "--topic", "b", "--topic", "c") == 2
    printed = capsys.readouterr().out.splitlines()
    assert lake.offsets("a") == lake.offsets("c") == list(range(10))
    (said,) = [line for line in printed if line.startswith("b: ")]
    assert "holds no topic 'b'; it holds a, c" in said
    assert "round 1: 3 topics, 1 failed, 0 behind the tier" in printed
    # Once it is there, the next round has it.
    lake.put("b", (0, 9))
    assert lake.run("--topic", "a", "--topic", "b", "--topic", "c") == 0
    assert lake.offsets("b") == list(range(10))


def test_rounds_repeat_until_the_job_is_stopped_and_that_is_no_failure(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("orders", (0, 9))
    whole = TopicTables.round
    rounds: list[int] = []

    def round_and_more(tables: TopicTables, topics: Sequence[str]) -> int:
        """After each round there is more in the tier; the signal comes in the third one."""
        rounds.append(whole(tables, topics))
        if len(rounds) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            lake.put("orders", (10 * len(rounds), 10 * len(rounds) + 9))
        return rounds[-1]

    monkeypatch.setattr(TopicTables, "round", round_and_more)
    assert lake.run("--topic", "orders", "--topic", "missing", "--every", "1ms") == 0
    assert rounds == [1, 1, 1]
    assert lake.offsets("orders") == list(range(30))
    *_, ended = capsys.readouterr().out.splitlines()
    assert ended.startswith("orders")
    assert "0: 30" in ended


def test_a_stop_ends_a_topic_between_two_commits_and_the_next_run_goes_on(
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tierlog.pipeline.spark.jobs import export

    lake.put("orders", (0, 99))
    lake.put("refunds", (0, 9))
    whole = export.with_date

    def with_a_signal(rows: DataFrame) -> DataFrame:
        os.kill(os.getpid(), signal.SIGTERM)
        return whole(rows)

    page = tmp_path / "report.html"
    words = ("--topic", "orders", "--topic", "refunds", "--records-per-commit", "40")
    with monkeypatch.context() as patched:
        patched.setattr(export, "with_date", with_a_signal)
        assert lake.run(*words, "--report", str(page)) == 0
    # The commit during which the signal came is whole; nothing was begun after it.
    assert lake.offsets("orders") == list(range(40))
    assert lake.state("refunds") is None
    assert "round 1 was stopped before 1 of its 2 topics" in capsys.readouterr().out
    assert "2 topics are 60 offsets behind the tier, as far as is known; 1 not reached" in (
        page.read_text()
    )
    assert page.read_text().count(">not reached before the job was stopped</td>") == 1
    assert lake.run(*words) == 0
    assert lake.offsets("orders") == list(range(100))


def test_small_files_are_rewritten_after_so_many_rounds_that_added_some(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("orders", (0, 9))
    whole = TopicTables.round
    rounds: list[int] = []

    def round_and_more(tables: TopicTables, topics: Sequence[str]) -> int:
        """There is more in the tier after the second round, and after the third one."""
        rounds.append(whole(tables, topics))
        if len(rounds) in (2, 3):
            lake.put("orders", (10 * len(rounds) - 10, 10 * len(rounds) - 1))
        if len(rounds) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return rounds[-1]

    monkeypatch.setattr(TopicTables, "round", round_and_more)
    assert lake.run("--topic", "orders", "--every", "1ms", "--compact", "2") == 0
    printed = capsys.readouterr().out
    assert printed.count("orders: compacted 2 files into 1") == 1
    assert lake.offsets("orders") == list(range(30))


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_a_mapping_adds_columns_and_the_table_gets_them(lake: Lake) -> None:
    lake.put("orders", (0, 9))

    def bring(*columns: str) -> int:
        def mapping(rows: DataFrame) -> DataFrame:
            return rows.selectExpr("*", *columns)

        location = RemoteUrl(lake.tier.as_uri())
        settings = ExportSettings()

        def mapping_of(_topic: str) -> RowMapping:
            return mapping

        target = Target(location, lake.kind, "read_committed", settings, mapping_of)
        names = TableNames(lake.template, lake.kind)
        output = Output(as_json=False)
        return TopicTables(lake.spark, target, names, StopRequest(), output).round(["orders"])

    assert bring() == 0
    lake.put("orders", (10, 19))
    assert bring("offset * 2 AS double", "struct(partition AS p) AS pair") == 0
    rows = lake.rows("orders")
    if lake.kind == "parquet":
        rows = lake.spark.read.option("mergeSchema", "true").parquet(
            lake.template.replace("{topic}", "orders")
        )
    values = {int(row["offset"]): row["double"] for row in rows.collect()}
    assert values == {offset: 2 * offset if offset > 9 else None for offset in range(20)}


@pytest.mark.parametrize("lake", KINDS, indirect=True)
def test_a_topic_that_was_created_again_fails_or_gets_a_table_of_its_own(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("orders", (0, 9))
    assert lake.run("--topic", "orders") == 0
    lake.put("orders", (0, 19), again=True)
    assert lake.run("--topic", "orders") == 2
    assert "was deleted and created again" in capsys.readouterr().out
    topic_id = uuid_to_string(topic_partition("orders", again=True).topic_id)
    name = f"orders_{topic_id}"
    name = name.replace("-", "_") if lake.kind == "iceberg" else name
    for _ in range(2):
        assert lake.run("--topic", "orders", "--on-divergence", "new-table") == 0
        assert f"from now on its table is {lake.template}".replace("{topic}", name) in (
            capsys.readouterr().out
        )
        assert lake.offsets("orders") == list(range(10))
        assert lake.offsets(name) == list(range(20))


@pytest.mark.long
@pytest.mark.parametrize("lake", ["iceberg", "delta"], indirect=True)
def test_rows_that_the_tier_has_deleted_stay_or_are_deleted_as_stated(lake: Lake) -> None:
    for first in (0, 10, 20):
        lake.put("orders", (first, first + 9))
    assert lake.run("--topic", "orders") == 0
    lake.drop("orders", 0)
    assert lake.run("--topic", "orders") == 0
    assert lake.offsets("orders") == list(range(30))
    before = lake.state("orders")
    assert before is not None
    for _ in range(2):
        # One commit, and no other while nothing else is deleted.
        assert lake.run("--topic", "orders", "--on-deleted", "delete") == 0
        assert lake.offsets("orders") == list(range(10, 30))
        after = lake.state("orders")
        assert after is not None
        assert (after.sequence, after.offsets) == (before.sequence + 1, before.offsets)
    # What was deleted before it was copied is no loss for such a table.
    lake.put("orders", (30, 39))
    lake.put("orders", (40, 49))
    for first in (10, 20, 30):
        lake.drop("orders", first)
    assert lake.run("--topic", "orders") == 2
    assert lake.run("--topic", "orders", "--on-deleted", "delete") == 0
    assert lake.offsets("orders") == list(range(40, 50))


@pytest.mark.long
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_rows_of_a_lost_lineage_are_deleted_and_the_topic_goes_on(lake: Lake) -> None:
    lake.put("orders", (0, 59))
    lake.put("orders", (60, 99))
    assert lake.run("--topic", "orders") == 0
    lake.put("orders", (60, 119), ((0, 0), (4, 80)))
    assert lake.run("--topic", "orders", "--on-divergence", "new-table") == 2
    assert lake.run("--topic", "orders", "--on-divergence", "delete") == 0
    assert lake.offsets("orders") == list(range(120))
    values = lake.rows("orders").where("offset >= 80").selectExpr("CAST(value AS STRING)").collect()
    assert all("/4" in str(row[0]) for row in values)


def test_the_report_has_a_row_a_topic_and_is_rewritten_each_round(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    lake.put("orders", (0, 9))
    words = ("--topic", "orders", "--topic", "<b>", "--report", str(page))
    assert lake.run(*words) == 2
    assert f"the report is in {page}" in capsys.readouterr().out
    first = page.read_text()
    assert (
        "After 1 round, the tables of 2 topics are 0 offsets behind the tier, as far as is known; "
        "1 failed in the last round."
    ) in first
    assert ">0: 10</td>" in first
    assert "holds no topic &#x27;&lt;b&gt;&#x27;" in first
    lake.put("orders", (10, 19))
    assert lake.run(*words) == 2
    assert ">0: 20</td>" in page.read_text()
    assert lake.run("--topic", "orders", "--report", str(tmp_path / "nowhere" / "page")) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--on-divergence",), ("--on-deleted",)])
def test_parquet_is_append_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str]
) -> None:
    from tierlog.pipeline.spark.__main__ import main

    table = ["--format", "parquet", "--table", str(tmp_path / "{topic}"), *words, "delete"]
    assert main(["materialize", "--tier", str(tmp_path), "--topic", "orders", *table]) == 2
    assert f"{words[0]} delete is not for Parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--format", "parquet"), "--upsert is not for Parquet"),
        (("--format", "delta", "--on-divergence", "delete"), "does not go with --upsert"),
    ],
)
def test_upsert_is_refused_where_rows_cannot_change_or_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    from tierlog.pipeline.spark.__main__ import main

    table = ["--table", str(tmp_path / "{topic}"), "--upsert", *words]
    assert main(["materialize", "--tier", str(tmp_path), "--topic", "orders", *table]) == 2
    assert reason in capsys.readouterr().err


def test_a_tier_without_topics_ends_a_single_round_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tierlog.pipeline.spark.__main__ import main

    (tmp_path / "tier").mkdir()
    table = ["--format", "delta", "--table", str(tmp_path / "{topic}")]
    assert main(["materialize", "--tier", str(tmp_path / "tier"), "--pattern", ".*", *table]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert "There is no tier at" in printed
    assert main(["materialize", "--tier", str(tmp_path), "--pattern", "(", *table]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert "is not a regular expression of RE2" in printed

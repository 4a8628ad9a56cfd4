"""An unclean election removes records that a table holds already: it is noticed, and named."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.jobs.export import Export, ExportSettings
from tierlog.pipeline.spark.tables.export_state import ExportError, ExportTable
from tierlog.tests.pipeline.spark.exports import FORMATS, goal_of, rows_of
from tierlog.tests.pipeline.spark.folder_exports import export, source_of
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tiering.tools.terminal import Output

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

# The other formats take their libraries and more time.
KINDS = [
    kind if kind == "parquet" else pytest.param(kind, marks=pytest.mark.long) for kind in FORMATS
]
BEFORE = ((0, 0), (1, 60))
AFTER = ((0, 0), (1, 60), (4, 80))
"""The leader of epoch 4 had the offsets below 80 only."""


class KilledError(Exception):
    """The job ends here."""


def _killed(*_: object) -> None:
    raise KilledError


def exported_and_lost(
    spark: SparkSession, directory: Path, kind: str, name: str
) -> tuple[Tier, ExportTable]:
    """A table of the offsets 0 to 99, of which the last twenty are others in the tier now."""
    tier = Tier(directory / "tier")
    tier.bucket.put(1, (0, 59), BEFORE)
    tier.bucket.put(2, (60, 99), BEFORE)
    tier.write()
    goal = goal_of(spark, kind, directory, name)
    export(spark, tier, goal, ExportSettings(records_per_commit=70))
    tier.bucket.put(3, (60, 119), AFTER)
    tier.write()
    return tier, goal


def values(spark: SparkSession, kind: str, goal: ExportTable) -> list[tuple[int, str]]:
    """Offset and epoch of each row: the test's records have both in their values."""
    rows = rows_of(spark, kind, goal).selectExpr("offset", "CAST(value AS STRING) AS value")
    return sorted((int(row[0]), str(row[1]).partition(" ")[0]) for row in rows.collect())


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_holds_lost_records_is_left_as_it_is_and_they_are_named(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    tier, goal = exported_and_lost(spark, tmp_path, kind, "diverged")
    with pytest.raises(ExportError) as refused:
        export(spark, tier, goal)
    assert str(refused.value) == (
        f"{goal.name} holds offsets 80 to 99 of orders-0 of leader epoch 1, which an unclean "
        "leader election has removed: offset 80 is of leader epoch 4 in the tier now; "
        "--on-divergence delete deletes those rows and goes on from there."
    )
    assert rows_of(spark, kind, goal).count() == 100


@pytest.mark.long
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_lost_records_are_deleted_and_the_table_goes_on_from_there(
    spark: SparkSession, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tier, goal = exported_and_lost(spark, tmp_path, kind, "repaired")
    settings = ExportSettings(deletes_diverged=True)
    export(spark, tier, goal, settings._replace(dry_run=True))
    assert "dry run: would delete from" in capsys.readouterr().out
    assert rows_of(spark, kind, goal).count() == 100
    export(spark, tier, goal, settings)
    expected = [(n, f"{n}/{0 if n < 60 else 1 if n < 80 else 4}") for n in range(120)]
    assert values(spark, kind, goal) == expected
    state = goal.state()
    assert state is not None
    (history,) = state.epochs.values()
    assert list(history) == list(AFTER)
    export(spark, tier, goal)
    assert rows_of(spark, kind, goal).count() == 120


@pytest.mark.long
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_deletion_is_one_commit_and_of_two_at_once_one_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, goal = exported_and_lost(spark, tmp_path, kind, "raced")
    source = source_of(tier)
    ranges = source.ranges()
    late = goal_of(spark, kind, tmp_path, "raced")
    state = late.state()
    assert state is not None
    job = Export(spark, source, goal, Output(as_json=False))
    with monkeypatch.context() as patched, pytest.raises(KilledError):
        patched.setattr(Export, "_bring", _killed)
        job.run(ranges, ExportSettings(deletes_diverged=True))
    assert [offset for offset, _ in values(spark, kind, goal)] == list(range(80))
    # A job that has looked before the deletion has lost.
    with pytest.raises(ExportError, match="Another export has committed"):
        late.delete(ranges, job.state)
    assert [offset for offset, _ in values(spark, kind, goal)] == list(range(80))
    export(spark, tier, goal)
    assert [offset for offset, _ in values(spark, kind, goal)] == list(range(120))

"""What Polars is asked for reaches the scan: less is read, and the answer is the same."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.io.plugins import register_io_source

from tierlog.pipeline.reading.row_filter import RowFilter
from tierlog.pipeline.tables.polars_source import row_filter
from tierlog.tables import ScanError, scan
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.pipeline.tables.s3_folder import BUCKET, S3Folder

OFFSET, PARTITION, TIME, KEY = (
    pl.col(name) for name in ("offset", "partition", "timestamp", "key")
)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)
SEGMENTS, EACH = 4, 300


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Folder]:
    """A tier on S3 with four segments of three hundred records."""
    folder = tmp_path_factory.mktemp("bucket")
    tier = Tier(folder / "tier")
    for number in range(SEGMENTS):
        tier.bucket.put(number + 1, (number * EACH, (number + 1) * EACH - 1))
    tier.write()
    with S3Folder(folder) as server:
        yield server


def frame(bucket: S3Folder) -> pl.LazyFrame:
    url = f"s3://{BUCKET}/tier"
    return scan(url, TOPIC, storage_options=bucket.storage_options).polars()


def bytes_of(bucket: S3Folder, query: pl.LazyFrame, height: int) -> int:
    """What the store gave of its logs for a query that has so many rows."""
    before = bucket.bytes_of_logs
    assert query.collect().height == height
    return bucket.bytes_of_logs - before


def test_a_condition_on_the_offset_reads_less_from_the_store(bucket: S3Folder) -> None:
    rows = frame(bucket)
    count = SEGMENTS * EACH
    whole = bytes_of(bucket, rows, count)
    last = bytes_of(bucket, rows.filter(OFFSET >= 3 * EACH).select("value"), EACH)
    few = bytes_of(bucket, rows.filter((OFFSET >= 50) & (OFFSET < 60)), 10)
    assert 0 < few < last < whole // 3
    assert bytes_of(bucket, rows.filter(PARTITION == 1), 0) == 0


def test_a_head_is_taken_before_a_condition(tmp_path: Path) -> None:
    tier = Tier(tmp_path / "tier")
    tier.bucket.put(1, (0, 99))
    tier.write()
    rows = scan(str(tier.directory), TOPIC).polars()
    assert rows.head(5).filter(OFFSET > 2).collect()["offset"].to_list() == [3, 4]
    assert rows.filter(OFFSET > 90).head(2).collect()["offset"].to_list() == [91, 92]
    assert rows.select(pl.len()).collect().item() == 100
    assert rows.filter(OFFSET > 1e6).collect().is_empty()
    assert rows.join(rows, on="offset").collect().height == 100
    assert rows.head(0).collect().columns == rows.collect_schema().names()


def test_an_error_of_the_tier_passes_through_polars(tmp_path: Path) -> None:
    with pytest.raises(ScanError, match="There is no tier at"):
        scan(str(tmp_path), TOPIC).polars().collect()


def pushed(rows: pl.LazyFrame, condition: pl.Expr) -> RowFilter:
    """The bounds of a condition as Polars gives it to a source, after its own changes."""
    seen: list[RowFilter] = []

    def load(
        with_columns: list[str] | None, predicate: pl.Expr | None, *_: int | None
    ) -> Iterator[pl.DataFrame]:
        assert predicate is not None
        seen.append(row_filter(predicate))
        yield pl.DataFrame(schema=rows.collect_schema()).select(with_columns or pl.all())

    source = register_io_source(load, schema=rows.collect_schema(), is_pure=False)
    assert source.filter(condition).collect().is_empty()
    return seen[0]


COLUMNS = {
    "key": pl.Binary(),
    "topic": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "timestamp": pl.Datetime("us", "UTC"),
}


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (OFFSET == 5, RowFilter(first_offset=5, end_offset=6)),
        (OFFSET > 5, RowFilter(first_offset=6)),
        (pl.lit(5) > OFFSET, RowFilter(end_offset=5)),
        (~(OFFSET > 5), RowFilter(end_offset=6)),
        (OFFSET.is_between(5, 9), RowFilter(first_offset=5, end_offset=10)),
        (OFFSET.is_in([9, 5]), RowFilter(first_offset=5, end_offset=10)),
        (PARTITION.is_in([1, 3]), RowFilter(partitions=frozenset((1, 3)))),
        (PARTITION == 1, RowFilter(partitions=frozenset((1,)))),
        (pl.col("topic") == "a", RowFilter(topics=frozenset(("a",)))),
        (TIME >= T0, RowFilter(first_timestamp_ms=T0_MS)),
        (TIME.is_between(T0, T0), RowFilter(first_timestamp_ms=T0_MS)),
        (
            (OFFSET >= 5) & KEY.is_not_null() & (PARTITION == 1) & (OFFSET != 7),
            RowFilter(first_offset=5, partitions=frozenset((1,))),
        ),
        # Where a bound would be wrong, or is not understood, there is none.
        ((OFFSET > 5) | (PARTITION == 1), RowFilter()),
        (OFFSET + 1 > 5, RowFilter()),
        (OFFSET > 5.5, RowFilter()),
        (OFFSET > PARTITION, RowFilter()),
        (TIME < T0, RowFilter()),
        (PARTITION > 1, RowFilter()),
        (PARTITION.is_in([]), RowFilter()),
        (OFFSET.is_in([1, None]), RowFilter()),
        (pl.col("topic").is_in(["a"]), RowFilter()),
    ],
    ids=lambda each: str(each) if isinstance(each, pl.Expr) else "",
)
def test_the_bounds_of_a_condition(condition: pl.Expr, bounds: RowFilter) -> None:
    assert pushed(pl.LazyFrame(schema=COLUMNS), condition) == bounds

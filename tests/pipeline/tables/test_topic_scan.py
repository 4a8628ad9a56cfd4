"""A scan of a tier in a folder: its bounds, its streams, and how its errors reach who reads."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.tables import ScanError, TopicScan, scan
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.tiering.remote_partition import PARTITION

T0 = datetime(2026, 1, 1, tzinfo=UTC)
OTHER = TopicIdPartition(PARTITION.topic_id, TOPIC, 1)


def numbered(first: int, end: int) -> bytes:
    """A batch a record, which is a minute younger than the one before."""
    ms = int(T0.timestamp() * 1000)
    return b"".join(
        build_batch(
            [Record(0, ms + 60_000 * number, b"k%d" % number, b"v%d" % number)],
            base_offset=number,
            leader_epoch=0,
        )
        for number in range(first, end)
    )


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    """Partition 0 has the offsets 0 to 99 in two segments, partition 1 the offsets 0 to 9."""
    made = Tier(tmp_path / "tier")
    made.bucket.put_log(1, numbered(0, 50))
    made.bucket.put_log(2, numbered(50, 100))
    made.bucket.put_log(3, numbered(0, 10), partition=OTHER)
    made.write()
    return made


def rows(scanned: object) -> list[tuple[int, int]]:
    """The partition and offset of each row."""
    table = cast("Any", scanned).to_table()
    return [(row["partition"], row["offset"]) for row in table.to_pylist()]


def sql(query: str, scanned: TopicScan) -> object:
    """What DuckDB answers; the scan is the table `scanned`."""
    with duckdb.connect() as connection:
        connection.register("scanned", scanned)
        return connection.execute(query).fetchall()


def both(first: int, end: int, first_of_other: int = 0, end_of_other: int = 10) -> list[object]:
    ranges = (range(first, end), range(first_of_other, end_of_other))
    return [(partition, offset) for partition in (0, 1) for offset in ranges[partition]]


def test_bounds_are_offsets_or_times_and_the_end_is_exclusive(tier: Tier) -> None:
    url = str(tier.directory)
    assert rows(scan(url, TOPIC)) == both(0, 100)
    assert rows(scan(url, TOPIC, start=3, end=7)) == both(3, 7, 3, 7)
    assert rows(scan(url, TOPIC, start={0: 98, 1: 9})) == both(98, 100, 9)
    at = T0 + timedelta(minutes=8)
    assert rows(scan(url, TOPIC, start=at, end=at + timedelta(minutes=2))) == both(8, 10, 8)
    soon_after = at + timedelta(microseconds=1)
    assert rows(scan(url, TOPIC, start=soon_after)) == both(9, 100, 9)
    assert rows(scan(url, TOPIC, start=T0 + timedelta(minutes=99))) == both(99, 100, 10)


def test_arguments_that_name_nothing_are_refused_in_one_sentence(tier: Tier) -> None:
    url = str(tier.directory)

    def sentence(call: Callable[[], object]) -> str:
        with pytest.raises(ScanError) as failed:
            call()
        return str(failed.value)

    assert "has no time zone" in sentence(lambda: scan(url, TOPIC, start=datetime(2026, 1, 1)))
    assert "the first record has offset 0" in sentence(lambda: scan(url, TOPIC, end=-1))
    assert "the first record has offset 0" in sentence(lambda: scan(url, TOPIC, end={0: -1}))
    assert "end=True is not an offset" in sentence(lambda: scan(url, TOPIC, end=True))
    assert "'prize' is not one of key" in sentence(lambda: scan(url, TOPIC, columns=["prize"]))
    assert "reads one topic" in sentence(lambda: scan(url, "orders,refunds"))
    assert "no topic 'order'; it holds orders" in sentence(scan(url, "order").reader)
    assert "Offset 50 of orders-1 is not in the tier" in sentence(scan(url, TOPIC, end=50).reader)
    assert sentence(scan(url, TOPIC, end={0: 1}).reader).startswith("end must name every partition")
    assert sentence(scan(url, TOPIC, start={0: 1}).reader).startswith("start must name every")
    assert "url is empty" in sentence(lambda: scan("", TOPIC))
    assert "topic is empty" in sentence(lambda: scan(url, ""))
    assert "columns=['key']" in sentence(lambda: scan(url, TOPIC, columns="key"))


def test_what_is_missing_is_skipped_where_that_is_stated(tier: Tier) -> None:
    url = str(tier.directory)
    with pytest.raises(ScanError, match=r"\(scan\(…\)\.lenient\(\) reads what is there\)$"):
        scan(url, TOPIC, end=50).reader()
    assert rows(scan(url, TOPIC, end=50).lenient()) == both(0, 50)


def test_the_tier_is_named_without_its_secrets(tier: Tier) -> None:
    options = {"secret": "the-secret-of-a-test"}
    scanned = scan("s3://bucket/tier", TOPIC, columns=["value"], storage_options=options)
    assert repr(scanned) == "<scan of 'orders' in s3://bucket/tier: value>"


def test_arrows_consumers_read_it_as_it_is(tier: Tier) -> None:
    scanned = scan(str(tier.directory), TOPIC, columns=["offset", "key"])
    assert sql('select count(*), sum("offset") from scanned', scanned) == [(110, 4995)]
    frame = cast("Any", pd.DataFrame).from_arrow(scanned)
    assert list(frame.columns) == ["offset", "key"]
    assert frame.shape == (110, 2)
    assert cast("Any", pa).table(scanned).schema == scanned.schema
    assert cast("Any", pa).schema(scanned) == scanned.schema


def test_a_notebook_reads_though_its_thread_has_a_loop(tier: Tier) -> None:
    async def cell() -> int:
        return len(rows(scan(str(tier.directory), TOPIC)))

    assert asyncio.run(cell()) == 110


def test_damage_ends_every_query_with_the_sentence_that_names_it(tier: Tier) -> None:
    segment = tier.bucket.put_log(2, numbered(50, 100))
    tier.bucket.damage(segment, "log", 70)
    tier.write()
    scanned = scan(str(tier.directory), TOPIC)
    sentence = "the CRC of the batch at offset 50 is wrong"
    with pytest.raises(ScanError, match=sentence):
        scanned.to_table()
    with pytest.raises(duckdb.Error, match=sentence):
        sql("select count(value) from scanned", scanned)
    assert len(rows(scan(str(tier.directory), TOPIC, end={0: 50, 1: 10}))) == 60


def test_the_first_batch_comes_before_the_last_is_read(tier: Tier) -> None:
    reader = cast("Any", scan(str(tier.directory), TOPIC).reader())
    assert reader.read_next_batch().num_rows > 0
    reader.close()

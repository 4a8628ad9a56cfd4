"""The profile of a tier: what it counts is what was written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.spark.__main__ import main
from tierlog.tests.pipeline.spark.planted import store
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.tools.bucket import Bucket, forge

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

Said = pytest.CaptureFixture[str]
SEGMENT = 1000
BASE_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """The job takes the session that there is."""
    return spark


def record(offset: int) -> Record:
    """Half of all records have one key, a tenth has none, every fiftieth no value."""
    key = b"often" if offset % 2 else None if offset % 10 == 0 else b"%d" % offset
    value = None if offset % 50 == 1 else b"value " * 20
    return Record(offset, BASE_MS + offset * 100, key, value, ())


def recorded() -> Bucket:
    """Two partitions of `orders`, two segments each, in two codecs; and `empty.keys`."""
    bucket = Bucket()
    number = 0
    for topic, partitions in (("orders", 2), ("payments", 1)):
        for partition in range(partitions):
            owner = TopicIdPartition(Uuid(topic.encode().ljust(16, b".")), topic, partition)
            for start in (0, SEGMENT):
                number += 1
                metadata = bucket.put(number, (start, start + SEGMENT - 1), partition=owner)
                codec = CompressionType.GZIP if partition else CompressionType.NONE
                log = b"".join(
                    build_batch(
                        map(record, range(first, first + 100)), base_offset=first, compression=codec
                    )
                    for first in range(start, start + SEGMENT, 100)
                )
                forge(bucket, metadata, "log", log)
    return bucket


def profile(place: TierPlace, capsys: Said, *words: str) -> list[Mapping[str, Any]]:
    capsys.readouterr()
    assert main(["profile", *place.arguments, "--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_counted_is_what_was_written(file_tier: TierPlace, capsys: Said) -> None:
    store(recorded(), file_tier)
    lines = profile(file_tier, capsys, "--retention-ms", "1h", "--retention-bytes", "1TiB")
    orders, payments = (line for line in lines if line["type"] == "topic")
    assert (orders["topic"], orders["segments"], orders["records"]) == ("orders", 4, 4000)
    assert (payments["topic"], payments["partitions"], payments["records"]) == ("payments", 1, 2000)
    assert (orders["tombstones"], orders["without_key"]) == (80, 400)
    # As often as not it is "often"; each other key is in both partitions.
    assert orders["different_keys"] == 1 + 800
    (often, *_) = (line for line in lines if line["type"] == "key")
    assert (often["key"], often["records_at_least"], often["records_at_most"]) == (
        *("often", 2000, 2000),
    )
    codecs = {(line["topic"], line["codec"]): line for line in lines if line["type"] == "codec"}
    plain, gzip = codecs["orders", "none"], codecs["orders", "gzip"]
    assert plain["stored_bytes"] == plain["plain_bytes"] == gzip["plain_bytes"]
    assert gzip["stored_bytes"] * 3 < gzip["plain_bytes"]
    assert (gzip["batches"], gzip["records"]) == (20, 2000)
    rates = [line for line in lines if line["type"] == "rate" and line["topic"] == "orders"]
    assert sum(line["records_per_s"] * line["seconds"] for line in rates) == pytest.approx(4000)
    assert rates[0]["timestamp_ms"] <= BASE_MS
    partitions = [line for line in lines if line["type"] == "partition"]
    assert [line["records"] for line in partitions] == [2000, 2000, 2000]
    forecast = {
        (line["topic"], line["setting"]): line for line in lines if line["type"] == "forecast"
    }
    # The manifests of these segments claim records of 1970.
    everything = forecast["orders", "retention.ms=1h"]
    assert (everything["freed_segments"], everything["freed_bytes"]) == (4, everything["bytes"])
    assert forecast["payments", "retention.bytes=1TiB"]["freed_bytes"] == 0


def test_a_dry_run_and_a_forecast_read_no_records(file_tier: TierPlace, capsys: Said) -> None:
    bucket = recorded()
    # They would fail if they did.
    bucket.objects = {
        key: bytes(len(content)) if key.endswith(".log") else content
        for key, content in bucket.objects.items()
    }
    store(bucket, file_tier)
    (plan,) = profile(file_tier, capsys, "--dry-run", "--topic", "orders")
    assert (plan["segments"], plan["partitions"]) == (4, 2)
    lines = profile(file_tier, capsys, "--forecast-only")
    assert {line["type"] for line in lines} == {"forecast"}
    assert len(lines) == 2 * 10


def test_tables_and_page(file_tier: TierPlace, tmp_path: Path, capsys: Said) -> None:
    store(recorded(), file_tier)
    page = tmp_path / "profile.html"
    assert main(["profile", *file_tier.arguments, "--topic", "orders", "--html", str(page)]) == 0
    said = capsys.readouterr().out
    for words in ("sizes:", "compression:", "frequent keys:", "retention forecast:", "often"):
        assert words in said
    assert "payments" not in said
    html = page.read_text()
    assert html.count("<img ") == 6
    assert "<script" not in html
    assert 'src="http' not in html


def test_what_is_damaged_ends_the_job_with_one_sentence(file_tier: TierPlace, capsys: Said) -> None:
    bucket = recorded()
    key = next(each for each in bucket.objects if each.endswith(".log"))
    damaged = bytearray(bucket.objects[key])
    damaged[100] ^= 1
    bucket.objects[key] = bytes(damaged)
    store(bucket, file_tier)
    assert main(["profile", *file_tier.arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tierlog: ")
    assert f"{key}: the CRC of the batch at offset 0 is wrong" in line
    for words, sentence in (
        (["--topic", "nothing"], f"The tier at {file_tier.url} holds no topic nothing; it holds"),
        (["--retention-ms", "soon"], "--retention-ms soon is not a time such as 12h"),
    ):
        assert main(["profile", *file_tier.arguments, *words]) == 2
        assert capsys.readouterr().err.startswith(f"tierlog: {sentence}")

"""`format("tierlog")` in Spark: the rows that the connector gets from the broker, without it."""

import os
import zlib
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as f

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.record.batch import stamp_crc
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    tiered_topic,
    wait_until_tiered,
)
from tierlog.tests.tiering.remote_partition import batch_bytes
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tests.tiering.tools.bucket import Bucket

RECORDS = int(os.environ.get("TIERLOG_SPARK_RECORDS", "45000"))
"""Ten million are read so: TIERLOG_SPARK_RECORDS=10000000; it takes some minutes."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("java", "go"),
    pytest.mark.timeout(1500 if RECORDS <= 1_000_000 else 7200),
]

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


class Written(NamedTuple):
    """What stands in the tier on S3: a topic and where each partition ends there."""

    node: TierlogNode
    place: TierPlace
    topic: str
    ends: dict[int, int]
    checksum: int
    """Of the values below the ends: their CRC-32s, summed up."""


def value_of(partition: int, number: int) -> bytes:
    """A hundred bytes that no codec makes much smaller."""
    prefix = b"%d %d " % (partition, number)
    return prefix.ljust(36, b".") + sha512(prefix).digest()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, s3: VersityGateway) -> Iterator[Written]:
    """Records of every codec, produced to a broker whose tier is in a bucket."""
    options = {name: str(text) for name, text in s3.location.options.items()}
    place = TierPlace(f"s3://{BUCKET}/written", options)
    per_partition = RECORDS // PARTITIONS
    segment_bytes = str(min(max(per_partition * 20, 1 << 20), 64 << 20))
    with broker_on(tmp_path_factory.mktemp("written"), place) as node:
        tiered_topic(node, "big", partitions=PARTITIONS, config={"segment.bytes": segment_bytes})
        for each in range(PARTITIONS):
            # Batches of a few hundred records, so that a segment closes when it is nearly full.
            client = {"compression_type": "lz4", "batch_num_messages": "500"}
            produce(node, "big", {each: per_partition}, value_of, **client)
        # The last segment of each is open, and stays with the broker.
        most = dict.fromkeys(range(PARTITIONS), per_partition // 2)
        ends = wait_until_tiered(place, "big", most, 300 + RECORDS // 5_000)
        checksum = sum(
            zlib.crc32(value_of(partition, number))
            for partition, end in ends.items()
            for number in range(end)
        )
        yield Written(node, place, "big", ends, checksum)


def scan(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("tierlog").options(**options).load()


def through_the_broker(spark: SparkSession, written: Written) -> DataFrame:
    ends = ", ".join(f'"{partition}": {end}' for partition, end in written.ends.items())
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", written.node.bootstrap)
        .option("subscribe", written.topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", f'{{"{written.topic}": {{{ends}}}}}')
        .option("includeHeaders", "true")
        .load()
    )


def counted(rows: DataFrame) -> tuple[int, int]:
    """How many rows, and the sum of their values' CRCs."""
    (found,) = rows.select(f.count("*"), f.sum(f.crc32("value"))).collect()
    return found[0], found[1]


def test_what_was_produced_is_read_from_s3_with_and_without_the_broker(
    spark: SparkSession, written: Written
) -> None:
    expected = sum(written.ends.values()), written.checksum
    options = written.place.options("big", endingOffsets=_offsets(written))
    assert counted(scan(spark, options)) == expected
    assert counted(through_the_broker(spark, written)) == expected


def _offsets(written: Written) -> str:
    ends = ", ".join(f'"{partition}": {end}' for partition, end in written.ends.items())
    return f'{{"{written.topic}": {{{ends}}}}}'


def test_rows_are_those_of_sparks_kafka_source(spark: SparkSession, written: Written) -> None:
    options = written.place.options("big", endingOffsets=_offsets(written))
    direct, brokered = scan(spark, options), through_the_broker(spark, written)
    nullable = {column.name for column in direct.schema if column.nullable}
    assert nullable == {"key", "value", "headers"}
    assert direct.dtypes == brokered.dtypes
    some = f.col("offset") % 37 == 5
    columns = [*map(f.col, COLUMNS), f.to_json("headers").alias("headers")]
    ours = direct.where(some).select(*columns).orderBy("partition", "offset").collect()
    theirs = brokered.where(some).select(*columns).orderBy("partition", "offset").collect()
    assert ours == theirs
    assert len(ours) > 100


def test_no_broker_is_asked(spark: SparkSession, tmp_path: Path, file_tier: TierPlace) -> None:
    """Every codec, read when the broker is dead."""
    with broker_on(tmp_path, file_tier) as node:
        tiered_topic(node, "mixed")
        for codec in CODECS:
            produce(node, "mixed", {0: 4000}, value_of, compression_type=codec)
        # Without compression, so that the segment of the others is closed.
        produce(node, "mixed", {0: 12_000}, value_of)
        ends = wait_until_tiered(file_tier, "mixed", {0: 20_000})
        node.kill()
        rows = scan(
            spark, file_tier.options("mixed", endingOffsets=f'{{"mixed": {{"0": {ends[0]}}}}}')
        )
        assert rows.count() == ends[0]
        assert rows.where(f.col("offset") < 20_000).select("value").distinct().count() == 4000


def test_transactions_are_those_of_the_connector(
    spark: SparkSession, tmp_path: Path, file_tier: TierPlace
) -> None:
    """Committed and aborted ones of two producers, woven into one partition."""
    with broker_on(tmp_path, file_tier) as node:
        tiered_topic(node, "woven")
        weave(node.bootstrap)
        produce(node, "woven", {0: 20_000}, value_of)
        ends = wait_until_tiered(file_tier, "woven", {0: 6_000})
        until = f'{{"woven": {{"0": {min(ends[0], 8_000)}}}}}'

        def offsets(isolation: str) -> tuple[set[int], set[int]]:
            options = file_tier.options("woven", endingOffsets=until, isolation=isolation)
            brokered = (
                spark.read.format("kafka")
                .option("kafka.bootstrap.servers", node.bootstrap)
                .option("kafka.isolation.level", isolation)
                .option("subscribe", "woven")
                .option("endingOffsets", until)
                .load()
            )
            found = [rows.select("offset").collect() for rows in (scan(spark, options), brokered)]
            ours, theirs = ({row.offset for row in rows} for rows in found)
            return ours, theirs

        ours, theirs = offsets("read_committed")
        assert ours == theirs
        everything, of_the_broker = offsets("read_uncommitted")
        assert everything == of_the_broker
        assert len(ours) < len(everything)


def weave(bootstrap: str) -> None:
    producers = [
        Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
        for name in ("red", "blue")
    ]
    for producer in producers:
        producer.init_transactions(30)
    for transaction in range(30):
        for producer in producers:
            producer.begin_transaction()
        for number in range(100):
            for producer in producers:
                producer.produce("woven", value_of(0, number), partition=0)
            if number % 25 == 0:
                for producer in producers:
                    producer.flush(30)
        for place, producer in enumerate(producers):
            if (transaction + place) % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)


@pytest.fixture
def made_tier(tmp_path: Path) -> TierPlace:
    """A tier of three small topics: sound, with an unknown codec, with a broken manifest."""
    bucket = Bucket()
    bucket.put(1, (0, 9))
    place = tmp_path / "made"
    log = bytearray(batch_bytes((0, 4, 0)))
    log[22] |= 6
    stamp_crc(memoryview(log), 0, len(log))
    odd = Bucket()
    odd.put_log(2, bytes(log))
    broken = Bucket()
    metadata = broken.put(3, (0, 9))
    broken.objects = {
        key: b"no manifest" if key.endswith("manifest") else content
        for key, content in broken.objects.items()
    }
    for name, each in (("sound", bucket), ("odd", odd), ("broken", broken)):
        each.write_to(place / name)
    assert metadata.start_offset == 0
    return TierPlace(place.as_uri())


def test_what_is_wrong_is_said_in_one_line_that_names_it(
    spark: SparkSession, made_tier: TierPlace, s3: VersityGateway
) -> None:
    here = made_tier.url
    s3_options = {f"storage.{name}": str(text) for name, text in s3.location.options.items()}
    wrong = {**s3_options, "storage.secret": "not-the-secret"}
    cases: list[tuple[dict[str, str], str]] = [
        ({"path": f"{here}/sound", "topic": "nope"}, "holds no topic 'nope'; it holds orders"),
        ({"path": f"{here}/elsewhere", "topic": "orders"}, f"no tier at {here}/elsewhere"),
        ({"path": f"s3://{BUCKET}/x", "topic": "orders", **wrong}, f"s3://{BUCKET}/x is denied"),
        ({"path": "s3://no-such-bucket/x", "topic": "orders", **s3_options}, "no-such-bucket"),
        ({"path": f"{here}/odd", "topic": "orders"}, "Unknown compression type id"),
        ({"path": f"{here}/broken", "topic": "orders"}, "manifest: the manifest cannot be read"),
        ({"path": f"{here}/sound"}, "must be specified for format('tierlog'): topic, subscribe"),
    ]
    for options, mention in cases:
        with pytest.raises(PySparkException) as failed:
            scan(spark, options).collect()
        said = str(failed.value)
        assert mention in said, said
        assert "ScanError: " in said, said
        assert "Traceback" not in said, said
        assert "not-the-secret" not in said

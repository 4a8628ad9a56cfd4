"""Scans of a tier in a folder: each offset of the log once, whatever is asked for, and no other."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Unpack

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.record.batch import Record, stamp_crc
from tierlog.clients.record.builder import BatchFields, build_batch, build_control_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading import scan as scan_module
from tierlog.pipeline.reading.scan import read_task
from tierlog.pipeline.reading.scan_options import COLUMNS, ScanError, scan_options
from tierlog.pipeline.reading.segment_stream import SegmentStream
from tierlog.tests.house_rules import ROOT
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tiering.store.manifest import TopicDescription, decode_manifest, encode_manifest
from tierlog.tiering.store.object_keys import object_key

TXN_ENTRY = Struct(">hqqqq")


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    return Tier(tmp_path / "tier")


def error_of(call: Callable[[], object]) -> str:
    """What a scan ends with: one line."""
    with pytest.raises(ScanError) as failed:
        call()
    assert "\n" not in str(failed.value)
    return str(failed.value)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("tierlog.pipeline.reading.scan", {"pyspark"}),
        ("tierlog.broker.broker", {"pyspark", "pyarrow", "numpy", "pandas"}),
    ],
)
def test_nobody_imports_what_only_spark_needs(module: str, absent: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not absent & set(answer.stdout.split())


def batch(first: int, count: int, **fields: Unpack[BatchFields]) -> bytes:
    """Records whose value tells their offset, ten milliseconds apart."""
    records = [
        Record(0, offset * 10, b"k%d" % offset, b"v%d" % offset)
        for offset in range(first, first + count)
    ]
    placed: BatchFields = {"base_offset": first, "leader_epoch": 0}
    return bytes(build_batch(records, **(placed | fields)))


def test_a_record_has_the_columns_of_sparks_kafka_source(tier: Tier) -> None:
    record = Record(0, 1_700_000_000_123, b"k", None, (("h", b"1"), ("h", None)))
    tier.bucket.put_log(1, bytes(build_batch([record], leader_epoch=0)))
    (row,) = tier.rows()
    assert row.pop("timestamp").timestamp() == 1_700_000_000.123
    assert row == {
        "key": b"k",
        "value": None,
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert list(row) == [name for name in COLUMNS if name != "timestamp"]
    assert list(tier.rows(includeHeaders="false")[0]) == [*COLUMNS][:-1]


def test_only_the_columns_that_are_named_are_there(tier: Tier) -> None:
    tier.bucket.put_log(1, batch(0, 10))
    ends = '{"orders": {"0": 7}}'
    rows = tier.rows(columns="Value, timestampTYPE", startingTimestamp="30", endingOffsets=ends)
    assert rows == [{"value": b"v%d" % offset, "timestampType": 0} for offset in range(3, 7)]
    assert "'prize' is not one of key, value" in error_of(lambda: tier.plan(columns="key,prize"))
    assert "'' is not one of key, value" in error_of(lambda: tier.plan(columns=" "))
    both = error_of(lambda: tier.plan(columns="key", includeHeaders="false"))
    assert "exclude each other" in both


def test_dead_branches_and_copies_that_were_never_finished_do_not_show(tier: Tier) -> None:
    tier.bucket.put(1, (0, 99))
    tier.bucket.put(2, (100, 199), ((0, 0), (1, 150)))
    newest = tier.bucket.put(3, (150, 180), ((0, 0), (2, 150)))
    unfinished = tier.bucket.put(4, (181, 190), ((0, 0), (2, 150)))
    del tier.bucket.objects[object_key(unfinished, "manifest")]
    rows = tier.rows()
    assert [row["offset"] for row in rows] == list(range(181))
    assert rows[149]["value"] == b"149/0 value"
    assert rows[150]["value"] == b"150/2 value"
    assert tier.plan()[-1].ranges[-1].key == object_key(newest, "log")


@given(st.integers(100, 9_000), st.integers(0, 300), st.integers(0, 300), st.integers(64, 5_000))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_it_is_cut_each_offset_is_read_once(
    tier: Tier, monkeypatch: pytest.MonkeyPatch, size: int, start: int, end: int, piece: int
) -> None:
    """Tasks, pieces of segments and Arrow batches end anywhere."""
    if not tier.bucket.objects:
        tier.bucket.put(1, (0, 99))
        tier.bucket.put(2, (100, 299))
        tier.bucket.put(3, (250, 280), ((0, 0), (1, 250)))
        tier.bucket.put(4, (281, 300), ((0, 0), (1, 250)))

    def stream(key: str, first: int, last: int) -> SegmentStream:
        return SegmentStream(key, first, last, piece)

    monkeypatch.setattr(scan_module, "SegmentStream", stream)
    monkeypatch.setattr(scan_module, "CHUNK_BYTES", size)
    options = {
        "maxPartitionBytes": str(size),
        "startingOffsets": json.dumps({TOPIC: {"0": start}}),
        "endingOffsets": json.dumps({TOPIC: {"0": end}}),
    }
    if start > end:
        said = error_of(lambda: tier.offsets(**options))
        assert said == f"The scan of orders-0 begins at {start}, which is beyond its end {end}"
    else:
        assert tier.offsets(**options) == list(range(start, end))


def test_a_large_segment_is_cut_into_tasks_and_small_ones_share_one(tier: Tier) -> None:
    tier.bucket.put(1, (0, 999))
    for number in range(10):
        first = 1000 + 10 * number
        tier.bucket.put(2 + number, (first, first + 9))
    size = sum(len(content) for key, content in tier.bucket.objects.items() if key[-4:] == ".log")
    tasks = tier.plan(maxPartitionBytes=str(size // 8))
    assert 7 <= len(tasks) <= 9
    assert max(task.nbytes for task in tasks) < size / 5
    assert [task.first_offset for task in tasks[1:]] == [task.end_offset for task in tasks[:-1]]


def test_offsets_are_named_as_sparks_kafka_source_names_them(tier: Tier) -> None:
    tier.bucket.put(1, (10, 99))
    assert tier.offsets(startingOffsets="earliest", endingOffsets="latest") == [*range(10, 100)]
    assert tier.offsets(endingOffsets=json.dumps({TOPIC: {"0": 12}})) == [10, 11]
    assert tier.offsets(startingOffsets=json.dumps({TOPIC: {"0": 97}})) == [97, 98, 99]
    assert tier.offsets(startingOffsets=json.dumps({TOPIC: {"0": -2}})) == [*range(10, 100)]


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"startingOffsets": "latest"}, "cannot begin at 'latest'"),
        ({"endingOffsets": "earliest"}, "cannot end at 'earliest'"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon'"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "JSON of the form"),
        ({"startingOffsets": '{"orders": {"1": 0}}'}, "orders-0 is missing"),
        ({"startingOffsets": '{"orders": {"0": 0, "1": 0}}'}, "names orders-1"),
        ({"startingOffsets": '{"orders": {"0": 9}}'}, "Offset 9 of orders-0 is not in the tier"),
        ({"endingOffsets": '{"orders": {"0": 101}}'}, "which holds 10 to 99"),
        ({"startingTimestamp": "991"}, "has the timestamp 991 ms"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp='yesterday'"),
        ({"isolation": "serializable"}, "isolation='serializable'"),
        ({"partition": "1"}, "no partition 1"),
        ({"partition": "x"}, "partition='x'"),
        ({"startingOffset": "3"}, "has no option 'startingoffset'; it has assign, columns, "),
        ({"topic": " ,"}, "No topics to subscribe to"),
        ({"topic": "order"}, "holds no topic 'order'; it holds orders"),
        ({"path": "nowhere"}, "path='nowhere' names no tier"),
        ({"path": "x::s3://user:password@host"}, "path='x::s3://***@host' names no tier"),
        ({"path": "file:///no/such/place"}, "There is no tier at file:///no/such/place"),
        ({"path": "gopher://x/y"}, "gopher://x/y cannot be opened"),
        ({"path": "s3://a::file://b"}, "chained URLs"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    tier: Tier, options: dict[str, str], mention: str
) -> None:
    tier.bucket.put(1, (10, 99))
    assert mention in error_of(lambda: tier.plan(**options))


def test_offsets_that_are_gone_may_be_passed_over(tier: Tier) -> None:
    tier.bucket.put(1, (10, 99))
    wanted = {"startingOffsets": '{"orders": {"0": 3}}', "endingOffsets": '{"orders": {"0": 200}}'}
    assert tier.offsets(**wanted, failOnDataLoss="false") == [*range(10, 100)]


def test_times_are_those_of_the_first_record_that_is_as_young(tier: Tier) -> None:
    """Offset n has the time 10 n; segments and batches without it are not read."""
    for number in range(5):
        tier.bucket.put(number + 1, (number * 20, number * 20 + 19))
    assert tier.offsets(startingTimestamp="421", endingTimestamp="450") == [43, 44]
    assert tier.offsets(startingTimestamp="980") == [98, 99]
    times = {"startingOffsetsByTimestamp": '{"orders": {"0": 970}}'}
    assert tier.offsets(**times, endingTimestamp="99999") == [97, 98, 99]
    later = {"startingTimestamp": "991", "startingOffsetsByTimestampStrategy": "latest"}
    assert tier.offsets(**later) == []


def test_of_records_with_the_same_time_the_first_is_found(tier: Tier) -> None:
    """The time index has the last offset of their batch."""
    times = (10, 20, 20)
    tier.bucket.put_log(1, bytes(build_batch([Record(0, time, None, b"") for time in times])))
    assert tier.offsets(startingTimestamp="20") == [1, 2]
    assert tier.offsets(endingTimestamp="20") == [0]


def test_a_damaged_index_only_makes_a_scan_slower(tier: Tier) -> None:
    metadata = tier.bucket.put(1, (0, 99))
    for suffix in ("index", "timeindex"):
        tier.bucket.damage(metadata, suffix, 4)
    assert tier.offsets(startingTimestamp="905", maxPartitionBytes="100") == [*range(91, 100)]


def test_partitions_are_chosen_and_may_be_empty(tier: Tier) -> None:
    topic = TopicDescription(4, {})
    for number in range(3):
        place = TopicIdPartition(PARTITION.topic_id, TOPIC, number)
        tier.bucket.put(number + 1, (0, 9 + number), partition=place, topic=topic)
    assert [task.partition for task in tier.plan()] == [0, 1, 2]
    assert [task.end_offset for task in tier.plan(partition="0, 2")] == [10, 12]
    assert tier.plan(partition="3") == []


@pytest.mark.parametrize("suffix", ["log", "manifest", "leader_epoch_checkpoint"])
def test_damage_of_one_partition_does_not_end_a_scan_of_another(tier: Tier, suffix: str) -> None:
    tier.bucket.objects.clear()
    tier.bucket.put(1, (0, 9))
    damaged = tier.bucket.put(2, (0, 9), partition=PARTITION._replace(partition=1))
    tier.bucket.put(3, (10, 19), partition=PARTITION._replace(partition=1))
    key = object_key(damaged, suffix)
    tier.bucket.objects[key] = tier.bucket.objects[key][:-1]
    for path in tier.directory.rglob("*"):
        if path.is_file():
            path.unlink()
    assert tier.offsets(partition="0") == [*range(10)]
    assert tier.plan(partition="0", startingOffsets='{"orders": {"0": 3}}')
    if suffix != "leader_epoch_checkpoint":  # the newer segment's checkpoint counts
        assert object_key(damaged, "manifest") in error_of(lambda: tier.plan(partition="1"))


def test_damage_that_may_hide_a_younger_topic_of_the_name_is_named(tier: Tier) -> None:
    younger = TopicIdPartition(Uuid(b"another topic id"), TOPIC, 1)
    damaged = tier.bucket.put(9, (0, 9), partition=younger)
    tier.bucket.objects[object_key(damaged, "manifest")] = b"no manifest"
    assert "the manifest cannot be read" in error_of(lambda: tier.plan(partition="0"))


def test_topics_whose_names_begin_alike_are_distinguished(tier: Tier) -> None:
    tier.bucket.put(1, (0, 9))
    tier.bucket.put(2, (0, 19), partition=PARTITION._replace(topic=f"{TOPIC}-eu"))
    assert tier.offsets() == [*range(10)]
    assert len(tier.offsets(topic=f"{TOPIC}-eu, {TOPIC}")) == 30


def test_a_hole_is_data_loss(tier: Tier) -> None:
    tier.bucket.put(1, (0, 9))
    tier.bucket.put(2, (20, 29))
    assert "no segment holds the offsets 10 to 19" in error_of(tier.plan)
    assert tier.offsets(failOnDataLoss="false") == [*range(10), *range(20, 30)]
    assert tier.offsets(startingOffsets='{"orders": {"0": 20}}') == [*range(20, 30)]


@pytest.mark.parametrize("codec", CompressionType)
def test_every_codec_is_decoded(tier: Tier, codec: CompressionType) -> None:
    log = b"".join(batch(first, 50, compression=codec) for first in range(0, 500, 50))
    tier.bucket.put_log(1, log)
    rows = tier.rows()
    assert [row["value"] for row in rows] == [b"v%d" % offset for offset in range(500)]


def test_markers_never_show_and_what_was_aborted_only_to_those_who_ask(tier: Tier) -> None:
    """Producer 7 aborts 0-4, commits 12-16; producer 8 aborts across two segments, 6-10."""

    def end(offset: int, producer: int, kind: ControlRecordType) -> bytes:
        marker = EndTransactionMarker(kind, 0)
        return bytes(
            build_control_batch(
                marker,
                0,
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                leader_epoch=0,
            )
        )

    def part(first: int, producer: int) -> bytes:
        return batch(first, 5, producer_id=producer, producer_epoch=0, is_transactional=True)

    abort, commit = ControlRecordType.ABORT, ControlRecordType.COMMIT
    first = part(0, 7) + end(5, 7, abort) + part(6, 8) + batch(11, 1)
    second = part(12, 7) + end(17, 7, commit) + end(18, 8, abort) + batch(19, 1)
    # Producer, first and last offset, last stable offset at that moment.
    of_first = TXN_ENTRY.pack(0, 7, 0, 5, 6)
    of_second = TXN_ENTRY.pack(0, 8, 6, 18, 19)
    tier.bucket.put_log(1, first, others={"txnindex": of_first})
    tier.bucket.put_log(2, second, others={"txnindex": of_second})
    everything = [*range(5), *range(6, 17), 19]
    assert tier.offsets() == everything
    committed = [*range(11, 17), 19]
    assert tier.offsets(isolation="read_committed") == committed
    assert tier.offsets(isolation="read_committed", maxPartitionBytes="100") == committed
    some = '{"orders": {"0": 8}}', '{"orders": {"0": 12}}'
    ends = {"startingOffsets": some[0], "endingOffsets": some[1]}
    assert tier.offsets(isolation="read_committed", **ends) == [11]


def test_a_transaction_index_that_is_damaged_is_not_passed_over(tier: Tier) -> None:
    entry = TXN_ENTRY.pack(0, 7, 0, 5, 6)
    metadata = tier.bucket.put_log(1, batch(0, 9), others={"txnindex": entry})
    tier.bucket.damage(metadata, "txnindex", 3)
    assert "aborted records cannot be filtered out" in error_of(
        lambda: tier.plan(isolation="read_committed")
    )


@pytest.mark.parametrize("batch_number", [0, 3, 9])
@pytest.mark.parametrize(("place", "mention"), [(7, "offset"), (8, "within a batch"), (80, "CRC")])
def test_a_flipped_bit_ends_the_scan(
    tier: Tier, batch_number: int, place: int, mention: str
) -> None:
    """In a base offset, which no CRC covers, in a length, in a record."""
    log = [batch(first, 10) for first in range(0, 100, 10)]
    metadata = tier.bucket.put_log(1, b"".join(log))
    tier.bucket.damage(metadata, "log", sum(map(len, log[:batch_number])) + place)
    said = error_of(tier.rows)
    assert object_key(metadata, "log") in said
    assert mention in said


def test_gaps_of_a_topic_that_was_compacted_once_may_be_passed_over(tier: Tier) -> None:
    tier.bucket.put_log(1, batch(0, 5) + batch(8, 2))
    assert "no record at the offsets 5 to 7" in error_of(tier.rows)
    assert tier.offsets(failOnDataLoss="false") == [*range(5), 8, 9]
    assert tier.offsets(mayBeCompacted="true") == [*range(5), 8, 9]


def test_a_lost_segment_is_no_gap_of_a_compaction(tier: Tier) -> None:
    tier.bucket.put(1, (0, 9))
    tier.bucket.put(2, (20, 29))
    assert "has lost records" in error_of(lambda: tier.rows(mayBeCompacted="true"))


def test_a_codec_that_is_not_known_is_named(tier: Tier) -> None:
    log = bytearray(batch(0, 5))
    log[22] |= 6
    stamp_crc(memoryview(log), 0, len(log))
    metadata = tier.bucket.put_log(1, bytes(log))
    said = error_of(tier.rows)
    assert object_key(metadata, "log") in said
    assert "Unknown compression type id" in said


def test_a_bound_by_time_names_the_batch_that_it_cannot_read(tier: Tier) -> None:
    """Its CRC is right: what is wrong was there when the checksum was made."""
    log = bytearray(batch(0, 5))
    log[57] = 0xFF
    stamp_crc(memoryview(log), 0, len(log))
    metadata = tier.bucket.put_log(1, bytes(log))
    said = error_of(lambda: tier.plan(startingTimestamp="20"))
    assert f"{object_key(metadata, 'log')}: the batch at offset 0 cannot be read" in said
    assert "invalid record count" in said


@pytest.mark.parametrize("largest", ["1000000", "400"])
def test_a_manifest_that_ends_before_its_log_is_named(tier: Tier, largest: str) -> None:
    """A flipped bit of the last offset would hide the newest records: nothing else names them."""
    metadata = tier.bucket.put_log(1, b"".join(batch(first, 10) for first in range(0, 100, 10)))
    key = object_key(metadata, "manifest")
    manifest = decode_manifest(tier.bucket.objects[key])
    for end_offset in (98, 89, 35):
        damaged = replace(metadata, end_offset=end_offset)
        tier.bucket.objects[key] = encode_manifest(manifest._replace(metadata=damaged))
        said = error_of(lambda: tier.rows(maxPartitionBytes=largest))
        assert object_key(metadata, "log") in said
        assert f"beyond offset {end_offset}, where its manifest ends" in said
        lenient = tier.offsets(maxPartitionBytes=largest, failOnDataLoss="false")
        assert lenient == list(range(end_offset + 1))


def test_a_broken_manifest_is_named(tier: Tier) -> None:
    tier.bucket.put(1, (0, 9))
    metadata = tier.bucket.put(2, (10, 19))
    key = object_key(metadata, "manifest")
    tier.bucket.objects[key] = b"no manifest"
    said = error_of(tier.plan)
    assert key in said
    assert "the manifest cannot be read" in said


def test_a_part_that_is_missing_is_named(tier: Tier) -> None:
    metadata = tier.bucket.put(1, (0, 9))
    del tier.bucket.objects[object_key(metadata, "log")]
    assert "log is missing" in error_of(tier.plan)


def test_a_segment_that_went_away_after_planning_is_data_loss(tier: Tier) -> None:
    tier.bucket.put(1, (0, 9))
    (task,) = tier.plan()
    (tier.directory / task.ranges[0].key).unlink()
    options = scan_options(tier.options())
    assert "is gone from the tier" in error_of(lambda: list(read_task(options, task)))
    lenient = scan_options(tier.options(failOnDataLoss="false"))
    assert list(read_task(lenient, task)) == []


def test_of_two_topics_of_one_name_the_stated_one_is_read_or_none(tier: Tier) -> None:
    """The one that was written to last is read; whoever relies on its offsets states its id."""
    again = PARTITION._replace(topic_id=Uuid(b"the second topic"))
    tier.bucket.put(1, (0, 99))
    tier.bucket.put(2, (0, 199), partition=again)
    stated = {
        each: json.dumps({TOPIC: uuid_to_string(each.topic_id)}) for each in (PARTITION, again)
    }
    assert tier.offsets(topicIds=stated[again]) == [*range(200)]
    error = error_of(lambda: tier.offsets(topicIds=stated[PARTITION]))
    assert "topic 'orders' was deleted and created again" in error
    for text in ("[]", "{", '{"orders": 1}', '{"orders": "short"}'):
        assert "topicIds" in error_of(partial(tier.offsets, topicIds=text))

"""With read_committed, a scan ends before a transaction whose outcome is not in the tier yet.

Its marker is in the next segment, which is copied later: until then the tier alone cannot say
whether the records are committed. Kafka's `latest` is the last stable offset, too.
"""

import asyncio
import os
from pathlib import Path
from struct import Struct
from typing import Any, cast

import pytest

from tierlog.clients.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record
from tierlog.clients.record.builder import build_batch, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan import plan_on
from tierlog.pipeline.reading.scan_options import ScanError, scan_options
from tierlog.pipeline.spark.streaming.stream_offset import stream_offset_from_json
from tierlog.pipeline.spark.streaming.stream_reader import TierlogStreamReader
from tierlog.pipeline.spark.tier_source import TierSource
from tierlog.storage.producer.producer_entry import ProducerEntry
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.tests.pipeline.reading.counted_tier import CountedTier
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.remote_url import RemoteUrl

TXN_ENTRY = Struct(">hqqqq")
PRODUCER = 7


def part(first: int, last: int, *, is_transactional: bool = True) -> bytes:
    records = [Record(each, 1000 + each, None, b"value", ()) for each in range(first, last + 1)]
    producer = (PRODUCER, 0) if is_transactional else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return bytes(
        build_batch(
            records,
            base_offset=first,
            leader_epoch=0,
            is_transactional=is_transactional,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
    )


def abort(offset: int) -> bytes:
    marker = EndTransactionMarker(ControlRecordType.ABORT, 0)
    return bytes(
        build_control_batch(
            marker,
            0,
            base_offset=offset,
            producer_id=PRODUCER,
            producer_epoch=0,
            leader_epoch=0,
        )
    )


def snapshot(open_from: int | None) -> bytes:
    """What a broker copies with a segment: its producers' state at the segment's end."""
    entry = ProducerEntry(PRODUCER, 0)
    entry.current_txn_first_offset = open_from
    return encode_snapshot([entry])


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    """Offsets 0 to 4 without a transaction, and 5 to 9 of one that is open at the end."""
    made = Tier(tmp_path / "tier")
    log = part(0, 4, is_transactional=False) + part(5, 9)
    made.bucket.put_log(1, log, others={"snapshot": snapshot(5)})
    made.write()
    return made


def copy_its_end(tier: Tier) -> None:
    """The next segment, with the marker: it was aborted."""
    log = abort(10) + part(11, 12, is_transactional=False)
    entry = TXN_ENTRY.pack(0, PRODUCER, 5, 10, 11)
    tier.bucket.put_log(2, log, others={"snapshot": snapshot(None), "txnindex": entry})
    tier.write()


def test_records_of_a_transaction_do_not_show_before_its_outcome_is_in_the_tier(
    tier: Tier,
) -> None:
    assert tier.offsets() == [*range(10)]
    assert tier.offsets(isolation="read_committed") == [*range(5)]
    copy_its_end(tier)
    assert tier.offsets(isolation="read_committed") == [*range(5), 11, 12]


def test_an_end_beyond_it_is_refused_in_a_sentence_or_taken_back(tier: Tier) -> None:
    stated = {"isolation": "read_committed", "endingOffsets": '{"orders": {"0": 8}}'}
    with pytest.raises(ScanError) as refused:
        tier.plan(**stated)
    assert str(refused.value) == (
        "Offset 8 of orders-0 is beyond 5, where a transaction begins whose end is not in the tier "
        "yet: read_committed reads up to there (failOnDataLoss=false reads what is there)"
    )
    assert tier.offsets(**stated, failOnDataLoss="false") == [*range(5)]
    copy_its_end(tier)
    assert tier.offsets(**stated) == [*range(5)]


def test_a_stream_reads_nothing_again_while_nothing_has_come(
    tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks for the end many times a second, for months."""
    reads: list[str] = []
    read = TierFileSystem.read

    async def counted(
        self: TierFileSystem, key: str, start: int | None = None, end: int | None = None
    ) -> bytes:
        reads.append(key.rpartition(".")[2])
        return await read(self, key, start, end)

    monkeypatch.setattr(TierFileSystem, "read", counted)
    options = scan_options(tier.options(isolation="read_committed"), streaming=True)
    reader = TierlogStreamReader(options)
    first = reader.latestOffset()
    assert sorted(reads) == ["leader_epoch_checkpoint", "manifest", "snapshot"]
    reads.clear()
    assert reader.latestOffset() == first
    assert reads == []
    copy_its_end(tier)
    assert reader.latestOffset() != first
    assert sorted(reads) == ["leader_epoch_checkpoint", "manifest", "snapshot"]
    reader.stop()


def test_an_end_by_time_does_not_pass_it(tier: Tier) -> None:
    stated = {"isolation": "read_committed", "endingTimestamp": "1007"}
    assert tier.offsets(**stated) == [*range(5)]
    assert tier.offsets(isolation="read_committed", endingTimestamp="1003") == [0, 1, 2]


def test_a_start_beyond_it_reads_nothing(tier: Tier) -> None:
    """As an earlier run may have stored it."""
    stated = {"isolation": "read_committed", "startingOffsets": '{"orders": {"0": 9}}'}
    assert tier.plan(**stated) == []


def test_an_empty_range_beyond_it_does_not_stop_the_other_partitions(tier: Tier) -> None:
    """So a job reads on that has read further with `read_uncommitted`."""
    partition = TopicIdPartition(PARTITION.topic_id, TOPIC, 1)
    log = part(0, 4, is_transactional=False)
    tier.bucket.put_log(3, log, partition=partition, others={"snapshot": snapshot(None)})
    rows = tier.offsets(
        isolation="read_committed",
        startingOffsets='{"orders": {"0": 8, "1": 0}}',
        endingOffsets='{"orders": {"0": 8, "1": 5}}',
    )
    assert rows == [*range(5)]


def test_a_lost_segment_that_may_hold_the_outcome_ends_the_scan(tier: Tier) -> None:
    # The segment with the marker, of offsets 10 to 12, is not there.
    tier.bucket.put_log(3, part(13, 20, is_transactional=False))
    stated = {"isolation": "read_committed", "endingOffsets": '{"orders": {"0": 10}}'}
    with pytest.raises(ScanError) as refused:
        tier.plan(**stated)
    assert str(refused.value) == (
        "The tier has lost how the transaction at offset 5 of orders-0 has ended: no segment holds "
        "the offsets 10 to 12 (failOnDataLoss=false reads its records as committed)"
    )
    assert tier.offsets(**stated, failOnDataLoss="false") == [*range(10)]
    before = {**stated, "endingOffsets": '{"orders": {"0": 5}}'}
    assert tier.offsets(**before) == [*range(5)]


def test_a_lost_segment_after_the_outcome_does_not_matter(tier: Tier) -> None:
    copy_its_end(tier)
    tier.bucket.put_log(3, part(15, 20, is_transactional=False))
    stated = {"isolation": "read_committed", "endingOffsets": '{"orders": {"0": 13}}'}
    assert tier.offsets(**stated) == [*range(5), 11, 12]


def test_an_outcome_behind_a_lost_segment_is_found(tier: Tier) -> None:
    entry = TXN_ENTRY.pack(0, PRODUCER, 5, 13, 14)
    log = abort(13) + part(14, 20, is_transactional=False)
    tier.bucket.put_log(3, log, others={"txnindex": entry})
    stated = {"isolation": "read_committed", "endingOffsets": '{"orders": {"0": 10}}'}
    assert tier.offsets(**stated) == [*range(5)]


def test_a_job_gets_the_range_that_is_decided(tier: Tier) -> None:
    location = RemoteUrl(tier.directory.as_uri())
    (committed,) = TierSource(location, [TOPIC], "read_committed").ranges().values()
    (everything,) = TierSource(location, [TOPIC], "read_uncommitted").ranges().values()
    assert (committed, everything) == ((0, 5), (0, 10))


def test_a_job_reads_again_what_it_has_read_wrong(tier: Tier) -> None:
    """A job that repeats does so in one process, which keeps small objects."""
    (path,) = tier.directory.rglob("*.leader_epoch_checkpoint")
    content, written_ns = path.read_bytes(), path.stat().st_mtime_ns
    source = TierSource(RemoteUrl(tier.directory.as_uri()), [TOPIC], "read_committed")
    path.write_bytes(bytes(len(content)))
    os.utime(path, ns=(written_ns, written_ns))
    with pytest.raises(ScanError, match="leader_epoch_checkpoint does not match the manifest"):
        source.ranges()
    path.write_bytes(content)
    os.utime(path, ns=(written_ns, written_ns))
    assert [*source.ranges().values()] == [(0, 5)]


def test_each_of_many_small_tasks_knows_its_own_aborted_transactions(tier: Tier) -> None:
    """One that began first ends last, and others end in between."""
    other, third = PRODUCER + 1, PRODUCER + 2
    entries = [(third, 10, 12, 5), (other, 11, 14, 5), (PRODUCER, 5, 15, 16), (third, 17, 18, 19)]
    index = b"".join(
        TXN_ENTRY.pack(0, producer, first, last, stable)
        for producer, first, last, stable in entries
    )
    log = part(10, 20, is_transactional=False)
    tier.bucket.put_log(2, log, others={"snapshot": snapshot(None), "txnindex": index})
    tasks = tier.plan(isolation="read_committed", maxRecordsPerPartition="1")
    found = [[txn.producer_id for txn in task.aborted] for task in tasks]
    assert found == [
        [producer for producer, first, last, _ in entries if first <= offset <= last]
        for offset in range(21)
    ]


def test_the_index_of_a_segment_of_many_leaders_is_read_once() -> None:
    bucket = Bucket()
    log = b"".join(part(each, each, is_transactional=False) for each in range(50))
    entry = TXN_ENTRY.pack(0, PRODUCER, 0, 1, 2)
    history = [(each, each) for each in range(50)]
    bucket.put_log(1, log, history, others={"txnindex": entry})
    tier = CountedTier(bucket)
    stated = {"path": "/tier", "topic": TOPIC, "isolation": "read_committed"}
    (task,) = asyncio.run(plan_on(tier, scan_options(stated)))
    assert task.end_offset == 50
    assert tier.requests["txnindex"] == 1


def test_a_damaged_snapshot_of_the_last_segment_ends_the_scan(tier: Tier) -> None:
    (key,) = (key for key in tier.bucket.objects if key.endswith(".snapshot"))
    tier.bucket.objects[key] = bytes(len(tier.bucket.objects[key]))
    with pytest.raises(ScanError, match="so open transactions cannot be found"):
        tier.plan(isolation="read_committed")
    assert tier.offsets() == [*range(10)]


def test_a_stream_waits_for_the_outcome(tier: Tier) -> None:
    stated = tier.options(isolation="read_committed", startingOffsets="earliest")
    reader = TierlogStreamReader(scan_options(stated, streaming=True))
    try:
        start = reader.initialOffset()
        first = reader.latestOffset()
        assert offsets_of(reader, start, first) == [*range(5)]
        copy_its_end(tier)
        second = reader.latestOffset()
        assert offsets_of(reader, first, second) == [11, 12]
    finally:
        reader.stop()


def test_a_stream_that_begins_at_the_end_begins_before_it(tier: Tier) -> None:
    stated = tier.options(isolation="read_committed", startingOffsets="latest")
    reader = TierlogStreamReader(scan_options(stated, streaming=True))
    try:
        start = reader.initialOffset()
        copy_its_end(tier)
        assert offsets_of(reader, start, reader.latestOffset()) == [11, 12]
        assert [*stream_offset_from_json(start).offsets.values()] == [5]
    finally:
        reader.stop()


def offsets_of(reader: object, start: object, end: object) -> list[int]:
    stream = cast("Any", reader)
    return [
        row["offset"]
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for row in batch.to_pylist()
    ]

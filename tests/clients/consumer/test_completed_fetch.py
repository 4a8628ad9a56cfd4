"""What a fetch brought is read past markers, aborted transactions and what was not asked for."""

import pytest

from tierlog.clients.consumer.completed_fetch import CompletedFetch, UndecodableRecordsError
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import AbortedTransaction, PartitionData
from tierlog.clients.record.batch import Record, batches, stamp_crc
from tierlog.clients.record.builder import build_batch, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.clients.record.golden import golden_segment

PARTITION = TopicPartition("t", 0)


def fetched(
    data: bytes | bytearray,
    offset: int = 0,
    aborted: list[tuple[int, int]] | None = None,
    high_watermark: int = 0,
) -> CompletedFetch:
    """As the fetcher makes it; `aborted` are producer ids with first offsets."""
    transactions = [
        AbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first in aborted or ()
    ]
    answer = PartitionData(
        records=memoryview(data), aborted_transactions=transactions, high_watermark=high_watermark
    )
    return CompletedFetch(PARTITION, offset, answer, check_crcs=True)


def transactional(producer_id: int, value: bytes, offset: int) -> bytearray:
    return build_batch(
        [Record(0, 0, None, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(producer_id: int, kind: ControlRecordType, offset: int) -> bytearray:
    return build_control_batch(
        EndTransactionMarker(kind, 0),
        0,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
    )


def values(fetch: CompletedFetch) -> list[bytes | None]:
    return [record.value for record in fetch.take(1000)]


def test_kafkas_own_transactions_read_uncommitted_and_committed() -> None:
    segment = golden_segment("txn")
    producer_id = next(batches(segment)).producer_id
    assert values(fetched(segment)) == [b"aborted", b"committed"]
    committed = fetched(segment, aborted=[(producer_id, 0)])
    assert values(committed) == [b"committed"]
    assert committed.next_offset == 4  # past the last marker
    assert committed.is_drained


def test_interleaved_transactions_end_at_their_own_markers() -> None:
    data = b"".join(
        (
            transactional(1, b"one aborted", 0),
            transactional(2, b"two committed", 1),
            transactional(1, b"one aborted too", 2),
            marker(2, ControlRecordType.COMMIT, 3),
            marker(1, ControlRecordType.ABORT, 4),
            transactional(1, b"one committed", 5),
            marker(1, ControlRecordType.COMMIT, 6),
        )
    )
    assert values(fetched(data, aborted=[(1, 0)])) == [b"two committed", b"one committed"]


def test_records_before_the_fetch_offset_are_left_out() -> None:
    data = build_batch([Record(0, 0, None, b"%d" % number) for number in range(5)])
    fetch = fetched(data + build_batch([Record(0, 0, None, b"5")], base_offset=5), offset=3)
    assert values(fetch) == [b"3", b"4", b"5"]


def test_records_are_taken_a_few_at_a_time_and_the_position_follows() -> None:
    fetch = fetched(build_batch([Record(0, 0, None, b"%d" % n) for n in range(5)], leader_epoch=7))
    assert [record.offset for record in fetch.take(2)] == [0, 1]
    assert (fetch.next_offset, fetch.is_drained) == (2, False)
    assert [record.leader_epoch for record in fetch.take(2)] == [7, 7]
    assert [record.offset for record in fetch.take(2)] == [4]
    assert (fetch.next_offset, fetch.is_drained, fetch.last_epoch) == (5, True, 7)


@pytest.mark.parametrize("data", [b"", b"\x00" * 10])
def test_nothing_whole_is_no_record(data: bytes) -> None:
    fetch = fetched(data, offset=3)
    assert fetch.take(10) == []
    assert (fetch.next_offset, fetch.is_drained) == (3, True)


def garbage(offset: int, count: int = 3) -> bytearray:
    """A batch with a right CRC whose records are none."""
    batch = build_batch([Record(0, 0, None, b"x" * 20) for _ in range(count)], base_offset=offset)
    batch[61:] = b"\xff" * (len(batch) - 61)
    with memoryview(batch) as view:
        stamp_crc(view, 0, len(batch))
    return batch


def test_records_that_cannot_be_decoded_are_an_error_that_says_where_to_go_on() -> None:
    data = (
        build_batch([Record(0, 0, None, b"0")])
        + garbage(1)
        + build_batch([Record(0, 0, None, b"4")], base_offset=4)
    )
    fetch = fetched(data)
    assert values(fetch) == [b"0"]
    assert not fetch.is_drained
    for _ in range(2):
        with pytest.raises(UndecodableRecordsError) as failed:
            fetch.take(10)
        error = failed.value
        assert (error.partition, error.offset, error.next_offset) == (PARTITION, 1, 4)
        assert error.code is not ErrorCode.CORRUPT_MESSAGE


def test_a_damaged_batch_is_an_error_that_says_where_to_go_on() -> None:
    data = build_batch([Record(0, 0, None, b"%d" % number) for number in range(5)])
    data[-1] ^= 1
    with pytest.raises(UndecodableRecordsError) as failed:
        fetched(data, offset=2).take(10)
    assert (failed.value.offset, failed.value.next_offset) == (2, 5)
    assert failed.value.code is ErrorCode.CORRUPT_MESSAGE


def pairs(*base_offsets: int) -> bytes:
    """Batches of two records each, that say that they begin at these offsets."""
    return b"".join(
        build_batch([Record(0, 0, None, b"x")] * 2, base_offset=offset) for offset in base_offsets
    )


@pytest.mark.parametrize("wrong", [2**60 + 2, 66, 6, 3, 1, 0])
def test_a_batch_with_a_wrong_base_offset_is_an_error_and_others_go_on(wrong: int) -> None:
    data = pairs(0, wrong, 4, 6)
    fetch = fetched(data, high_watermark=8)
    assert [record.offset for record in fetch.take(10)] == [0, 1]
    with pytest.raises(UndecodableRecordsError) as failed:
        fetch.take(10)
    assert failed.value.offset == 2
    assert 2 < failed.value.next_offset <= 4
    assert failed.value.code is ErrorCode.CORRUPT_MESSAGE
    # The broker may find the wrong batch again, and send it first.
    behind = fetched(pairs(wrong, 4, 6), offset=4, high_watermark=8)
    assert [record.offset for record in behind.take(10)] == [4, 5, 6, 7]


def test_a_last_batch_beyond_the_high_watermark_is_an_error() -> None:
    fetch = fetched(pairs(0, 2**60), high_watermark=4)
    assert len(fetch.take(10)) == 2
    with pytest.raises(UndecodableRecordsError) as failed:
        fetch.take(10)
    assert (failed.value.offset, failed.value.next_offset) == (2, 4)


def test_a_batch_that_was_written_while_the_broker_answered_is_read() -> None:
    """Kafka takes the high watermark of its answer before it reads (`Partition.readRecords`)."""
    data = build_batch([Record(0, 0, None, b"new")], base_offset=4)
    late = fetched(data, offset=4, high_watermark=4)
    assert values(late) == [b"new"]
    assert late.next_offset == 5
    following = data + build_batch([Record(0, 0, None, b"newer")], base_offset=5)
    assert values(fetched(following, offset=4, high_watermark=5)) == [b"new", b"newer"]


def test_offsets_that_compaction_has_left_out_are_no_error() -> None:
    fetch = fetched(pairs(3, 9, 30), high_watermark=40)
    assert [record.offset for record in fetch.take(10)] == [3, 4, 9, 10, 30, 31]


def test_a_batch_that_ends_before_it_begins_is_an_error() -> None:
    data = bytearray(pairs(0, 2, 4))
    data[len(data) // 3 + 23] ^= 0x80
    fetch = fetched(data, high_watermark=6)
    assert len(fetch.take(10)) == 2
    with pytest.raises(UndecodableRecordsError) as failed:
        fetch.take(10)
    assert (failed.value.offset, failed.value.next_offset) == (2, 4)

"""What a fetch brought is read past markers, aborted transactions and what was not asked for."""

import pytest

from tierlog.clients.completed_fetch import CompletedFetch
from tierlog.clients.protocol.messages.fetch import AbortedTransaction, PartitionData
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import build_batch, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.clients.record.golden import golden_segment

PARTITION = TopicPartition("t", 0)


def fetched(
    data: bytes | bytearray, offset: int = 0, aborted: list[tuple[int, int]] | None = None
) -> CompletedFetch:
    """As the fetcher makes it; `aborted` are producer ids with first offsets."""
    transactions = [
        AbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first in aborted or ()
    ]
    answer = PartitionData(records=memoryview(data), aborted_transactions=transactions)
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

"""Which batch of an idempotent or transactional producer comes next (I1 to I6, T10, T11)."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import MAX_INT32, RecordBatch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.storage.producer.producer_entry import AppendOrigin, CompletedTxn, ProducerEntry
from tierlog.tests.storage.log_home import idempotent, marker


def batch(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, txn: bool = False
) -> RecordBatch:
    made = RecordBatch(idempotent(sequence, count, epoch=epoch, txn=txn))
    made.assign(offset, 0)
    return made


def refusal(entry: ProducerEntry, sent: RecordBatch) -> ErrorCode | None:
    try:
        entry.check_data_batch(sent, AppendOrigin.CLIENT)
    except KafkaError as error:
        return error.code
    return None


def known(*batches: RecordBatch) -> ProducerEntry:
    entry = ProducerEntry(7)
    for sent in batches:
        entry.append_data_batch(sent)
    return entry


def test_a_producer_that_is_not_known_may_start_anywhere() -> None:
    assert refusal(ProducerEntry(7), batch(41)) is None


def test_a_transaction_starts_at_zero_where_the_log_has_no_batch_of_its_producer() -> None:
    ProducerEntry(7).check_transaction_start(batch(0, txn=True))
    known(batch(0, 3)).check_transaction_start(batch(3, txn=True))
    with pytest.raises(KafkaError) as refused:
        ProducerEntry(7).check_transaction_start(batch(3, txn=True))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_next_number_follows_the_last() -> None:
    entry = known(batch(0, 3))
    assert refusal(entry, batch(3)) is None
    assert refusal(entry, batch(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(entry, batch(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_the_largest_number_comes_zero() -> None:
    entry = known(batch(MAX_INT32 - 1, 2))
    assert refusal(entry, batch(0)) is None
    assert refusal(entry, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_across_the_wrap_is_recognised_as_a_repeat() -> None:
    entry = known(batch(MAX_INT32 - 1, 4, offset=50))
    duplicate = entry.find_duplicate(batch(MAX_INT32 - 1, 4))
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (50, 53)
    assert entry.last_sequence == 1


def test_a_batch_of_another_epoch_repeats_nothing() -> None:
    entry = known(batch(0, 2, epoch=1))
    assert entry.find_duplicate(batch(0, 2, epoch=1)) is not None
    assert entry.find_duplicate(batch(0, 2, epoch=0)) is None
    assert entry.find_duplicate(batch(0, 2, epoch=2)) is None


def test_the_last_five_batches_are_recognised_and_no_older_one() -> None:
    entry = known(*(batch(i, offset=i) for i in range(7)))
    assert entry.find_duplicate(batch(1)) is None
    assert refusal(entry, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(2, 7):
        duplicate = entry.find_duplicate(batch(sequence))
        assert duplicate is not None
        assert duplicate.first_offset == sequence


def test_a_partial_overlap_is_no_repeat() -> None:
    entry = known(batch(0, 3))
    assert entry.find_duplicate(batch(0, 2)) is None
    assert entry.find_duplicate(batch(1, 2)) is None
    assert refusal(entry, batch(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    entry = known(batch(0, 3))
    assert refusal(entry, batch(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(entry, batch(0, epoch=1)) is None
    entry.append_data_batch(batch(0, epoch=1))
    assert entry.find_duplicate(batch(0, 3)) is None
    assert len(entry.batches) == 1


def test_an_old_epoch_is_fenced() -> None:
    assert refusal(known(batch(0, epoch=5)), batch(1, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_replicas_take_what_the_leader_accepted() -> None:
    entry = known(batch(0, epoch=5))
    entry.check_data_batch(batch(77, epoch=4), AppendOrigin.REPLICATION)


def test_within_a_transaction_all_batches_are_transactional() -> None:
    entry = known(batch(0, txn=True, offset=12))
    assert entry.current_txn_first_offset == 12
    assert refusal(entry, batch(1)) is ErrorCode.INVALID_TXN_STATE
    assert refusal(entry, batch(1, txn=True)) is None


def end(entry: ProducerEntry, kind: ControlRecordType, **fields: int) -> CompletedTxn | None:
    sent = RecordBatch(marker(kind, **fields))
    sent.assign(99, 0)
    coordinator_epoch = fields.get("coordinator_epoch", 0)
    return entry.append_marker(sent, EndTransactionMarker(kind, coordinator_epoch))


def test_a_marker_ends_the_transaction_and_says_how() -> None:
    entry = known(batch(0, txn=True, offset=12))
    assert end(entry, ControlRecordType.ABORT) == CompletedTxn(7, 12, 99, is_aborted=True)
    assert entry.current_txn_first_offset is None
    assert refusal(entry, batch(1)) is None


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    entry = known(batch(0))
    assert end(entry, ControlRecordType.COMMIT) is None
    assert end(entry, ControlRecordType.COMMIT) is None


def test_a_marker_of_a_new_epoch_fences_the_old_one() -> None:
    entry = known(batch(0, txn=True))
    end(entry, ControlRecordType.ABORT, epoch=1)
    assert refusal(entry, batch(1, txn=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(entry, batch(0, txn=True, epoch=1)) is None


def test_an_old_coordinator_is_fenced() -> None:
    entry = known(batch(0, txn=True))
    end(entry, ControlRecordType.ABORT, coordinator_epoch=3)
    old = EndTransactionMarker(ControlRecordType.COMMIT, 2)
    with pytest.raises(KafkaError) as caught:
        entry.check_marker(RecordBatch(marker(ControlRecordType.COMMIT)), old)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED

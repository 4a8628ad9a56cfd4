"""Transactions in a log: the last stable offset, and what is told of aborted ones."""

from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.storage.log_home import (
    NOW_MS,
    LogHome,
    append,
    content,
    end_transaction,
    fetch,
    idempotent,
    offsets_in,
    plain,
)

COMMITTED = FetchIsolation.TXN_COMMITTED


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_read_committed_stops_at_the_first_open_transaction(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    append(log, plain(2))
    append(log, idempotent(0, 2, txn=True))
    append(log, plain(2))
    assert log.last_stable_offset == 2
    assert offsets_in(fetch(log, 0, COMMITTED)) == [0]
    assert content(fetch(log, 2, COMMITTED)) == b""
    end_transaction(log, ControlRecordType.COMMIT)
    assert log.last_stable_offset == 7
    found = fetch(log, 0, COMMITTED)
    assert (offsets_in(found), found.aborted_transactions) == ([0, 2, 4, 6], [])


def test_a_decided_transaction_counts_once_its_marker_is_replicated(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    append(log, idempotent(0, txn=True))
    end_transaction(log, ControlRecordType.COMMIT)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 1
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_read_committed_gets_the_aborted_transactions_in_its_range(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    append(log, idempotent(0, 2, producer=1, txn=True))
    append(log, idempotent(0, 2, producer=2, txn=True))
    end_transaction(log, ControlRecordType.ABORT, producer=1)
    end_transaction(log, ControlRecordType.COMMIT, producer=2)
    aborted = AbortedTxn(1, 0, 4, 2)
    assert fetch(log, 0, COMMITTED).aborted_transactions == [aborted]
    assert fetch(log, 4, COMMITTED).aborted_transactions == [aborted]
    assert fetch(log, 5, COMMITTED).aborted_transactions == []
    assert fetch(log, 0).aborted_transactions is None


def test_an_abort_in_a_later_segment_is_returned_to_readers_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    log = LogHome(tmp_path).open()
    append(log, idempotent(0, 2, txn=True))
    log.roll(NOW_MS)
    append(log, plain(2))
    log.roll(NOW_MS)
    end_transaction(log, ControlRecordType.ABORT)
    assert fetch(log, 0, COMMITTED).aborted_transactions == [AbortedTxn(7, 0, 4, 5)]


def test_an_abort_is_returned_whatever_was_read_appended_or_cut_before(tmp_path: Path) -> None:
    home = LogHome(tmp_path)
    log = home.open()
    append(log, idempotent(0, 2, txn=True))
    assert fetch(log, 0, FetchIsolation.LOG_END).aborted_transactions is None
    assert fetch(log, 0, COMMITTED).aborted_transactions == []
    log.roll(NOW_MS)
    end_transaction(log, ControlRecordType.ABORT)
    aborted = AbortedTxn(7, 0, 2, 3)
    assert fetch(log, 0, COMMITTED).aborted_transactions == [aborted]
    log.roll(NOW_MS)
    append(log, plain(2))
    assert fetch(log, 0, COMMITTED).aborted_transactions == [aborted]
    assert fetch(log, 3, COMMITTED).aborted_transactions == []
    log.truncate_to(3)
    assert fetch(log, 0, COMMITTED).aborted_transactions == [aborted]
    log.truncate_to(2)
    end_transaction(log, ControlRecordType.COMMIT)
    found = fetch(log, 0, COMMITTED)
    assert (offsets_in(found), found.aborted_transactions) == ([0, 2], [])


def test_only_the_newest_coordinator_may_end_a_transaction(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    append(log, idempotent(0, epoch=3, txn=True))
    with pytest.raises(KafkaError) as caught:
        end_transaction(log, ControlRecordType.COMMIT, epoch=2)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH

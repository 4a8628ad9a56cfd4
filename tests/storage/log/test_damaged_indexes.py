"""One flipped bit in an index: every answer stays what it was, and the file is named."""

from pathlib import Path

import pytest

from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import (
    NOW_MS,
    LogHome,
    append,
    content,
    end_transaction,
    everything,
    fetch,
    idempotent,
    plain,
)

STEPS = 14


def filled(home: LogHome) -> UnifiedLog:
    """Three segments of records that grow younger, with aborted transactions in each."""
    log = home.open()
    for step in range(STEPS):
        append(log, plain(2, NOW_MS + 10 * step))
        append(log, idempotent(2 * step, 2, producer=8, txn=True))
        end_transaction(log, ControlRecordType.ABORT, producer=8)
    return log


def answers(log: UnifiedLog) -> list[object]:
    """What readers by offset, by time and of committed records are told."""
    log.update_high_watermark(log.log_end_offset)
    said: list[object] = [everything(log), log.log_end_offset]
    for offset in range(log.log_end_offset):
        read = fetch(log, offset, FetchIsolation.TXN_COMMITTED, 150)
        end = list(batches(content(read)))[-1].next_offset
        # Of what lies behind the read more may be told than is needed.
        aborted = [txn for txn in read.aborted_transactions or () if txn.first_offset < end]
        said += [content(read), [(txn.producer_id, txn.first_offset) for txn in aborted]]
    said += [log.offset_for_timestamp(NOW_MS + 10 * step - 5) for step in range(STEPS + 1)]
    said += [segment.largest_timestamp for segment in log.local.segments]
    return said


def damaged(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_flipped_bit_changes_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, which: int
) -> None:
    home = LogHome(tmp_path)
    log = filled(home)
    log.close(NOW_MS)
    log.release()
    path = home.path / home.names(suffix)[which]
    original = path.read_bytes()
    expected = answers(home.open())
    assert original
    files = {each: each.read_bytes() for each in home.path.iterdir()}
    for bit in range(which % 5, 8 * len(original), 31):
        caplog.clear()
        for each in set(home.path.iterdir()) - set(files):
            each.unlink()
        for each, whole in files.items():
            each.write_bytes(whole)
        path.write_bytes(damaged(original, bit))
        again = home.open()
        assert answers(again) == expected, f"bit {bit} of {path.name}"
        messages = [record.getMessage() for record in caplog.records]
        assert all(str(home.path) in line for line in messages)
        again.release()
        assert home.log_dir.is_online

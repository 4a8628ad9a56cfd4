"""Shared by tests: log directories with history, and damage to them."""

from pathlib import Path

from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import LogHome, append, end_transaction, idempotent


def lived_in(home: LogHome, count: int = 20) -> UnifiedLog:
    """Several segments, epochs, producers, aborted and committed transactions."""
    log = home.open()
    for step in range(count):
        append(log, idempotent(2 * step, 2), step // 8)
        append(log, idempotent(3 * step, 3, producer=8, txn=True), step // 8)
        if step % 4 == 3:
            kind = ControlRecordType.ABORT if step % 8 == 3 else ControlRecordType.COMMIT
            end_transaction(log, kind, producer=8)
    return log


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)

"""A compacted log for the stories about cleaning: what is written, how it is cleaned, what is left.

Keys and values are text; a value of None is a tombstone. A cleaning here runs all of its steps one
after the other, as a thread would, and its time is handed in.
"""

from collections.abc import Iterable
from dataclasses import replace

from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.log.unified_log import UnifiedLog

from .log_home import NOW_MS, SMALL, append, everything

HOUR_MS = 3_600_000
COMPACTED = replace(
    SMALL, cleanup_policy=("compact",), segment_bytes=400, delete_retention_ms=HOUR_MS
)

Pair = tuple[str, str | None]


def keyed(*pairs: Pair, compression: CompressionType = CompressionType.NONE) -> memoryview:
    """A batch of these keys and values."""
    return memoryview(
        build_batch([record(key, value) for key, value in pairs], compression=compression)
    )


def record(key: str, value: str | None) -> Record:
    return Record(0, NOW_MS, key.encode(), None if value is None else value.encode())


def put(log: UnifiedLog, *pairs: Pair) -> None:
    append(log, keyed(*pairs))


def roll(log: UnifiedLog) -> None:
    """Close the active segment, so that all of the log can be cleaned."""
    log.roll(NOW_MS)


def clean(log: UnifiedLog, *, now_ms: int = NOW_MS, first_dirty: int = 0, slots: int = 1000) -> int:
    """Clean the log as far as it may be; where the next cleaning has to begin."""
    config = CleanerConfig(
        dedupe_buffer_size=slots * 192, io_buffer_load_factor=1.0, io_buffer_size=100
    )
    log.flush()
    cleaning = LogCleaning(measure(log, first_dirty, now_ms), config, now_ms)
    run(cleaning.read_keys())
    for group in cleaning.groups():
        run(cleaning.clean(group))
        assert cleaning.swap(group, now_ms)
    return cleaning.cleaned_up_to


def run(steps: Iterable[int]) -> None:
    assert all(size >= 0 for size in steps)


def surviving(log: UnifiedLog) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of every record that is left; those of markers are left out."""
    return [
        (
            each.offset,
            (each.key or b"").decode(),
            None if each.value is None else each.value.decode(),
        )
        for batch in all_batches(log)
        if not batch.is_control
        for each in batch.records()
    ]


def offsets(log: UnifiedLog) -> list[int]:
    return [offset for offset, _, _ in surviving(log)]


def all_batches(log: UnifiedLog) -> list[RecordBatch]:
    found = list(batches(everything(log)))
    for batch in found:
        batch.ensure_valid()
    return found


def last_values(records: Iterable[tuple[int, str, str | None]]) -> dict[str, str]:
    """What a reader of the records ends up with: the table that the log describes."""
    table: dict[str, str] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table

"""Logs on a real disk for the stories in this folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.clients.record.builder import build_batch, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import Files, OsFiles
from tierlog.storage.log.append_result import LogAppendInfo
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_loader import LoadRequest, load_log
from tierlog.storage.producer.producer_entry import AppendOrigin

NOW_MS = 1_750_000_000_000
PARTITION = TopicPartition("orders", 0)
TOPIC_ID = Uuid(bytes(range(16)))
SMALL = LogConfig(segment_bytes=1000, segment_index_bytes=1200, index_interval_bytes=1)
TIERED = replace(SMALL, remote_storage_enable=True)


class LogHome:
    """A log directory, and one log in it that can be opened again and again."""

    def __init__(self, path: Path, config: LogConfig = SMALL, files: Files | None = None) -> None:
        self.files = OsFiles() if files is None else files
        self.log_dir = LogDir(self.files, str(path))
        self.path = path / "orders-0"
        self.path.mkdir(exist_ok=True)
        self.config = config

    def open(
        self, *, clean: bool = True, recovery_point: int = 0, log_start: int = 0
    ) -> UnifiedLog:
        request = LoadRequest(
            PARTITION,
            TOPIC_ID,
            str(self.path),
            self.config,
            log_start_offset=log_start,
            recovery_point=recovery_point,
            had_clean_shutdown=clean,
        )
        return load_log(self.log_dir, request, NOW_MS)

    def names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name.endswith(suffix))


def records(count: int = 1, timestamp: int = NOW_MS, size: int = 20) -> list[Record]:
    return [Record(0, timestamp, b"k%d" % i, b"v" * size) for i in range(count)]


def plain(count: int = 1, timestamp: int = NOW_MS, size: int = 20) -> memoryview:
    """A batch of a producer without idempotence, as a client sends it."""
    return memoryview(build_batch(records(count, timestamp, size)))


def idempotent(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, txn: bool = False
) -> memoryview:
    """A batch of an idempotent or transactional producer."""
    return memoryview(
        build_batch(
            records(count),
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=txn,
        )
    )


def marker(
    kind: ControlRecordType, *, producer: int = 7, epoch: int = 0, coordinator_epoch: int = 0
) -> memoryview:
    """The batch that a coordinator ends a transaction with."""
    end = EndTransactionMarker(kind, coordinator_epoch)
    return memoryview(build_control_batch(end, NOW_MS, producer_id=producer, producer_epoch=epoch))


def append(log: UnifiedLog, batch: memoryview, epoch: int = 0) -> LogAppendInfo:
    """Append as a single-replica leader does: the high watermark follows."""
    info = log.append_as_leader(batch, epoch, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return info


def filled(home: LogHome, count: int = 10) -> UnifiedLog:
    """Batches of two records until there are `count`."""
    log = home.open()
    for _ in range(count):
        append(log, plain(2))
    return log


def only_batch(view: memoryview) -> RecordBatch:
    """The header of a batch as it is now, with the offset that the log gave it."""
    return RecordBatch(view)


def end_transaction(
    log: UnifiedLog, kind: ControlRecordType, *, producer: int = 7, epoch: int = 0
) -> LogAppendInfo:
    batch = marker(kind, producer=producer, epoch=epoch)
    leader_epoch = max(log.leader_epochs.latest_epoch, 0)
    info = log.append_as_leader(batch, leader_epoch, NOW_MS, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    return info


def fetch(
    log: UnifiedLog,
    offset: int,
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
    max_bytes: int = 1 << 20,
) -> FetchDataInfo:
    found = log.read(offset, max_bytes, isolation, min_one_message=True)
    assert isinstance(found, FetchDataInfo)
    return found


def content(found: FetchDataInfo) -> bytes:
    return found.records if isinstance(found.records, bytes) else found.records.read()


def offsets_in(found: FetchDataInfo) -> list[int]:
    """The base offsets of the batches in a fetch."""
    return [batch.base_offset for batch in batches(content(found))]


def everything(log: UnifiedLog) -> bytes:
    """All local bytes, read one fetch after the other."""
    pieces: list[bytes] = []
    offset = log.local_log_start_offset
    while offset < log.log_end_offset:
        piece = content(fetch(log, offset, FetchIsolation.LOG_END))
        if not piece:
            break
        pieces.append(piece)
        offset = list(batches(piece))[-1].next_offset
    return b"".join(pieces)


def indexes(log: UnifiedLog) -> Mapping[int, Sequence[object]]:
    """Every entry of every index, by segment."""
    return {
        segment.base_offset: (
            segment.offset_index.all_entries(),
            segment.time_index.all_entries(),
            list(segment.txn_index),
        )
        for segment in log.local.segments
    }


def producer_states(log: UnifiedLog) -> dict[int, tuple[object, ...]]:
    return {producer: entry.state() for producer, entry in log.producers.entries.items()}

"""Logs that lose their power: what happens to them, and what must hold afterwards.

The rules that every scenario checks after every power loss:

- what was appended and flushed is there; what is there is a prefix of what was appended;
- every index entry points at the batch that it names, and every offset can be read;
- leader epochs and producers are what the surviving batches say, no more and no less.
"""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import NO_PRODUCER_ID, NO_TIMESTAMP, Record, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import (
    RECOVERY_POINT_FILE,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_loader import LoadRequest, load_log
from tierlog.tests.simulation.files import SimulatedFiles

LOG_DIR = "/data"
PARTITION = TopicPartition("orders", 0)
DIRECTORY = f"{LOG_DIR}/orders-0"
TOPIC_ID = Uuid(bytes(range(16)))
NOW_MS = 1_750_000_000_000
PRODUCER_ID = 4711
# Small, so that a few batches roll; an index entry for every batch.
CONFIG = LogConfig(segment_bytes=700, segment_index_bytes=120, index_interval_bytes=1)


def open_log(files: SimulatedFiles, config: LogConfig = CONFIG) -> UnifiedLog:
    """Open the log as a broker does: by the clean shutdown marker and the recovery point."""
    log_dir = LogDir(files, LOG_DIR)
    was_clean = log_dir.has_clean_shutdown_marker()
    log_dir.remove_clean_shutdown_marker()
    points = read_offset_checkpoint(files, f"{LOG_DIR}/{RECOVERY_POINT_FILE}")
    request = LoadRequest(
        PARTITION,
        TOPIC_ID,
        DIRECTORY,
        config,
        recovery_point=points.get(PARTITION, 0),
        had_clean_shutdown=was_clean,
    )
    return load_log(log_dir, request, NOW_MS)


def records_from(log: UnifiedLog, offset: int) -> bytes:
    """All bytes of the log from the batch that holds `offset`, read as a follower reads."""
    content = b""
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
        assert isinstance(info, FetchDataInfo)
        piece = info.records if isinstance(info.records, bytes) else info.records.read()
        assert piece, f"offset {offset} of {log.log_end_offset} cannot be read"
        content += piece
        *_, last = batches(piece)
        offset = last.next_offset
    return content


class LogScenario:
    """A log that is appended to; subclasses say what happens in `story`."""

    config = CONFIG

    def __init__(self) -> None:
        self.log: UnifiedLog | None = None
        self.appended = b""
        self.promised_offset = 0
        self._sequence = 0
        self._epoch = 0

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs(DIRECTORY)

    def work(self, files: SimulatedFiles) -> None:
        self.log = open_log(files, self.config)
        self.story(self.log, files)

    def story(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        """What happens until the power goes."""
        raise NotImplementedError

    def elect(self) -> None:
        """A new leader epoch begins."""
        self._epoch += 1

    def append(self, log: UnifiedLog, count: int) -> None:
        """Append one batch of an idempotent producer, unlike any other batch."""
        first = log.log_end_offset
        made = build_batch(
            [
                Record(i, NOW_MS + i, b"%04d" % i, b"v" * 40, ())
                for i in range(first, first + count)
            ],
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        self._sequence += count
        # What lands on the disk is `made` with its offset and epoch stamped in; said before the
        # append, because it may survive a power loss in the middle of it.
        before, self.appended = self.appended, self.appended + self._stamped(made, first)
        log.append_as_leader(memoryview(made), self._epoch, NOW_MS)
        assert self.appended == before + bytes(made)

    def _stamped(self, made: bytearray, offset: int) -> bytes:
        return b"".join((offset.to_bytes(8), made[8:12], self._epoch.to_bytes(4), made[16:]))

    def resume(self, log: UnifiedLog) -> None:
        """The producer goes on after what survived: each record has one sequence number."""
        self.appended = records_from(log, 0)
        self._sequence = log.log_end_offset

    def flush(self, log: UnifiedLog) -> None:
        """Flush; from here on everything so far is promised."""
        log.flush()
        self.promised_offset = log.log_end_offset
        assert log.recovery_point == log.log_end_offset

    def checkpoint(self, log: UnifiedLog, files: SimulatedFiles) -> None:
        """Write down the recovery point, as the log manager does every minute."""
        path = f"{LOG_DIR}/{RECOVERY_POINT_FILE}"
        write_offset_checkpoint(files, path, {PARTITION: log.recovery_point})

    def check(self, files: SimulatedFiles) -> None:
        log = open_log(files, self.config)
        assert log.log_end_offset >= self.promised_offset, "flushed records are lost"
        content = records_from(log, log.log_start_offset)
        self.check_content(log, content)
        assert_offsets_are_dense(log, content)
        assert_indexes_agree(log)
        assert_history_agrees(log, content)
        log.release()

    def check_content(self, log: UnifiedLog, content: bytes) -> None:
        """The surviving bytes are those appended, from the log start on and without a gap."""
        below = [b for b in batches(self.appended) if b.next_offset <= log.log_start_offset]
        kept = self.appended[sum(batch.size_in_bytes for batch in below) :]
        assert kept.startswith(content), "the log is no prefix of what was appended"


def assert_offsets_are_dense(log: UnifiedLog, content: bytes) -> None:
    expected = log.log_start_offset
    for batch in batches(content):
        assert batch.crc_is_valid()
        assert batch.base_offset == expected
        expected = batch.next_offset
    assert log.log_end_offset == expected
    for offset in range(log.log_start_offset, expected):
        first = next(batches(records_from(log, offset)))
        assert first.base_offset <= offset <= first.last_offset


def assert_indexes_agree(log: UnifiedLog) -> None:
    for segment in log.local.segments:
        segment.sanity_check(is_active=segment is log.local.active_segment)
        found = dict(segment.positioned_batches())
        for entry in segment.offset_index.all_entries():
            batch = found[entry.position]
            assert batch.base_offset <= entry.offset <= batch.last_offset
        for stamp in segment.time_index.all_entries():
            holder = next(
                b for b in found.values() if b.base_offset <= stamp.offset <= b.last_offset
            )
            assert stamp.timestamp == holder.max_timestamp
        youngest = max((batch.max_timestamp for batch in found.values()), default=NO_TIMESTAMP)
        assert segment.max_timestamp_so_far.timestamp == youngest


def assert_history_agrees(log: UnifiedLog, content: bytes) -> None:
    starts: dict[int, int] = {}
    last_sequence = -1
    for batch in batches(content):
        starts.setdefault(batch.partition_leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER_ID:
            last_sequence = batch.last_sequence
    # An epoch that began below the log start is told from the log start on, even if no record
    # of it is left; so it is while the log is empty.
    epochs = {entry.epoch: entry.start_offset for entry in log.leader_epochs.entries}
    assert {epoch: epochs.get(epoch) for epoch in starts} == starts
    assert all(epoch in starts or start == log.log_start_offset for epoch, start in epochs.items())
    producer = log.producers.get(PRODUCER_ID)
    assert (-1 if producer is None else producer.last_sequence) == last_sequence

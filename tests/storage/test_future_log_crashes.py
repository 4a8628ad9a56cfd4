"""Wherever the power goes while a partition is moved to another log directory, its log is there.

What a broker does at its start is done here too: a future log in the directory that the cluster's
metadata names takes over where there is no other, and every other one goes on being filled.
"""

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.future_copy import FutureCopy
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.files import SimulatedFiles

from .crash_scenarios import (
    NOW_MS,
    PRODUCER_ID,
    assert_history_agrees,
    assert_indexes_agree,
    assert_offsets_are_dense,
)

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = Uuid(bytes(range(16)))
CONFIG = LogConfig(
    segment_bytes=700, segment_index_bytes=120, index_interval_bytes=1, file_delete_delay_ms=1
)
FIRST, SECOND = "/first", "/second"
UNIQUE_ID = "0" * 32


def manager(files: SimulatedFiles) -> LogManager:
    logs = LogManager(files, [FIRST, SECOND], CONFIG)
    logs.start(NOW_MS)
    return logs


def records_of(log: UnifiedLog) -> bytes:
    content, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
        assert isinstance(info, FetchDataInfo)
        assert not isinstance(info.records, bytes), f"offset {offset} cannot be read"
        content += info.records.read()
        *_, last = batches(content)
        offset = last.next_offset
    return content


class MovedLog:
    """A log of a few segments is moved from the first directory to the second, and written to."""

    def __init__(self) -> None:
        self.appended = b""
        self.promised_offset = 0
        self.assigned = FIRST
        self._sequence = 0
        self._epoch = 0

    def prepare(self, files: SimulatedFiles) -> None:
        for path in (FIRST, SECOND):
            files.mkdirs(path)
            files.sync_dir("/")
        logs = manager(files)
        log = logs.get_or_create_log(PARTITION, TOPIC_ID, CONFIG, NOW_MS)
        for count in (3, 1, 4, 1, 5):
            self.append(log, count)
        self.flush(log)
        logs.checkpoint_recovery_points()
        assert log.log_dir.path == FIRST

    def append(self, log: UnifiedLog, count: int) -> None:
        first = log.log_end_offset
        made = build_batch(
            [Record(i, NOW_MS + i, b"%04d" % i, b"v" * 40, ()) for i in range(count)],
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        self._sequence += count
        stamped = (first.to_bytes(8), made[8:12], self._epoch.to_bytes(4), made[16:])
        self.appended += b"".join(stamped)
        log.append_as_leader(memoryview(made), self._epoch, NOW_MS)
        log.update_high_watermark(log.log_end_offset)

    def flush(self, log: UnifiedLog) -> None:
        log.flush()
        self.promised_offset = log.log_end_offset

    def work(self, files: SimulatedFiles) -> None:
        logs = manager(files)
        current = logs.get_log(PARTITION)
        assert current is not None
        current.update_high_watermark(current.log_end_offset)
        second = logs.placement.directory_at(SECOND)
        future = logs.create_future_log(current, second, UNIQUE_ID, NOW_MS)
        copy = FutureCopy(current, future)
        for _ in range(2):
            self.step(copy)
        self._epoch += 1
        self.append(current, 2)
        copy.finish(300, NOW_MS)
        future.flush()
        # From here on the cluster's metadata names the other directory.
        self.assigned = SECOND
        self.append(current, 1)
        self.flush(current)
        copy.finish(300, NOW_MS)
        log = logs.replace_current_with_future(PARTITION, NOW_MS)
        assert log.log_dir is second
        self.append(log, 3)
        self.flush(log)
        logs.delete_pending(NOW_MS + 1)
        logs.checkpoint_recovery_points()
        self.append(log, 1)

    def step(self, copy: FutureCopy) -> None:
        read = copy.next_read(200)
        assert read is not None
        assert copy.append(read, read.read(), NOW_MS) > 0

    def check(self, files: SimulatedFiles) -> None:
        logs = manager(files)
        current, future = logs.get_log(PARTITION), logs.future_logs.get(PARTITION)
        if current is None:
            assert future is not None, "the partition has no log"
            assert future.log_dir.path == self.assigned, "a half-filled log would be served"
            current, future = logs.replace_current_with_future(PARTITION, NOW_MS), None
        self.check_log(current)
        if future is not None and future.topic_id != TOPIC_ID:
            # It has not got as far as to say whose it is: as good as never begun.
            logs.delete_future_log(PARTITION, NOW_MS)
            future = None
        if future is not None:
            FutureCopy(current, future).finish(300, NOW_MS)
            self.check_log(logs.replace_current_with_future(PARTITION, NOW_MS))
        logs.delete_pending(NOW_MS + 1)
        names = [name for path in (FIRST, SECOND) for name in files.listdir(path)]
        assert [name for name in names if name.startswith("orders")] == ["orders-0"]

    def check_log(self, log: UnifiedLog) -> None:
        assert log.log_end_offset >= self.promised_offset, "flushed records are lost"
        assert log.topic_id == TOPIC_ID
        content = records_of(log)
        assert self.appended.startswith(content), "the log is no prefix of what was appended"
        assert_offsets_are_dense(log, content)
        assert_indexes_agree(log)
        assert_history_agrees(log, content)


class CancelledMove(MovedLog):
    """The move is called off half-way."""

    def work(self, files: SimulatedFiles) -> None:
        logs = manager(files)
        current = logs.get_log(PARTITION)
        assert current is not None
        second = logs.placement.directory_at(SECOND)
        copy = FutureCopy(current, logs.create_future_log(current, second, UNIQUE_ID, NOW_MS))
        self.step(copy)
        self.append(current, 2)
        logs.delete_future_log(PARTITION, NOW_MS)
        self.flush(current)
        logs.delete_pending(NOW_MS + 1)


class MovedThereAndBack(MovedLog):
    """What the checkpoints say of the log that was here before is not believed of the new one."""

    def work(self, files: SimulatedFiles) -> None:
        logs = manager(files)
        for path in (SECOND, FIRST):
            current = logs.get_log(PARTITION)
            assert current is not None
            current.update_high_watermark(current.log_end_offset)
            target = logs.placement.directory_at(path)
            future = logs.create_future_log(current, target, UNIQUE_ID, NOW_MS)
            FutureCopy(current, future).finish(300, NOW_MS)
            self.assigned = path
            log = logs.replace_current_with_future(PARTITION, NOW_MS)
            self.append(log, 1)
            self.flush(log)
            logs.delete_pending(NOW_MS + 1)


@pytest.mark.parametrize("story", [MovedLog, CancelledMove, MovedThereAndBack])
def test_a_log_on_the_move_survives_every_crash(story: type[MovedLog]) -> None:
    assert cut_power_everywhere(story, chances_per_point=3) > 20

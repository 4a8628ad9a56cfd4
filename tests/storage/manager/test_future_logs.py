"""A log moves to another directory: it is filled, it follows, it takes over."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDirError, ResourcesExhaustedError
from tierlog.storage.files import OsFiles
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.log_file import (
    future_directory_name,
    parse_future_directory,
    parse_partition_directory,
)
from tierlog.storage.manager.future_copy import FutureCopy
from tierlog.storage.manager.log_manager import LogManager
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage.log_home import (
    NOW_MS,
    PARTITION,
    SMALL,
    TIERED,
    TOPIC_ID,
    append,
    end_transaction,
    everything,
    idempotent,
    indexes,
    marker,
    plain,
    producer_states,
)

UNIQUE_ID = "f" * 32


class Move:
    """Two directories, a log in the first, and a future one in the second."""

    def __init__(self, path: Path, config: LogConfig = SMALL, batches: int = 10) -> None:
        self.path = path
        self.config = config
        self.logs = self.started()
        self.current = self.logs.get_or_create_log(PARTITION, TOPIC_ID, config, NOW_MS)
        for _ in range(batches):
            append(self.current, plain(2))
        self.copy = self.begin()

    def started(self) -> LogManager:
        logs = LogManager(OsFiles(), [str(self.path / name) for name in "ab"], self.config)
        logs.start(NOW_MS)
        return logs

    @property
    def future(self) -> UnifiedLog:
        return self.copy.future

    def begin(self) -> FutureCopy:
        target = self.logs.placement.directory_at(str(self.path / "b"))
        future = self.logs.create_future_log(self.current, target, UNIQUE_ID, NOW_MS)
        return FutureCopy(self.current, future)

    def finish(self) -> None:
        self.copy.finish(500, NOW_MS)
        assert self.copy.is_caught_up

    def take_over(self) -> UnifiedLog:
        self.finish()
        return self.logs.replace_current_with_future(PARTITION, NOW_MS)

    def checkpoint(self, directory: str, name: str) -> dict[TopicPartition, int]:
        return read_offset_checkpoint(OsFiles(), f"{self.path}/{directory}/{name}")

    def names(self, directory: str) -> list[str]:
        return sorted(each.name for each in (self.path / directory).iterdir() if each.is_dir())


@pytest.fixture
def move(tmp_path: Path) -> Move:
    return Move(tmp_path)


def test_a_future_directory_is_named_as_kafka_names_it() -> None:
    name = future_directory_name(PARTITION, UNIQUE_ID)
    assert name == f"orders-0.{UNIQUE_ID}-future"
    assert parse_future_directory(name) == PARTITION
    assert parse_partition_directory(name) is None
    assert parse_future_directory("a.b-c-12.abc-future") == TopicPartition("a.b-c", 12)
    for other in ("orders-0", "orders-0.abc-delete", "orders-future", "-future", "orders-0-future"):
        assert parse_future_directory(other) is None


def test_the_records_come_over_byte_for_byte(move: Move) -> None:
    assert move.copy.lag == 20
    assert not move.copy.is_caught_up
    before = everything(move.current)
    move.finish()
    assert everything(move.future) == before
    assert move.future.leader_epochs.entries == move.current.leader_epochs.entries
    assert move.future.high_watermark == 20


def test_a_step_brings_no_more_than_asked_for(move: Move) -> None:
    read = move.copy.next_read(300)
    assert read is not None
    assert 0 < move.copy.append(read, read.read(), NOW_MS) <= 300
    # The same again is too late: the future log has moved on.
    assert move.copy.append(read, read.read(), NOW_MS) == 0


def test_the_future_log_takes_over(move: Move) -> None:
    before = everything(move.current)
    log = move.take_over()
    assert move.logs.get_log(PARTITION) is log
    assert move.logs.future_logs.all() == []
    assert (everything(log), log.high_watermark, log.recovery_point) == (before, 20, 20)
    assert move.current.local.is_released
    assert move.names("b") == ["orders-0"]
    (doomed,) = move.names("a")
    assert doomed.startswith("orders-0.")
    assert doomed.endswith("-delete")
    append(log, plain(2))
    assert log.log_end_offset == 22
    move.logs.delete_pending(NOW_MS + SMALL.file_delete_delay_ms)
    assert move.names("a") == []


def test_the_checkpoints_of_both_directories_say_where_the_log_is(move: Move) -> None:
    move.current.flush()
    move.current.maybe_increment_log_start_offset(3)
    move.logs.checkpoint_recovery_points()
    move.logs.checkpoint_log_start_offsets()
    assert move.checkpoint("a", RECOVERY_POINT_FILE) == {PARTITION: 20}
    assert move.checkpoint("a", LOG_START_FILE) == {PARTITION: 3}
    move.take_over()
    assert move.checkpoint("a", RECOVERY_POINT_FILE) == {}
    assert move.checkpoint("a", LOG_START_FILE) == {}
    assert move.checkpoint("b", RECOVERY_POINT_FILE) == {PARTITION: 20}
    assert move.checkpoint("b", LOG_START_FILE) == {PARTITION: 3}


def test_what_was_said_of_an_earlier_log_is_not_believed_of_a_new_one(tmp_path: Path) -> None:
    other = TopicPartition("other", 0)
    for name in (RECOVERY_POINT_FILE, LOG_START_FILE):
        (tmp_path / "b").mkdir(exist_ok=True)
        write_offset_checkpoint(OsFiles(), f"{tmp_path}/b/{name}", {PARTITION: 500, other: 7})
    move = Move(tmp_path)
    for name in (RECOVERY_POINT_FILE, LOG_START_FILE):
        # Nor does anybody need what it says of a log that is not there.
        assert move.checkpoint("b", name) == {}


def test_producers_are_known_as_before(tmp_path: Path) -> None:
    move = Move(tmp_path)
    for sequence in range(7):
        append(move.current, idempotent(sequence))
    append(move.current, idempotent(0, producer=8, txn=True))
    before = producer_states(move.current)
    log = move.take_over()
    assert producer_states(log) == before
    assert log.last_stable_offset == 27
    # A retry of the fifth batch from the end is still known for one.
    assert log.append_as_leader(idempotent(3), 0, NOW_MS).first_offset == 23
    end_transaction(log, ControlRecordType.ABORT, producer=8)
    assert log.last_stable_offset == log.log_end_offset


def test_a_transaction_whose_marker_is_not_replicated_stays_unstable(tmp_path: Path) -> None:
    move = Move(tmp_path)
    append(move.current, idempotent(0, txn=True))
    ending = marker(ControlRecordType.COMMIT)
    move.current.append_as_leader(ending, 0, NOW_MS, AppendOrigin.COORDINATOR)
    log = move.take_over()
    assert (log.high_watermark, log.last_stable_offset) == (21, 20)
    log.update_high_watermark(22)
    assert log.last_stable_offset == 22


def test_aborted_transactions_come_over(move: Move) -> None:
    append(move.current, idempotent(0, txn=True))
    end_transaction(move.current, ControlRecordType.ABORT)
    before = move.current.aborted_transactions(0, 100)
    log = move.take_over()
    assert log.aborted_transactions(0, 100) == before != []
    assert set(indexes(log)) == {segment.base_offset for segment in log.local.segments}


def test_records_that_are_deleted_meanwhile_go_from_both(move: Move) -> None:
    move.finish()
    move.current.maybe_increment_log_start_offset(7)
    append(move.current, plain(2))
    log = move.take_over()
    assert (log.log_start_offset, log.log_end_offset) == (7, 22)


@pytest.mark.parametrize("start", [10, 13, 20])
def test_what_was_deleted_before_is_not_copied(move: Move, start: int) -> None:
    move.current.maybe_increment_log_start_offset(start)
    move.finish()
    assert move.future.log_start_offset == start
    assert move.future.local.segments.first.base_offset == start // 2 * 2
    assert move.take_over().log_start_offset == start


def test_retention_in_the_middle_of_a_move_begins_it_again(move: Move) -> None:
    read = move.copy.next_read(300)
    assert read is not None
    move.copy.append(read, read.read(), NOW_MS)
    move.current.roll(NOW_MS)
    move.current.maybe_increment_log_start_offset(16)
    move.current.delete_old_segments(NOW_MS)
    append(move.current, plain(2))
    log = move.take_over()
    assert (log.log_start_offset, log.log_end_offset) == (16, 22)
    assert log.local.segments.first.base_offset == 16


def test_a_truncation_of_the_current_log_cuts_the_future_one(move: Move) -> None:
    move.finish()
    move.current.truncate_to(12)
    assert not move.copy.is_caught_up
    append(move.current, plain(1), epoch=3)
    move.finish()
    assert everything(move.future) == everything(move.current)
    assert move.future.leader_epochs.entries == ((0, 0), (3, 12))


def test_a_read_from_before_a_truncation_is_not_appended(move: Move) -> None:
    read = move.copy.next_read(1 << 20)
    assert read is not None
    content = read.read()
    move.current.truncate_to(12)
    assert move.copy.append(read, content, NOW_MS) == 0


def test_a_history_that_leaves_the_current_one_long_ago_is_cut_there(move: Move) -> None:
    for epoch in (5, 6):
        append(move.current, plain(2), epoch=epoch)
    move.finish()
    # The current log was cut to the middle of epoch 0, and goes on in another epoch.
    move.current.truncate_to(8)
    append(move.current, plain(2), epoch=9)
    resumed = FutureCopy(move.current, move.future)
    assert not resumed.is_caught_up
    resumed.finish(500, NOW_MS)
    assert everything(move.future) == everything(move.current)
    assert move.future.leader_epochs.entries == ((0, 0), (9, 8))


def test_an_emptied_log_empties_the_future_one(move: Move) -> None:
    move.finish()
    move.current.truncate_fully_and_start_at(50)
    move.finish()
    assert (move.future.log_start_offset, move.future.log_end_offset) == (50, 50)


def test_only_the_local_part_of_a_tiered_log_is_copied(tmp_path: Path) -> None:
    config = replace(TIERED, local_retention_ms=0)
    move = Move(tmp_path, config, batches=0)
    for epoch in range(30):
        append(move.current, idempotent(2 * epoch, 2), epoch=epoch)
    move.current.bounds.update_highest_remote(43)
    assert move.logs.delete_old_segments(move.current, NOW_MS + 1) > 0
    local_start = move.current.local_log_start_offset
    assert 0 < local_start <= 44
    history = move.current.leader_epochs.entries
    log = move.take_over()
    assert (log.log_start_offset, log.local_log_start_offset) == (0, local_start)
    assert log.leader_epochs.entries == history
    assert log.highest_remote_offset == 43
    assert everything(log) != b""
    assert append(log, idempotent(60, 2), epoch=29).first_offset == 60


def test_a_move_is_found_again_at_the_next_start(move: Move) -> None:
    read = move.copy.next_read(300)
    assert read is not None
    move.copy.append(read, read.read(), NOW_MS)
    copied = move.future.log_end_offset
    move.logs.shutdown(NOW_MS)
    again = move.started()
    future, current = again.future_logs.get(PARTITION), again.get_log(PARTITION)
    assert future is not None
    assert current is not None
    assert again.all_logs() == [current]
    assert (future.topic_id, future.log_end_offset, copied > 0) == (TOPIC_ID, copied, True)
    FutureCopy(current, future).finish(500, NOW_MS)
    assert everything(future) == everything(current)


def test_two_future_logs_of_a_partition_stop_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / f"orders-0.{name}-future").mkdir(parents=True)
    logs = LogManager(OsFiles(), [str(tmp_path / "a"), str(tmp_path / "b")], SMALL)
    with pytest.raises(LogDirError, match="orders-0"):
        logs.start(NOW_MS)


def test_a_log_that_is_deleted_takes_its_future_with_it(move: Move) -> None:
    move.logs.delete_log(PARTITION, NOW_MS)
    assert move.logs.future_logs.all() == []
    assert [name.endswith("-delete") for name in move.names("a") + move.names("b")] == [True] * 2


def test_an_abandoned_future_log_takes_over_alone(move: Move) -> None:
    move.finish()
    before = everything(move.current)
    move.logs.shutdown(NOW_MS)
    (move.path / "a" / "orders-0").rename(move.path / "a" / "orders-0.x-delete")
    again = move.started()
    log = again.replace_current_with_future(PARTITION, NOW_MS)
    assert everything(log) == before
    assert move.names("b") == ["orders-0"]


def test_housekeeping_takes_care_of_future_logs_too(move: Move) -> None:
    move.finish()
    assert move.future in move.logs.online_logs()
    assert move.logs.flush_task(move.future, NOW_MS) is not None
    for log in (move.current, move.future):
        log.roll(NOW_MS)
        log.maybe_increment_log_start_offset(20)
    assert move.future in move.logs.online_logs()
    assert move.logs.delete_old_segments(move.future, NOW_MS) > 1
    assert move.future.log_start_offset == 20


def two_disks() -> tuple[SimulatedDisk, LogManager, FutureCopy]:
    disk = SimulatedDisk()
    logs = LogManager(SimulatedFiles(disk), ["/a", "/b"], SMALL)
    logs.start(NOW_MS)
    log = logs.get_or_create_log(PARTITION, TOPIC_ID, SMALL, NOW_MS)
    append(log, plain(2))
    target = logs.placement.directory_at("/b")
    copy = FutureCopy(log, logs.create_future_log(log, target, UNIQUE_ID, NOW_MS))
    copy.finish(1000, NOW_MS)
    return disk, logs, copy


@pytest.mark.parametrize(("kind", "path"), [(Kind.FLUSH, ".log"), (Kind.RENAME, "-future")])
def test_the_current_log_goes_on_when_the_other_disk_fails(kind: Kind, path: str) -> None:
    disk, logs, copy = two_disks()
    disk.faults.append(Fault(kind, errno.EIO, path))
    with pytest.raises(KafkaError) as refused:
        logs.replace_current_with_future(PARTITION, NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_log(PARTITION) is copy.current
    assert append(copy.current, plain(2)).first_offset == 2
    assert not copy.future.log_dir.is_online
    logs.delete_future_log(PARTITION, NOW_MS)
    logs.delete_pending(NOW_MS + 10**9)
    assert "/a/orders-0" in [log.directory for log in logs.all_logs()]
    assert SimulatedFiles(disk).is_directory("/a/orders-0")


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_the_current_log_keeps_its_name_where_descriptors_are_short(path: str) -> None:
    disk, logs, copy = two_disks()
    disk.faults.append(Fault(Kind.SYNC_DIRECTORY, errno.EMFILE, path))
    with pytest.raises(KafkaError):
        logs.replace_current_with_future(PARTITION, NOW_MS)
    assert logs.get_log(PARTITION) is copy.current
    assert SimulatedFiles(disk).is_directory("/a/orders-0")
    append(copy.current, plain(2))
    logs.delete_pending(NOW_MS + 10**9)
    logs.shutdown(NOW_MS, 1)
    again = LogManager(SimulatedFiles(disk), ["/a", "/b"], SMALL)
    again.start(NOW_MS)
    log = again.get_log(PARTITION)
    assert log is not None
    assert (log.directory, log.log_end_offset) == ("/a/orders-0", 4)


def test_the_future_log_stays_when_the_current_disk_fails() -> None:
    disk, logs, copy = two_disks()
    disk.faults.append(Fault(Kind.RENAME, errno.EIO, "orders-0"))
    with pytest.raises(KafkaError):
        logs.replace_current_with_future(PARTITION, NOW_MS)
    assert not copy.current.log_dir.is_online
    (name,) = [name for name in SimulatedFiles(disk).listdir("/b") if "orders" in name]
    assert name.endswith("-future")


@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("path", ["/a", "/b"])
def test_no_directory_takes_a_name_that_no_descriptor_is_left_for(path: str, after: int) -> None:
    disk, logs, copy = two_disks()
    disk.faults.append(Fault(Kind.SYNC_DIRECTORY, errno.EMFILE, path, after=after))
    try:
        logs.replace_current_with_future(PARTITION, NOW_MS)
    except ResourcesExhaustedError:
        pass
    else:
        return
    files = SimulatedFiles(disk)
    assert files.is_directory("/a/orders-0")
    assert not files.is_directory("/b/orders-0")
    assert append(copy.current, plain(2)).first_offset == 2
    assert copy.current.log_dir.is_online
    assert copy.future.log_dir.is_online


def test_nothing_is_moved_while_a_directory_is_offline(move: Move) -> None:
    move.logs.delete_future_log(PARTITION, NOW_MS)
    move.current.log_dir.fail(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError, match=r"log directories .*/a are offline") as refused:
        move.begin()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match=r"Log directory .* is offline"):
        move.logs.placement.directory_at(str(move.path / "a"))


def test_a_directory_that_is_not_configured_is_not_found(move: Move) -> None:
    with pytest.raises(KafkaError, match=r"Log dir /else is not found in the config\.") as refused:
        move.logs.placement.directory_at("/else")
    assert refused.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_a_log_is_made_where_metadata_or_an_admin_wants_it(tmp_path: Path) -> None:
    ids = iter([Uuid(b"a" * 16), Uuid(b"b" * 16)])
    logs = LogManager(OsFiles(), [str(tmp_path / "a"), str(tmp_path / "b")], SMALL)
    logs.directories.open("cluster", 1, lambda: next(ids))
    logs.start(NOW_MS)
    first, second = logs.log_dirs

    def made(partition: int, directory_id: Uuid | None = None) -> str:
        name = TopicPartition("t", partition)
        log = logs.get_or_create_log(name, TOPIC_ID, SMALL, NOW_MS, directory_id)
        return log.log_dir.path

    assert made(0, second.directory_id) == second.path
    assert made(1, second.directory_id) == second.path
    logs.placement.prefer(TopicPartition("t", 2), second)
    assert made(2) == second.path
    assert made(3) == first.path
    second.fail(OSError(errno.EIO, "broken"))
    assert made(4) == first.path
    with pytest.raises(KafkaError, match="may be in a directory that is offline"):
        made(5, second.directory_id)

"""A log counts as cleanly closed when it is on the disk, and never before."""

import errno
import random
from pathlib import Path

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.housekeeping.clean_stop import close_logs
from tierlog.storage.config import LogConfig
from tierlog.storage.files import FileHandle, MappedFile, OsFiles
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.clean_shutdown import CleanShutdown
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.node import LoopExecutor
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from ..log_home import NOW_MS, SMALL, append, end_transaction, everything, idempotent, plain

TOPIC_ID = Uuid(bytes(range(16)))
FIRST, SECOND = "/first", "/second"


def started(files: SimulatedFiles) -> LogManager:
    logs = LogManager(files, [FIRST, SECOND], SMALL)
    logs.start(NOW_MS)
    return logs


def four_logs(logs: LogManager, config: LogConfig = SMALL) -> list[UnifiedLog]:
    """Two logs in each directory, if there are two; none of them flushed."""
    made: list[UnifiedLog] = []
    for partition in range(4):
        name = TopicPartition("t", partition)
        log = logs.get_or_create_log(name, TOPIC_ID, config, NOW_MS)
        for sequence in range(6):
            append(log, idempotent(sequence), epoch=partition)
        made.append(log)
    return made


class CleanStop:
    """Logs are written to, closed, opened, written to and closed again."""

    def __init__(self) -> None:
        self.promised: dict[TopicPartition, bytes] = {}

    def prepare(self, files: SimulatedFiles) -> None:
        for path in (FIRST, SECOND):
            files.mkdirs(path)
            files.sync_dir("/")

    def work(self, files: SimulatedFiles) -> None:
        logs = started(files)
        made = four_logs(logs)
        self.promised = {log.topic_partition: everything(log) for log in made}
        logs.shutdown(NOW_MS)
        # From here on the marker is what is at stake: `started` takes it away, durably.
        logs = started(files)
        for log in logs.all_logs():
            append(log, plain())
        self.promised = {log.topic_partition: everything(log) for log in logs.all_logs()}
        logs.shutdown(NOW_MS)

    def check(self, files: SimulatedFiles) -> None:
        logs = LogManager(files, [FIRST, SECOND], SMALL)
        clean = {log_dir for log_dir in logs.log_dirs if log_dir.has_clean_shutdown_marker()}
        logs.start(NOW_MS)
        closed = [log for log in logs.all_logs() if log.log_dir in clean]
        assert len(closed) == 2 * len(clean)
        for log in closed:
            # Nothing was looked at again, so all of it must be there.
            assert everything(log) == self.promised[log.topic_partition]
            assert log.producers.entries


def test_a_marker_is_never_there_before_the_logs_are() -> None:
    assert cut_power_everywhere(CleanStop, chances_per_point=3) > 50


def test_a_log_whose_flush_fails_is_not_clean() -> None:
    disk = SimulatedDisk()
    logs = started(SimulatedFiles(disk))
    four_logs(logs)
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO, "/first/t-0/00000000000000000000.log"))
    logs.shutdown(NOW_MS)
    assert [each.has_clean_shutdown_marker() for each in logs.log_dirs] == [False, True]


def test_a_log_whose_flush_was_never_run_is_not_clean() -> None:
    logs = started(SimulatedFiles(SimulatedDisk()))
    four_logs(logs)
    closing = logs.begin_shutdown(NOW_MS)
    for log, task in closing.flushes:
        if log.topic_partition.partition != 1:
            task.run()
            closing.flushed(log)
    logs.finish_shutdown(closing)
    assert [each.has_clean_shutdown_marker() for each in logs.log_dirs] == [True, False]


def test_what_is_on_the_disk_already_is_not_flushed_again() -> None:
    logs = started(SimulatedFiles(SimulatedDisk()))
    made = four_logs(logs)
    logs.begin_shutdown(NOW_MS).flush_here()
    assert CleanShutdown(made, NOW_MS).flushes == []


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_broker_flushes_its_logs_side_by_side(is_failing: bool) -> None:
    disk = SimulatedDisk()

    async def story(_: SimulatedLoop) -> None:
        files = SimulatedFiles(disk)
        logs = started(files)
        files.sync_dir("/")
        four_logs(logs)
        if is_failing:
            disk.faults.append(Fault(Kind.FLUSH, errno.EIO, ".log"))
        await close_logs(logs, LoopExecutor(), NOW_MS, 5)

    simulate(story)
    disk.lose_power(Survival.NOTHING, random.Random(0))
    logs = LogManager(SimulatedFiles(disk), [FIRST, SECOND], SMALL)
    clean = [each.has_clean_shutdown_marker() for each in logs.log_dirs]
    assert sorted(clean) == [not is_failing, True]
    logs.start(NOW_MS)
    ends = [log.log_end_offset for log in logs.all_logs()]
    assert ends.count(6) >= (2 if is_failing else 4)


@pytest.mark.usefixtures("loop")
async def test_real_files_are_closed_side_by_side(tmp_path: Path) -> None:
    logs = LogManager(OsFiles(), [str(tmp_path)], SMALL)
    logs.start(NOW_MS)
    four_logs(logs)
    await close_logs(logs, LoopExecutor(), NOW_MS, 5)
    again = LogManager(OsFiles(), [str(tmp_path)], SMALL)
    assert again.log_dirs[0].clean_shutdown_broker_epoch() == 5
    again.start(NOW_MS)
    assert {log.log_end_offset for log in again.all_logs()} == {6}


class CountingFiles(OsFiles):
    """The disk, and the names of the files that were made on it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def open(self, path: str, *, create: bool = False) -> FileHandle:
        if create and not self.exists(path):
            self.made.append(path)
        return super().open(path, create=create)

    def map(self, path: str, capacity: int) -> MappedFile:
        if not self.exists(path):
            self.made.append(path)
        return super().map(path, capacity)

    def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self.made.append(path)
        super().atomic_replace(path, content, durable=durable)


@pytest.mark.parametrize("has_producers", [False, True])
def test_a_stop_makes_few_files_for_logs_of_a_few_records(
    tmp_path: Path, has_producers: bool
) -> None:
    files = CountingFiles()
    logs = LogManager(files, [str(tmp_path)], LogConfig())
    logs.start(NOW_MS)
    names = [TopicPartition("t", partition) for partition in range(3)]
    made = [logs.get_or_create_log(name, TOPIC_ID, LogConfig(), NOW_MS) for name in names]
    for log in made:
        append(log, plain(3))
        append(log, idempotent(0) if has_producers else plain())
    states = [(everything(log), log.local.active_segment.largest_timestamp) for log in made]
    entries = [set(log.producers.entries) for log in made]
    files.made.clear()
    logs.shutdown(NOW_MS)
    in_logs = [path for path in files.made if path.startswith(f"{tmp_path}/t-")]
    # Kafka takes a log without a snapshot for one without producers.
    assert [path[-9:] for path in in_logs] == [".snapshot"] * 3 * has_producers
    files.made.clear()
    logs = LogManager(files, [str(tmp_path)], LogConfig())
    logs.start(NOW_MS)
    found = [log for log in map(logs.get_log, names) if log is not None]
    assert [
        (everything(log), log.local.active_segment.largest_timestamp) for log in found
    ] == states
    assert [set(log.producers.entries) for log in found] == entries
    assert files.made == []
    # A segment that is closed for good is looked up in: it has its indexes.
    for log in found:
        log.roll(NOW_MS)
        first = log.local.segments.first
        assert first.offset_index.file_exists
        assert first.time_index.last.timestamp == NOW_MS
    logs.shutdown(NOW_MS)


def test_a_log_of_many_records_need_not_be_read_again_after_a_stop(tmp_path: Path) -> None:
    logs = LogManager(OsFiles(), [str(tmp_path)], LogConfig())
    logs.start(NOW_MS)
    log = logs.get_or_create_log(TopicPartition("t", 0), TOPIC_ID, LogConfig(), NOW_MS)
    for sequence in range(0, 600, 3):
        append(log, idempotent(sequence, 3))
    assert log.size_in_bytes > 16_384
    logs.shutdown(NOW_MS)
    names = OsFiles().listdir(f"{tmp_path}/t-0")
    assert [name.partition(".")[2] for name in names if name[0] == "0"] == [
        "index",
        "log",
        "timeindex",
        "snapshot",
    ]


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_aborted_transaction_outlives_the_loss_of_all_indexes(
    tmp_path: Path, is_clean: bool
) -> None:
    logs = LogManager(OsFiles(), [str(tmp_path)], LogConfig())
    logs.start(NOW_MS)
    name = TopicPartition("t", 0)
    log = logs.get_or_create_log(name, TOPIC_ID, LogConfig(), NOW_MS)
    append(log, idempotent(0, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    logs.shutdown(NOW_MS)
    for path in (tmp_path / "t-0").glob("*index"):
        path.unlink()
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    logs = LogManager(OsFiles(), [str(tmp_path)], LogConfig())
    logs.start(NOW_MS)
    again = logs.get_log(name)
    assert again is not None
    assert [each.first_offset for each in again.aborted_transactions(0, 2)] == [0]
    logs.shutdown(NOW_MS)

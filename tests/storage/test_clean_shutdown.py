"""A log counts as cleanly closed when it is on the disk, and never before."""

import errno
import random
from pathlib import Path

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.clean_stop import close_logs
from tierlog.storage.clean_shutdown import CleanShutdown
from tierlog.storage.files import OsFiles
from tierlog.storage.log_manager import LogManager
from tierlog.storage.unified_log import UnifiedLog
from tierlog.tests.replication.node import LoopExecutor
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from .log_home import NOW_MS, SMALL, append, everything, idempotent, plain

TOPIC_ID = Uuid(bytes(range(16)))
FIRST, SECOND = "/first", "/second"


def started(files: SimulatedFiles) -> LogManager:
    logs = LogManager(files, [FIRST, SECOND], SMALL)
    logs.start(NOW_MS)
    return logs


def four_logs(logs: LogManager) -> list[UnifiedLog]:
    """Two logs in each directory, none of them flushed."""
    made: list[UnifiedLog] = []
    for partition in range(4):
        name = TopicPartition("t", partition)
        log = logs.get_or_create_log(name, TOPIC_ID, SMALL, NOW_MS)
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


def test_real_files_are_closed_side_by_side(tmp_path: Path) -> None:
    async def story(_: SimulatedLoop) -> None:
        logs = LogManager(OsFiles(), [str(tmp_path)], SMALL)
        logs.start(NOW_MS)
        four_logs(logs)
        await close_logs(logs, LoopExecutor(), NOW_MS, 5)

    simulate(story)
    again = LogManager(OsFiles(), [str(tmp_path)], SMALL)
    assert again.log_dirs[0].clean_shutdown_broker_epoch() == 5
    again.start(NOW_MS)
    assert {log.log_end_offset for log in again.all_logs()} == {6}

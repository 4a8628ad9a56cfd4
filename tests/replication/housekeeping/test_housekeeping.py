"""What is done for the logs by the clock."""

import asyncio
import errno

import pytest

from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.housekeeping.housekeeping import Housekeeping, HousekeepingConfig
from tierlog.storage.checkpoint import HIGH_WATERMARK_FILE, read_offset_checkpoint
from tierlog.storage.segment.log_segments import LogSegments
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import DATA, LoopExecutor, create, creation
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

T0 = TopicPartition("t", 0)


def housekeeping(node: BrokerNode) -> Housekeeping:
    supervisor = Supervisor(node.environment.random)
    config, logs = HousekeepingConfig(), node.log_manager
    return Housekeeping(config, logs, node.environment, LoopExecutor(), supervisor)


async def test_high_watermarks_are_on_the_disk_every_five_seconds(
    files: SimulatedFiles, node: BrokerNode
) -> None:
    keeping = housekeeping(node)
    keeping.start()
    await create(node.controller, "t")
    node.append("t", b"a", b"b")
    await asyncio.sleep(5.1)
    assert read_offset_checkpoint(files, f"{DATA}/{HIGH_WATERMARK_FILE}") == {T0: 2}
    await keeping.stop()


async def test_old_segments_go_and_their_files_after_the_delay(
    files: SimulatedFiles, node: BrokerNode
) -> None:
    keeping = housekeeping(node)
    keeping.start()
    configs = {"retention.ms": "60000", "file.delete.delay.ms": "20000"}
    await node.controller.create_topics(creation("t", configs=configs))
    node.append("t", b"old")
    log = node.replicas.partition(T0).log
    log.roll(node.environment.wall_clock_ms())
    node.append("t", b"new")
    await asyncio.sleep(400)
    # The records carry timestamps of 1970, so retention took the closed and the open segment.
    assert log.log_start_offset == 2
    names = files.listdir(f"{DATA}/t-0")
    assert not [name for name in names if name.endswith(".deleted")]
    await keeping.stop()


async def test_closed_segments_are_flushed_and_a_failing_disk_goes_offline(
    loop: SimulatedLoop,
) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    node = BrokerNode(loop, files)
    keeping = housekeeping(node)
    keeping.start()
    await create(node.controller, "t")
    log = node.replicas.partition(T0).log
    node.append("t", b"a")
    log.roll(node.environment.wall_clock_ms())
    await asyncio.sleep(4)
    assert log.recovery_point == 1
    node.append("t", b"b")
    log.roll(node.environment.wall_clock_ms())
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO))
    await asyncio.sleep(4)
    assert not log.log_dir.is_online
    assert not node.replicas.partition(T0).is_leader
    await keeping.stop()
    await node.replicas.stop()


async def test_files_that_cannot_be_removed_take_their_directory_offline(
    loop: SimulatedLoop,
) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    node = BrokerNode(loop, files)
    keeping = housekeeping(node)
    keeping.start()
    configs = {"retention.ms": "60000", "file.delete.delay.ms": "0"}
    await node.controller.create_topics(creation("t", configs=configs))
    node.append("t", b"old")
    log = node.replicas.partition(T0).log
    log.roll(node.environment.wall_clock_ms())
    disk.faults.append(Fault(Kind.REMOVE, errno.EIO))
    await asyncio.sleep(400)
    assert not log.log_dir.is_online
    await keeping.stop()


async def test_files_that_no_descriptor_was_left_to_remove_go_later(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    node = BrokerNode(loop, files)
    keeping = housekeeping(node)
    keeping.start()
    configs = {"retention.ms": "60000", "file.delete.delay.ms": "0"}
    await node.controller.create_topics(creation("t", configs=configs))
    await node.controller.create_topics(creation("gone", configs=configs))
    node.append("t", b"old")
    log = node.replicas.partition(T0).log
    log.roll(node.environment.wall_clock_ms())
    disk.faults += [
        Fault(Kind.REMOVE, errno.EMFILE, suffix, times=3) for suffix in (".log.deleted", "-delete")
    ]
    node.log_manager.delete_log(TopicPartition("gone", 0), node.environment.wall_clock_ms())
    await asyncio.sleep(400)
    assert all(fault.times == 0 for fault in disk.faults)
    assert log.log_dir.is_online
    assert not [each for each in files.listdir(log.directory) if each.endswith(".deleted")]
    assert not [each for each in files.listdir(DATA) if each.endswith("-delete")]
    await keeping.stop()
    await node.stop()
    log_records = [each for each in caplog.records if "Deletion of files" in each.getMessage()]
    assert log_records
    assert all(each.exc_info is None for each in log_records)


async def test_a_log_whose_retention_fails_unexpectedly_stops_no_other_log(
    node: BrokerNode, caplog: pytest.LogCaptureFixture
) -> None:
    keeping = housekeeping(node)
    keeping.start()
    configs = {"retention.ms": "60000"}
    for name in ("bad", "good"):
        await node.controller.create_topics(creation(name, configs=configs))
        node.append(name, b"old")
    bad, good = (node.replicas.partition(TopicPartition(t, 0)).log for t in ("bad", "good"))
    segments = bad.local.segments
    bad.local.segments = LogSegments()
    await asyncio.sleep(400)
    assert good.log_start_offset == 1
    assert "Log retention of bad-0 failed" in caplog.text
    bad.local.segments = segments
    await asyncio.sleep(400)
    assert bad.log_start_offset == 1
    await keeping.stop()


async def test_retention_of_many_logs_lets_others_in_after_each_that_it_cuts(
    loop: SimulatedLoop,
) -> None:
    """Each cut writes its log's history durably: two syncs that everybody would wait for."""
    partitions, disk = 20, SimulatedDisk()
    node = BrokerNode(loop, SimulatedFiles(disk))
    keeping = housekeeping(node)
    begins_s = loop.time() + HousekeepingConfig().initial_task_delay_ms / 1000
    keeping.start()
    asked = creation("t", partitions=partitions, configs={"retention.ms": "60000"})
    await node.controller.create_topics(asked)
    for partition in range(partitions):
        node.append("t", b"old", partition=partition)
    logs = node.log_manager.all_logs()
    cut_in_turns: list[int] = []

    def count_in_every_turn() -> None:
        cut = sum(log.log_start_offset > 0 for log in logs)
        cut_in_turns.append(cut - sum(cut_in_turns))
        if cut < partitions:
            loop.call_soon(count_in_every_turn)

    loop.call_at(begins_s, count_in_every_turn)
    await asyncio.sleep(60)
    assert sum(cut_in_turns) == partitions
    assert max(cut_in_turns) == 1
    await keeping.stop()
    await node.stop()

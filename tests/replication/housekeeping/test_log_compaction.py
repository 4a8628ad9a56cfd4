"""When logs are compacted: by the clock, the dirtiest first, and never past a failure."""

import asyncio
import errno
from dataclasses import replace

import pytest

from tierlog.clients.record.batch import Record, batches, stamp_crc
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.housekeeping.housekeeping import Housekeeping, HousekeepingConfig
from tierlog.storage.checkpoint import CLEANER_OFFSET_FILE, read_offset_checkpoint
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import DATA, LoopExecutor, creation
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

CONFIG = HousekeepingConfig()
CHECKPOINT = f"{DATA}/{CLEANER_OFFSET_FILE}"
MANAGER = "kafka.log:type=LogCleanerManager,name="
MAX_DIRTY = f"{MANAGER}max-dirty-percent"
OFFSET_DELTA_AT = 3
"""Behind a length, attributes and a timestamp delta of one byte each."""


def keeping(node: BrokerNode, config: CleanerConfig | None = None) -> Housekeeping:
    whole = replace(CONFIG, cleaner=config or CleanerConfig())
    supervisor = Supervisor(node.environment.random)
    return Housekeeping(whole, node.log_manager, node.environment, LoopExecutor(), supervisor)


async def compacted_topic(node: BrokerNode, name: str, **configs: str) -> UnifiedLog:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    await node.controller.create_topics(
        creation(name, configs={"cleanup.policy": "compact", **given})
    )
    log = node.log_manager.get_log(TopicPartition(name, 0))
    assert log is not None
    return log


def write(node: BrokerNode, log: UnifiedLog, keys: str) -> None:
    """A record for each letter, and the segment is closed."""
    now_ms = node.environment.wall_clock_ms()
    for key in keys:
        made = build_batch([Record(0, now_ms, key.encode(), b"v")])
        log.append_as_leader(memoryview(made), 0, now_ms)
    log.update_high_watermark(log.log_end_offset)
    log.roll(now_ms)
    log.flush()


def keys_in(log: UnifiedLog) -> str:
    found = ""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
        assert isinstance(info, FetchDataInfo)
        piece = info.records if isinstance(info.records, bytes) else info.records.read()
        for batch in batches(piece):
            offset = batch.next_offset
            found += "".join((record.key or b"?").decode() for record in batch.records())
    return found


async def test_a_dirty_log_is_cleaned_after_a_pause_and_its_offset_written_down(
    files: SimulatedFiles, node: BrokerNode
) -> None:
    house = keeping(node)
    house.start()
    log = await compacted_topic(node, "t")
    write(node, log, "abab")
    await asyncio.sleep(16)
    assert keys_in(log) == "ab"
    assert read_offset_checkpoint(files, CHECKPOINT) == {TopicPartition("t", 0): 4}
    await house.stop()


async def test_a_log_is_known_to_be_compacted_before_anything_of_it_goes(
    loop: SimulatedLoop, files: SimulatedFiles, node: BrokerNode
) -> None:
    """Else a start takes a hole for a lost tail once the topic is compacted no more."""
    house = keeping(node, CleanerConfig(io_max_bytes_per_second=10.0))
    log = await compacted_topic(node, "t")
    write(node, log, "abab")
    cleaning = loop.create_task(house.compaction.clean_dirtiest())
    # All keys have been read by then, at ten bytes a second.
    await asyncio.sleep(40)
    assert read_offset_checkpoint(files, CHECKPOINT) == {TopicPartition("t", 0): 0}
    assert keys_in(log) == "abab"
    assert await cleaning
    assert keys_in(log) == "ab"
    await house.stop()


async def test_a_cleaning_is_given_up_when_its_topic_is_compacted_no_more(
    loop: SimulatedLoop, files: SimulatedFiles, node: BrokerNode
) -> None:
    """As in Kafka: from then on its segments may be on their way to the tier."""
    house = keeping(node, CleanerConfig(io_max_bytes_per_second=10.0))
    log = await compacted_topic(node, "t")
    write(node, log, "abab")
    cleaning = loop.create_task(house.compaction.clean_dirtiest())
    await asyncio.sleep(1)
    log.update_config(replace(log.config, cleanup_policy=("delete",)))
    await cleaning
    assert keys_in(log) == "abab"
    assert not [name for name in files.listdir(log.directory) if "cleaned" in name]
    assert not house.compaction.uncleanable
    await house.stop()


async def test_a_log_of_which_everything_expires_while_its_keys_are_read_stays_cleanable(
    loop: SimulatedLoop, node: BrokerNode
) -> None:
    house = keeping(node, CleanerConfig(io_max_bytes_per_second=10.0))
    log = await compacted_topic(node, "t", retention_ms="20000")
    log.update_config(replace(log.config, cleanup_policy=("compact", "delete")))
    write(node, log, "abab")
    cleaning = loop.create_task(house.compaction.clean_dirtiest())
    await asyncio.sleep(25)
    assert not cleaning.done()
    node.log_manager.delete_old_segments(log, node.environment.wall_clock_ms())
    assert await cleaning
    assert keys_in(log) == ""
    assert not house.compaction.uncleanable
    await house.stop()


async def test_the_pause_and_the_rate_may_change_while_they_are_waited_for(
    node: BrokerNode,
) -> None:
    slow = CleanerConfig(backoff_ms=3_600_000, io_max_bytes_per_second=1.0)
    house = keeping(node, slow)
    house.start()
    log = await compacted_topic(node, "t")
    write(node, log, "abab")
    await asyncio.sleep(1_000)
    assert keys_in(log) == "abab"
    house.compaction.config = replace(slow, backoff_ms=1_000)
    await asyncio.sleep(10)
    # At a byte a second it takes its time.
    assert keys_in(log) == "abab"
    house.compaction.config = CleanerConfig()
    await asyncio.sleep(1)
    assert keys_in(log) == "ab"
    await house.stop()


async def test_a_log_is_left_alone_while_little_of_it_is_dirty_or_its_records_are_young(
    node: BrokerNode,
) -> None:
    house = keeping(node)
    clean = await compacted_topic(node, "clean")
    young = await compacted_topic(node, "young", min_compaction_lag_ms="60000")
    write(node, clean, "abcdef")
    write(node, young, "aa")
    await house.compaction.clean_dirtiest()
    write(node, clean, "aa")
    assert not await house.compaction.clean_dirtiest()
    assert (keys_in(clean), keys_in(young)) == ("abcdefaa", "aa")
    assert house.compaction.metric(MAX_DIRTY) == 25
    await asyncio.sleep(61)
    assert await house.compaction.clean_dirtiest()
    assert (keys_in(clean), keys_in(young)) == ("abcdefaa", "a")
    await house.stop()


async def test_a_record_that_waited_too_long_is_cleaned_however_little_is_dirty(
    node: BrokerNode,
) -> None:
    house = keeping(node)
    log = await compacted_topic(node, "t", max_compaction_lag_ms="60000")
    write(node, log, "abcdef")
    assert await house.compaction.clean_dirtiest()
    write(node, log, "a")
    assert not await house.compaction.clean_dirtiest()
    await asyncio.sleep(61)
    assert await house.compaction.clean_dirtiest()
    assert keys_in(log) == "bcdefa"
    await house.stop()


async def test_the_dirtiest_log_comes_first(node: BrokerNode) -> None:
    house = keeping(node)
    logs = [await compacted_topic(node, name) for name in ("some", "most")]
    for log in logs:
        write(node, log, "abcd")
        assert await house.compaction.clean_dirtiest()
    write(node, logs[0], "abcdaa")
    write(node, logs[1], "abcdabcda")
    assert await house.compaction.clean_dirtiest()
    assert [len(keys_in(log)) for log in logs] == [10, 4]
    assert await house.compaction.clean_dirtiest()
    assert [len(keys_in(log)) for log in logs] == [4, 4]
    assert not await house.compaction.clean_dirtiest()
    await house.stop()


async def test_a_topic_that_is_not_compacted_is_not_touched(node: BrokerNode) -> None:
    house = keeping(node)
    log = await compacted_topic(node, "t", cleanup_policy="delete")
    write(node, log, "aaa")
    assert not await house.compaction.clean_dirtiest()
    assert keys_in(log) == "aaa"
    await house.stop()


async def test_compaction_can_be_turned_off(node: BrokerNode) -> None:
    house = keeping(node, CleanerConfig(enable=False))
    house.start()
    log = await compacted_topic(node, "t")
    write(node, log, "aaa")
    await asyncio.sleep(100)
    assert keys_in(log) == "aaa"
    await house.stop()


async def test_a_bound_on_io_spreads_the_work_over_time(
    loop: SimulatedLoop, node: BrokerNode
) -> None:
    house = keeping(node, CleanerConfig(io_max_bytes_per_second=100.0))
    log = await compacted_topic(node, "t")
    write(node, log, "ab" * 10)
    size = log.size_in_bytes
    began = loop.time()
    assert await house.compaction.clean_dirtiest()
    assert loop.time() - began >= 2 * size / 100
    assert keys_in(log) == "ab"
    await house.stop()


async def test_a_damaged_log_is_named_and_the_others_go_on(
    files: SimulatedFiles, node: BrokerNode
) -> None:
    house = keeping(node)
    damaged = await compacted_topic(node, "damaged")
    sound = await compacted_topic(node, "sound")
    write(node, damaged, "aaaa")
    write(node, sound, "aa")
    handle = files.open(f"{damaged.directory}/{0:020d}.log")
    handle.write_at(70, b"\xff")
    while await house.compaction.clean_dirtiest():
        pass
    assert keys_in(sound) == "a"
    assert house.compaction.uncleanable == {TopicPartition("damaged", 0)}
    count = f'{MANAGER}uncleanable-partitions-count,logDirectory="{DATA}"'
    assert house.compaction.metric(count) == 1
    assert not [n for n in files.listdir(damaged.directory) if n.endswith(".cleaned")]
    await house.stop()


async def test_a_failing_disk_goes_offline_and_not_the_cleaner(loop: SimulatedLoop) -> None:
    disk = SimulatedDisk()
    node = BrokerNode(loop, SimulatedFiles(disk))
    house = keeping(node)
    log = await compacted_topic(node, "t")
    write(node, log, "aaaa")
    disk.faults.append(Fault(Kind.WRITE, errno.EIO, ".cleaned"))
    await house.compaction.clean_dirtiest()
    assert not log.log_dir.is_online
    assert not await house.compaction.clean_dirtiest()
    await house.stop()


OUT_OF_DESCRIPTORS = [
    *(Fault(Kind.CREATE, errno.EMFILE, f"{suffix}.cleaned") for suffix in (".log", ".index")),
    Fault(Kind.FLUSH, errno.EMFILE, ".log.cleaned"),
    *(Fault(Kind.SYNC_DIRECTORY, errno.EMFILE, "/t-0", after=number) for number in range(4)),
]


@pytest.mark.parametrize("fault", OUT_OF_DESCRIPTORS, ids=str)
async def test_a_log_is_cleaned_all_the_same_when_descriptors_had_run_out(
    loop: SimulatedLoop, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    node = BrokerNode(loop, files)
    house = keeping(node)
    house.start()
    log = await compacted_topic(node, "t")
    write(node, log, "abab")
    write(node, log, "bc")
    disk.faults.append(replace(fault))
    await asyncio.sleep(16)
    names = files.listdir(log.directory)
    assert not [each for each in names if each.endswith((".cleaned", ".swap"))]
    assert keys_in(log) in ("ababbc", "abc")
    await asyncio.sleep(40)
    assert keys_in(log) == "abc"
    assert not house.compaction.uncleanable
    # What was swapped in can be swapped out again.
    disk.faults.clear()
    write(node, log, "abcabc")
    await asyncio.sleep(40)
    assert keys_in(log) == "abc"
    await house.stop()
    await node.stop()
    assert all(record.exc_info is None for record in caplog.records)


async def test_a_topic_of_the_same_name_starts_dirty(node: BrokerNode) -> None:
    house = keeping(node)
    log = await compacted_topic(node, "t")
    write(node, log, "aabb")
    assert await house.compaction.clean_dirtiest()
    log.truncate_to(1)
    write(node, log, "aabbcc")
    assert await house.compaction.clean_dirtiest()
    assert keys_in(log) == "abc"
    await house.stop()


def numbered_alike(keys: str, now_ms: int) -> memoryview:
    """A batch with a right CRC in which every record claims the first offset."""
    built = bytearray(build_batch([Record(0, now_ms, key.encode(), b"v") for key in keys]))
    size = (len(built) - BATCH_OVERHEAD) // len(keys)
    for number in range(len(keys)):
        built[BATCH_OVERHEAD + number * size + OFFSET_DELTA_AT] = 0
    stamp_crc(memoryview(built), 0, len(built))
    return memoryview(built)


async def test_a_log_that_cannot_be_written_anew_is_named_and_the_others_go_on(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader of another make may have taken what this one refuses: it is in the log."""
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    house = keeping(node)
    house.start()
    odd = await compacted_topic(node, "odd")
    sound = await compacted_topic(node, "sound")
    now_ms = node.environment.wall_clock_ms()
    odd.append_as_follower(numbered_alike("xya", now_ms), now_ms)
    write(node, odd, "aa")
    write(node, sound, "aa")
    await asyncio.sleep(40)
    assert keys_in(sound) == "a"
    assert house.compaction.uncleanable == {TopicPartition("odd", 0)}
    of_directory = f',logDirectory="{DATA}"'
    count = house.compaction.metric(f"{MANAGER}uncleanable-partitions-count{of_directory}")
    size = house.compaction.metric(f"{MANAGER}uncleanable-bytes{of_directory}")
    assert (count, size) == (1, odd.size_in_bytes)
    write(node, sound, "aa")
    await asyncio.sleep(40)
    assert keys_in(sound) == "a"
    await house.stop()
    await node.stop()
    assert "odd-0" in caplog.text


@pytest.mark.parametrize("elapsed_s", range(1, 13))
async def test_segments_that_go_while_their_keys_are_read_or_they_are_cleaned_harm_nothing(
    node: BrokerNode, elapsed_s: int
) -> None:
    """Retention comes at every second of a cleaning that takes about twelve."""
    slow = CleanerConfig(io_max_bytes_per_second=300.0, io_buffer_size=100)
    house = keeping(node, slow)
    log = await compacted_topic(
        node, "t", cleanup_policy="compact,delete", file_delete_delay_ms="0"
    )
    for keys in ("abab", "cdcd", "efef", "ghgh"):
        write(node, log, keys)
    cleaning = asyncio.ensure_future(house.compaction.clean_dirtiest())
    await asyncio.sleep(elapsed_s)
    now_ms = node.environment.wall_clock_ms()
    log.maybe_increment_log_start_offset(12)
    log.delete_old_segments(now_ms)
    log.delete_pending(now_ms + 1)
    await cleaning
    assert log.log_dir.is_online
    assert not house.compaction.uncleanable
    house.compaction.config = CleanerConfig()
    while await house.compaction.clean_dirtiest():
        pass
    assert keys_in(log)[-2:] == "gh"
    await house.stop()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM])
async def test_too_few_descriptors_put_a_cleaning_off_and_nobody_spins(
    disk: SimulatedDisk, node: BrokerNode, error: int
) -> None:
    house = keeping(node)
    log = await compacted_topic(node, "t")
    write(node, log, "aaaa")
    fault = Fault(Kind.CREATE, error, ".cleaned", times=1_000)
    disk.faults.append(fault)
    house.start()
    await asyncio.sleep(120)
    assert log.log_dir.is_online
    assert 990 < fault.times < 1_000
    fault.times = 0
    await asyncio.sleep(120)
    assert keys_in(log) == "a"
    await house.stop()


async def test_a_log_that_retention_empties_while_its_keys_are_read_is_cleaned_later(
    node: BrokerNode,
) -> None:
    house = keeping(node, CleanerConfig(io_max_bytes_per_second=300.0, io_buffer_size=100))
    log = await compacted_topic(
        node, "t", cleanup_policy="compact,delete", file_delete_delay_ms="0"
    )
    for keys in ("abab", "cdcd"):
        write(node, log, keys)
    cleaning = asyncio.ensure_future(house.compaction.clean_dirtiest())
    await asyncio.sleep(1)
    log.maybe_increment_log_start_offset(log.high_watermark)
    log.delete_old_segments(node.environment.wall_clock_ms())
    await cleaning
    assert not house.compaction.uncleanable
    house.compaction.config = CleanerConfig()
    write(node, log, "eeee")
    while await house.compaction.clean_dirtiest():
        pass
    assert keys_in(log) == "e"
    await house.stop()

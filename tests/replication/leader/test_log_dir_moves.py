"""Replicas move between the log directories of a running broker."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.housekeeping.housekeeping import Housekeeping, HousekeepingConfig
from tierlog.replication.leader.replica_movement import ReplicaMovement
from tierlog.replication.metadata.cluster_image import PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_dirs import CLUSTER_METADATA_TOPIC
from tierlog.tests.async_tests import entered
from tierlog.tests.replication.broker_node import BrokerNode, values_in
from tierlog.tests.replication.node import NODE_ID, LoopExecutor, create, creation, delete
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

T0 = TopicPartition("t", 0)
FIRST, SECOND, THIRD = "/data", "/second", "/third"
BIG = b"x" * 900_000
SLOW = 100_000

pytestmark = pytest.mark.simulated(time_limit_s=10_000)

Story = Callable[[BrokerNode], Coroutine[object, object, None]]


def run_stories(*stories: Story, disk: SimulatedDisk | None = None) -> None:
    """Tell stories of one broker with three directories, one life each."""
    files = SimulatedFiles(disk or SimulatedDisk())
    for story in stories:

        async def life(loop: SimulatedLoop, story: Story = story) -> None:
            async with three_directories(loop, files) as node:
                await story(node)

        simulate(life, time_limit_s=10_000)


@asynccontextmanager
async def three_directories(
    loop: SimulatedLoop, files: SimulatedFiles
) -> AsyncGenerator[BrokerNode]:
    """A broker with three directories; topic t has two records."""
    node = BrokerNode(loop, files, log_dirs=[FIRST, SECOND, THIRD])
    if not node.controller.image.topics_by_name:
        await create(node.controller, "t")
        node.append("t", b"0", b"1")
    yield node
    await node.stop()


@pytest.fixture
def node(loop: SimulatedLoop) -> BrokerNode:
    return entered(three_directories(loop, SimulatedFiles(SimulatedDisk())))


def log_of(node: BrokerNode) -> UnifiedLog:
    return node.replicas.partition(T0).log


def home(node: BrokerNode) -> str:
    """The directory that the partition is served from; nothing else is left of it."""
    log = log_of(node)
    assert node.log_manager.get_log(T0) is log
    assert node.log_manager.future_logs.all() == []
    return log.log_dir.path


def directory(node: BrokerNode, path: str) -> LogDir:
    return next(each for each in node.log_manager.log_dirs if each.path == path)


def image(node: BrokerNode) -> PartitionImage:
    found = node.controller.image.partition("t", 0)
    assert found is not None
    return found


def assigned(node: BrokerNode) -> str:
    """The directory that the cluster's metadata names."""
    known = {each.directory_id: each.path for each in node.log_manager.log_dirs}
    found = image(node).directory(NODE_ID)
    assert found is not None
    return known[found]


def alter(node: BrokerNode, path: str, name: TopicPartition = T0) -> ErrorCode:
    return node.replicas.alter_replica_log_dirs({name: path})[name]


def values(node: BrokerNode) -> list[bytes]:
    log, found = log_of(node), list[bytes]()
    while len(found) < log.log_end_offset - log.log_start_offset:
        offset = log.log_start_offset + len(found)
        (result,) = node.fetch_now(node.asked("t", offset))
        found += values_in(result)
    return found


async def settled(node: BrokerNode, path: str) -> None:
    """Wait until the move has ended there."""
    await nothing_moves(node)
    assert home(node) == assigned(node) == path


async def nothing_moves(node: BrokerNode) -> None:
    for _ in range(3_000):
        if not node.log_manager.future_logs.all():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("The move never ends.")


async def slow_move(node: BrokerNode, path: str = SECOND) -> None:
    """Begin a move that takes a minute."""
    for _ in range(6):
        assert node.append("t", BIG).error is ErrorCode.NONE
    node.replicas.limit_moves(SLOW)
    assert alter(node, path) is ErrorCode.NONE
    await asyncio.sleep(5)
    (future,) = node.log_manager.future_logs.all()
    assert 0 < future.log_end_offset < log_of(node).log_end_offset


def test_a_replica_moves_and_the_controller_knows() -> None:
    async def story(node: BrokerNode) -> None:
        assert home(node) == FIRST
        await asyncio.sleep(1)
        assert assigned(node) == FIRST
        epochs = image(node).leader_epoch, image(node).partition_epoch
        assert alter(node, SECOND) is ErrorCode.NONE
        await settled(node, SECOND)
        assert values(node) == [b"0", b"1"]
        assert node.append("t", b"2").base_offset == 2
        # A directory is no matter of leadership.
        assert (image(node).leader_epoch, image(node).partition_epoch) == (epochs[0], epochs[1] + 1)

    async def next_life(node: BrokerNode) -> None:
        assert home(node) == assigned(node) == SECOND
        assert values(node) == [b"0", b"1", b"2"]

    run_stories(story, next_life)


async def test_a_producer_does_not_notice(node: BrokerNode) -> None:
    sent = [b"0", b"1"]

    async def produce() -> None:
        while home_or_moving(node) != SECOND:
            result = node.append("t", b"%d" % len(sent))
            assert (result.error, result.base_offset) == (ErrorCode.NONE, len(sent))
            sent.append(b"%d" % len(sent))
            await asyncio.sleep(0.0007)

    alter(node, SECOND)
    await produce()
    assert len(sent) > 5
    assert values(node) == sent


def home_or_moving(node: BrokerNode) -> str:
    return log_of(node).log_dir.path


async def test_no_faster_than_it_may(node: BrokerNode) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await slow_move(node)
    await settled(node, SECOND)
    # The window of ten seconds is full at once; the last megabytes come in one go.
    assert 10 < loop.time() - began < 70


async def test_a_new_limit_is_felt_at_once(node: BrokerNode) -> None:
    loop = asyncio.get_running_loop()
    await slow_move(node)
    began = loop.time()
    node.replicas.limit_moves(1 << 40)
    await settled(node, SECOND)
    assert loop.time() - began < 3


async def test_a_move_is_called_off_by_asking_for_where_the_replica_is(node: BrokerNode) -> None:
    await slow_move(node)
    assert alter(node, FIRST) is ErrorCode.NONE
    assert home(node) == FIRST
    await asyncio.sleep(100)
    assert home(node) == assigned(node) == FIRST
    assert len(values(node)) == 8


async def test_asking_twice_changes_nothing_and_for_a_third_directory_begins_anew(
    node: BrokerNode,
) -> None:
    await slow_move(node)
    (future,) = node.log_manager.future_logs.all()
    assert alter(node, SECOND) is ErrorCode.NONE
    assert node.log_manager.future_logs.all() == [future]
    assert alter(node, THIRD) is ErrorCode.NONE
    assert future.local.is_released
    await settled(node, THIRD)
    assert len(values(node)) == 8


async def test_a_topic_that_is_deleted_ends_its_move(node: BrokerNode) -> None:
    await slow_move(node)
    await delete(node.controller, "t")
    await asyncio.sleep(100)
    assert node.log_manager.future_logs.all() == node.log_manager.all_logs() == []
    await create(node.controller, "t")
    assert values(node) == []


async def test_records_that_are_deleted_meanwhile_are_gone_afterwards(node: BrokerNode) -> None:
    await slow_move(node)
    outcome = node.replicas.delete_records([(T0, 5)], 1000)
    assert isinstance(outcome, list)
    await settled(node, SECOND)
    assert (log_of(node).log_start_offset, len(values(node))) == (5, 3)


async def test_a_configuration_that_changes_meanwhile_holds_afterwards(node: BrokerNode) -> None:
    await slow_move(node)
    await node.controller.alter_topic_config("t", {"retention.ms": "-1"})
    await settled(node, SECOND)
    assert log_of(node).config.retention_ms == -1


def test_a_move_goes_on_after_a_restart() -> None:
    async def next_life(node: BrokerNode) -> None:
        assert len(node.log_manager.future_logs.all()) == 1
        node.append("t", b"more")
        await settled(node, SECOND)
        assert values(node)[-1] == b"more"

    run_stories(slow_move, next_life)


def test_a_future_log_that_was_about_to_take_over_does_so_at_the_next_start() -> None:
    disk = SimulatedDisk()

    async def moved(node: BrokerNode) -> None:
        alter(node, SECOND)
        await settled(node, SECOND)

    async def next_life(node: BrokerNode) -> None:
        assert home(node) == assigned(node) == SECOND
        assert values(node) == [b"0", b"1"]

    run_stories(moved, disk=disk)
    SimulatedFiles(disk).rename(f"{SECOND}/t-0", f"{SECOND}/t-0.{'0' * 32}-future")
    run_stories(next_life, disk=disk)


@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.CREATE, Kind.SYNC_DIRECTORY])
def test_a_future_log_takes_over_also_where_descriptors_are_short_at_first(kind: Kind) -> None:
    """It is the only copy: whatever is made in its place would be empty."""
    for after in range(12):
        disk = SimulatedDisk()
        fault = FaultOfNamed(kind, errno.EMFILE, after=after)

        async def moved(node: BrokerNode) -> None:
            alter(node, SECOND)
            await settled(node, SECOND)

        async def next_life(node: BrokerNode, fault: FaultOfNamed = fault) -> None:
            await asyncio.sleep(10)
            fault.times = 0
            assert values(node) == [b"0", b"1"]
            assert home(node) == assigned(node) == SECOND

        run_stories(moved, disk=disk)
        SimulatedFiles(disk).rename(f"{SECOND}/t-0", f"{SECOND}/t-0.{'0' * 32}-future")
        disk.faults.append(fault)
        run_stories(next_life, disk=disk)


def test_a_stop_comes_while_a_future_log_cannot_be_opened_again() -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        disk.faults.append(Fault(Kind.OPEN, errno.EMFILE, ".log", times=1 << 30))
        alter(node, SECOND)
        await asyncio.sleep(10)
        (future,) = node.log_manager.future_logs.all()
        assert future.local.is_released
        assert node.append("t", b"2").base_offset == 2
        await node.stop()
        assert SimulatedFiles(disk).exists(f"{SECOND}/.kafka_cleanshutdown")
        disk.faults.clear()

    async def next_life(node: BrokerNode) -> None:
        await settled(node, SECOND)
        assert values(node) == [b"0", b"1", b"2"]

    run_stories(story, next_life, disk=disk)


class FaultOfNamed(Fault):
    """In the second directory, once it has a log under the partition's name."""

    def strikes(self, kind: Kind, path: str) -> bool:
        return path.startswith(f"{SECOND}/t-0/") and super().strikes(kind, path)


async def test_several_replicas_move_one_after_the_other(node: BrokerNode) -> None:
    await node.controller.create_topics(creation("many", partitions=6))
    names = [TopicPartition("many", partition) for partition in range(6)]
    answer = node.replicas.alter_replica_log_dirs(dict.fromkeys(names, THIRD))
    assert set(answer.values()) == {ErrorCode.NONE}
    await asyncio.sleep(5)
    assert {node.replicas.partition(name).log.log_dir.path for name in names} == {THIRD}


async def test_new_logs_are_reported_and_made_where_an_admin_wants_them(node: BrokerNode) -> None:
    wanted = TopicPartition("new", 0)
    assert alter(node, THIRD, wanted) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await create(node.controller, "new")
    log = node.replicas.partition(wanted).log
    assert log.log_dir.path == THIRD
    await asyncio.sleep(1)
    partition = node.controller.image.partition("new", 0)
    assert partition is not None
    assert partition.directories == (log.log_dir.directory_id,)


async def test_what_cannot_be_done_is_refused_as_kafka_refuses_it(node: BrokerNode) -> None:
    assert alter(node, "/else") is ErrorCode.LOG_DIR_NOT_FOUND
    gone = TopicPartition("gone", 0)
    assert alter(node, FIRST, gone) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    long = TopicPartition("x" * 249, 0)
    assert alter(node, FIRST, long) is ErrorCode.INVALID_TOPIC_EXCEPTION
    directory(node, THIRD).fail(OSError(errno.EIO, "broken"))
    assert alter(node, THIRD) is ErrorCode.KAFKA_STORAGE_ERROR
    # Any directory that is offline may hold a future log already.
    assert alter(node, SECOND) is ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(node, FIRST) is ErrorCode.NONE
    assert home(node) == FIRST


def test_the_replica_stays_when_the_other_disk_fails() -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        await slow_move(node)
        disk.faults.append(Fault(Kind.WRITE, errno.EIO, ".log"))
        await asyncio.sleep(30)
        assert not directory(node, SECOND).is_online
        assert home(node) == assigned(node) == FIRST
        assert node.append("t", b"more").error is ErrorCode.NONE

    run_stories(story, disk=disk)


@pytest.mark.parametrize("path", ["-future", "t-0"])
def test_a_disk_that_fails_in_the_last_step_leaves_one_log(path: str) -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        disk.faults.append(Fault(Kind.RENAME, errno.EIO, path))
        alter(node, SECOND)
        await asyncio.sleep(5)
        if path == "-future":
            assert home(node) == assigned(node) == FIRST
            assert node.append("t", b"2").base_offset == 2
        else:
            assert node.append("t", b"2").error is ErrorCode.KAFKA_STORAGE_ERROR

    async def next_life(node: BrokerNode) -> None:
        await asyncio.sleep(5)
        assert values(node) == ([b"0", b"1", b"2"] if path == "-future" else [b"0", b"1"])

    run_stories(story, next_life, disk=disk)


OF_OPENING = (Kind.OPEN, Kind.CREATE, Kind.SYNC_DIRECTORY)
OF_ALL = (*OF_OPENING, Kind.WRITE, Kind.FLUSH, Kind.RENAME)
FAILING = [
    *((errno.EMFILE, kind, times) for kind in OF_OPENING for times in (1, 4)),
    *((error, kind, 1) for error in (errno.ENOMEM, errno.EIO) for kind in OF_ALL),
]


class FaultOfLog(Fault):
    """Of the logs of partitions; what the controller does when its own disk fails is its affair."""

    def strikes(self, kind: Kind, path: str) -> bool:
        return CLUSTER_METADATA_TOPIC not in path and super().strikes(kind, path)


@pytest.mark.parametrize(("error", "kind", "times"), FAILING)
def test_whatever_fails_in_a_move_the_partition_is_served(
    error: int, kind: Kind, times: int
) -> None:
    """One call after the other fails, from the first of the move to its last."""
    after, was_struck = 0, True
    while was_struck:
        disk = SimulatedDisk()
        was_struck = move_with(FaultOfLog(kind, error, times=times, after=after), disk)
        after += 1
    assert after > 1


def move_with(fault: Fault, disk: SimulatedDisk) -> bool:
    """Tell of a move in which something fails; whether it did."""
    written = [b"0", b"1"]

    async def story(node: BrokerNode) -> None:
        await asyncio.sleep(1)
        disk.faults.append(fault)
        is_begun = alter(node, SECOND) is ErrorCode.NONE
        for _ in range(5):
            await asyncio.sleep(0.001)
            entry = node.append("t", str(len(written)).encode())
            if entry.error is ErrorCode.NONE:
                written.append(str(len(written)).encode())
        await asyncio.sleep(60)
        was_struck.append(fault.times < times)
        fault.times = 0
        offline = [each.path for each in node.log_manager.log_dirs if not each.is_online]
        assert not offline or fault.error == errno.EIO
        if FIRST in offline:
            return
        await nothing_moves(node)
        assert home(node) == assigned(node) == (SECOND if is_begun and not offline else FIRST)
        assert node.append("t", str(len(written)).encode()).error is ErrorCode.NONE
        written.append(str(len(written)).encode())
        assert values(node) == written

    async def next_life(node: BrokerNode) -> None:
        await asyncio.sleep(60)
        await nothing_moves(node)
        assert values(node) == written
        assert node.append("t", b"again").error is ErrorCode.NONE

    was_struck, times = list[bool](), fault.times
    run_stories(story, next_life, disk=disk)
    return was_struck[0]


def test_a_directory_that_fails_leads_nothing_any_more() -> None:
    async def story(node: BrokerNode) -> None:
        alter(node, SECOND)
        await settled(node, SECOND)
        await create(node.controller, "other")
        await asyncio.sleep(1)
        directory(node, SECOND).fail(OSError(errno.EIO, "broken"))
        assert node.append("t", b"more").error is ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(1)
        found = image(node)
        # It may lead again once the directory is back.
        assert (found.leader, found.isr, found.elr) == (-1, (), (NODE_ID,))
        assert node.append("other", b"1").error is ErrorCode.NONE
        broker = node.controller.image.brokers[NODE_ID]
        lost = directory(node, SECOND).directory_id
        assert (len(broker.directories), lost in broker.directories) == (2, False)

    async def next_life(node: BrokerNode) -> None:
        assert (image(node).leader, home(node)) == (NODE_ID, SECOND)
        assert values(node) == [b"0", b"1"]

    run_stories(story, next_life)


def test_nothing_is_made_anew_that_may_be_in_a_directory_that_is_offline() -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        alter(node, SECOND)
        await settled(node, SECOND)

    async def next_life(node: BrokerNode) -> None:
        assert not directory(node, SECOND).is_online
        assert node.append("t", b"more").error is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.log_manager.get_log(T0) is None

    run_stories(story, disk=disk)
    disk.faults.append(Fault(Kind.REMOVE, errno.EIO, f"{SECOND}/.kafka_cleanshutdown"))
    run_stories(next_life, disk=disk)


def write_key(node: BrokerNode, log: UnifiedLog, times: int) -> None:
    """Write records of one key, and close the segment."""
    now_ms = node.environment.wall_clock_ms()
    for _ in range(times):
        batch = build_batch([Record(0, now_ms, b"key", b"value")])
        log.append_as_leader(memoryview(batch), 0, now_ms)
    log.update_high_watermark(log.log_end_offset)
    log.roll(now_ms)
    log.flush()


def test_what_is_known_of_a_cleaning_moves_with_the_log() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)

    def cleaned(path: str) -> bytes:
        name = f"{path}/cleaner-offset-checkpoint"
        return files.read(name) if files.exists(name) else b""

    async def story(node: BrokerNode) -> None:
        config = HousekeepingConfig()
        compaction = Housekeeping(
            config,
            node.log_manager,
            node.environment,
            LoopExecutor(),
            Supervisor(node.environment.random),
        ).compaction
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        await node.controller.create_topics(creation("c", configs=configs))
        name = TopicPartition("c", 0)
        log = node.replicas.partition(name).log
        write_key(node, log, 3)
        assert await compaction.clean_dirtiest()
        (source,) = [path for path in (FIRST, SECOND, THIRD) if b"c 0 3" in cleaned(path)]
        target = THIRD if source != THIRD else SECOND
        write_key(node, log, 1)
        assert alter(node, target, name) is ErrorCode.NONE
        # It is not cleaned while it is copied.
        assert not await compaction.clean_dirtiest()
        await nothing_moves(node)
        assert b"c 0 3" in cleaned(target)
        assert b"c 0" not in cleaned(source)
        write_key(node, node.replicas.partition(name).log, 1)
        assert await compaction.clean_dirtiest()
        assert b"c 0 5" in cleaned(target)

    run_stories(story, disk=disk)


def test_a_directory_has_no_id_before_it_is_opened() -> None:
    assert LogDir(SimulatedFiles(SimulatedDisk()), FIRST).directory_id == Uuid(bytes(16))


def test_a_move_that_a_bug_keeps_from_resuming_resumes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resume = ReplicaMovement.resume
    failures: list[Partition] = []

    def fail_once(self: ReplicaMovement, partition: Partition) -> None:
        if not failures:
            failures.append(partition)
            raise LookupError
        resume(self, partition)

    async def before(node: BrokerNode) -> None:
        node.replicas.limit_moves(SLOW)
        for _ in range(3):
            node.append("t", BIG)
        assert alter(node, SECOND) is ErrorCode.NONE
        await asyncio.sleep(1)
        monkeypatch.setattr(ReplicaMovement, "resume", fail_once)

    async def after(node: BrokerNode) -> None:
        assert node.log_manager.future_logs.get(T0) is not None
        await asyncio.sleep(60)
        assert home(node) == SECOND

    run_stories(before, after)
    assert len(failures) == 1


def test_a_future_log_that_misses_a_configuration_gets_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update, failures = UnifiedLog.update_config, list[UnifiedLog]()

    def fail_once(self: UnifiedLog, config: LogConfig) -> None:
        if not failures and self.directory.endswith("-future"):
            failures.append(self)
            raise LookupError
        update(self, config)

    async def story(node: BrokerNode) -> None:
        log = log_of(node)
        future = node.log_manager.create_future_log(log, directory(node, SECOND), "0" * 32, 0)
        monkeypatch.setattr(UnifiedLog, "update_config", fail_once)
        await node.controller.alter_topic_config("t", {"retention.ms": "1234567"})
        await asyncio.sleep(2)
        assert log.config.retention_ms == 1_234_567
        assert future.config.retention_ms == 1_234_567

    run_stories(story)
    assert len(failures) == 1

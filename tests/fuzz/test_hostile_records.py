"""What lies in the logs of internal topics may be anything: one bad record costs itself.

It is stepped over and told in one line, with partition and offset. The others are loaded, and their
groups and transactional ids are served, swept and deleted; a group or an id that a hostile record
has made is one like any other. `--seeds 0-999` makes more of them.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.consumer import consumer_schemas as schemas
from tierlog.coordinator.consumer.consumer_heartbeat import ConsumerHeartbeat
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group_actions import MemberIdentity
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.group_records import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetKey,
    offset_record,
    offset_tombstone,
)
from tierlog.coordinator.offsets import FetchTopic
from tierlog.coordinator.transaction.transaction_config import TransactionConfig
from tierlog.coordinator.transaction.transaction_coordinator import (
    ProducerIdentity,
    TransactionCoordinator,
)
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    transaction_tombstone,
)
from tierlog.coordinator.transaction.transaction_shard import Addition, Ending, Initialization
from tierlog.coordinator.transaction.transaction_state import TransactionState
from tierlog.storage.remote.remote_segment import RemoteLogSegmentState
from tierlog.tests.coordinator.group.coordinated_groups import (
    GROUP,
    commit_request,
    join_request,
    later,
)
from tierlog.tests.coordinator.group_driver import committed
from tierlog.tests.coordinator.memory_offsets_log import MemoryOffsetsLog
from tierlog.tests.coordinator.transaction.transaction_partitions import Partitions
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.metadata.hostile_metadata import (
    NUMBER,
    PARTITIONS,
    USER,
    finished,
    reader,
    started,
)
from tierlog.tiering.metadata import metadata_events as events

from .hostile_records import HostileRecords, RecordKind

pytestmark = pytest.mark.seeds("0-9", long="10-199")

BATCHES = 40
DAY_S = 86_400
ID = "sound"
STEPPED_OVER = "Skipped the record"

_V0 = range(1)
GROUP_KINDS = (
    RecordKind(0, OffsetCommitKey, OffsetCommitValue, range(5)),
    RecordKind(1, OffsetCommitKey, OffsetCommitValue, range(5)),
    RecordKind(2, GroupMetadataKey, GroupMetadataValue, range(5)),
    RecordKind(3, schemas.ConsumerGroupMetadataKey, schemas.ConsumerGroupMetadataValue, _V0),
    RecordKind(
        5, schemas.ConsumerGroupMemberMetadataKey, schemas.ConsumerGroupMemberMetadataValue, _V0
    ),
    RecordKind(
        6,
        schemas.ConsumerGroupTargetAssignmentMetadataKey,
        schemas.ConsumerGroupTargetAssignmentMetadataValue,
        _V0,
    ),
    RecordKind(
        7,
        schemas.ConsumerGroupTargetAssignmentMemberKey,
        schemas.ConsumerGroupTargetAssignmentMemberValue,
        _V0,
    ),
    RecordKind(
        8,
        schemas.ConsumerGroupCurrentMemberAssignmentKey,
        schemas.ConsumerGroupCurrentMemberAssignmentValue,
        _V0,
    ),
    RecordKind(
        16,
        schemas.ConsumerGroupRegularExpressionKey,
        schemas.ConsumerGroupRegularExpressionValue,
        _V0,
    ),
)
TRANSACTION_KINDS = (RecordKind(0, TransactionLogKey, TransactionLogValue, range(2)),)

EVENT_KINDS = (
    RecordKind(
        0, events.RemoteLogSegmentMetadataRecord, events.RemoteLogSegmentMetadataRecord, _V0
    ),
    RecordKind(
        1,
        events.RemoteLogSegmentMetadataUpdateRecord,
        events.RemoteLogSegmentMetadataUpdateRecord,
        _V0,
    ),
    RecordKind(
        2,
        events.RemotePartitionDeleteMetadataRecord,
        events.RemotePartitionDeleteMetadataRecord,
        _V0,
    ),
)

NAMES: dict[str, tuple[object, ...]] = {
    "group": ("h", "k"),
    "group_id": ("h", "k"),
    "group_instance_id": ("i", None),
    "instance_id": ("i", "j"),
    "leader": ("m", "nobody"),
    "member_id": ("m", "n"),
    "partition": (0, 1),
    "partition_ids": (0, 1),
    "partitions": (0, 1),
    "producer_epoch": (0, 1, 32_766, 32_767),
    "producer_id": (0, 1),
    "protocol": ("range",),
    "protocol_type": ("consumer",),
    "rebalance_timeout": (60_000,),
    "regular_expression": (".*", "["),
    "session_timeout": (10_000,),
    "state": (0, 1, 2, 3),
    "subscribed_topic_names": ("topic",),
    "topic": ("topic",),
    "transaction_status": (0, 1, 2, 3, 4, 5, 6, 7),
    "transaction_timeout_ms": (60_000,),
    "transactional_id": ("x", "y"),
}


async def loaded(state: Callable[[], object]) -> None:
    for _ in range(1_000):
        if state() is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return
        await asyncio.sleep(0)
    raise AssertionError("the log was never read to its end")


class Groups:
    """A coordinator of groups whose topic has one partition."""

    def __init__(self, loop: SimulatedLoop, log: MemoryOffsetsLog) -> None:
        environment = SimulatedEnvironment(loop)
        self.supervisor = Supervisor(environment.random)
        config = GroupCoordinatorConfig(offsets_topic_num_partitions=1)
        self.coordinator = GroupCoordinator(config, environment, log, self.supervisor)
        self.coordinator.start()

    async def elect(self) -> None:
        self.coordinator.on_elected(0, 0)
        await loaded(lambda: self.coordinator.list_groups([], [])[0])

    async def commit(self, offset: int) -> None:
        assert await later(committed(self.coordinator, commit_request(offset))) == [0]

    async def committed(self) -> int:
        wanted = [FetchTopic("topic", ZERO_UUID, [0])]
        error, topics = await later(self.coordinator.fetch_offsets(GROUP, wanted, False))
        assert not error
        return topics[0].partitions[0][1].offset

    async def ask_everything_of(self, group_id: str) -> None:
        """What clients and tools ask of a group, whatever it is."""
        coordinator = self.coordinator
        coordinator.describe_group(group_id)
        coordinator.describe_consumer_group(group_id)
        coordinator.heartbeat(group_id, MemberIdentity("m", None), 1)
        await later(coordinator.fetch_offsets(group_id, None, False))
        request = join_request("anna")._replace(group_id=group_id)
        joins = [
            asyncio.ensure_future(later(coordinator.join_group(request._replace(member_id=each))))
            for each in ("", "m", "anna")
        ]
        for member_id, epoch in (("m", 0), ("m", 1), ("n", -1), ("anna", 0)):
            heartbeat = ConsumerHeartbeat(
                group_id, member_id, epoch, None, None, 60_000, ("topic",), None, None, frozenset()
            )
            with suppress(KafkaError):
                await later(coordinator.consumer_group_heartbeat(heartbeat, False))
        await asyncio.sleep(120)
        await asyncio.gather(*joins)


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if STEPPED_OVER in each.getMessage()]


def check_lines(caplog: pytest.LogCaptureFixture, topic: str) -> None:
    """What is stepped over is told, in few lines, and none is a fault of ours."""
    lines = log_lines(caplog)
    assert 0 < len(lines) < 20
    assert all(re.match(rf"{STEPPED_OVER} at offset \d+ of {topic}-0: ", line) for line in lines)
    assert traces(caplog) == []


def traces(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.exc_info]


@pytest.mark.simulated(time_limit_s=100 * DAY_S)
async def test_groups_are_served_whatever_else_lies_in_their_log(
    loop: SimulatedLoop, simulation_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = HostileRecords(f"groups {simulation_seed}", GROUP_KINDS, NAMES)
    log = MemoryOffsetsLog()
    before = Groups(loop, log)
    await before.elect()
    await before.commit(41)
    for _ in range(BATCHES):
        log.append(0, hostile.batch())
    await before.commit(42)
    before.coordinator.stop()
    groups = Groups(loop, log)
    await groups.elect()
    assert await groups.committed() == 42
    check_lines(caplog, "__consumer_offsets")
    _, known = groups.coordinator.list_groups([], [])
    assert GROUP in [each.group_id for each in known]
    await asyncio.gather(*(groups.ask_everything_of(each.group_id) for each in known))
    await groups.commit(43)
    assert await groups.committed() == 43
    await asyncio.sleep(8 * DAY_S)
    for each in known:
        await later(groups.coordinator.delete_group(each.group_id))
    assert not groups.supervisor.failures
    groups.coordinator.stop()
    assert traces(caplog) == []


class Transactions:
    """A coordinator of transactions whose topic has one partition."""

    def __init__(self, loop: SimulatedLoop, log: MemoryOffsetsLog) -> None:
        environment = SimulatedEnvironment(loop)
        self.supervisor = Supervisor(environment.random)
        self.ids = count(1_000)
        self.partitions = Partitions()
        config = TransactionConfig(num_partitions=1)
        self.coordinator = TransactionCoordinator(
            config,
            environment,
            log,
            self.partitions,
            self.supervisor,
            take_producer_id=lambda: None,
        )
        self.coordinator.start()

    async def elect(self) -> None:
        self.coordinator.on_elected(0, 0)
        await loaded(self.coordinator.transactions)

    def known(self) -> list[Transaction]:
        found = self.coordinator.transactions()
        assert isinstance(found, list)
        return found

    def take(self) -> int:
        """Another producer id."""
        return next(self.ids)

    async def begin(self, transactional_id: str) -> ProducerIdentity:
        """A producer comes for its id, and opens a transaction."""
        request = Initialization(transactional_id, 60_000, None)
        answer = self.coordinator.initialize(request, self.take)
        assert answer is not None
        who = await later(answer)
        if not who.error:
            partitions = frozenset({TopicPartition("topic", 0)})
            addition = Addition(
                transactional_id, who.producer_id, who.producer_epoch, partitions, 2
            )
            assert not await later(self.coordinator.add_partitions(addition))
        return who

    async def transact(self, transactional_id: str) -> ErrorCode:
        """A producer comes for its id, and commits something."""
        error, producer_id, epoch = await self.begin(transactional_id)
        if error:
            return error
        request = Ending(transactional_id, producer_id, epoch, True, 2)
        ending = self.coordinator.end(request, self.take)
        assert ending is not None
        return (await later(ending)).error


@pytest.mark.simulated(time_limit_s=100 * DAY_S)
async def test_transactional_ids_are_served_whatever_else_lies_in_their_log(
    loop: SimulatedLoop, simulation_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = HostileRecords(f"transactions {simulation_seed}", TRANSACTION_KINDS, NAMES)
    log = MemoryOffsetsLog()
    before = Transactions(loop, log)
    await before.elect()
    assert await before.transact(ID) is ErrorCode.NONE
    await asyncio.sleep(10)
    before.coordinator.stop()
    for _ in range(BATCHES):
        log.append(0, hostile.batch())
    transactions = Transactions(loop, log)
    await transactions.elect()
    check_lines(caplog, "__transaction_state")
    await asyncio.sleep(60)
    assert await transactions.transact(ID) is ErrorCode.NONE
    for each in transactions.known():
        await transactions.transact(each.transactional_id)
    # Whatever was open is aborted by then, and whoever comes then is served.
    await asyncio.sleep(DAY_S)
    for each in transactions.known():
        # An empty id is in the log and cannot be asked for.
        served = ErrorCode.NONE if each.transactional_id else ErrorCode.INVALID_REQUEST
        assert await transactions.transact(each.transactional_id) is served, each
    await asyncio.sleep(8 * DAY_S)
    assert transactions.known() == []
    assert not transactions.supervisor.failures
    transactions.coordinator.stop()
    assert traces(caplog) == []


async def test_segments_of_the_tier_are_known_whatever_else_lies_in_the_metadata_topic(
    loop: SimulatedLoop, simulation_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = HostileRecords(f"events {simulation_seed}", EVENT_KINDS, NAMES)
    topic = SharedTopic(PARTITIONS)
    metadata = reader(loop, topic)
    await metadata.start()
    for number in range(BATCHES):
        topic.write(NUMBER, hostile.value())
        await metadata.publish(started(number))
        await metadata.publish(finished(number))
    assert not metadata.status
    for number in range(BATCHES):
        segment = metadata.remote_log(USER).segment(started(number).id)
        assert segment is not None
        assert segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    await metadata.stop()
    assert traces(caplog) == []


def test_one_bad_record_costs_itself_and_is_reported_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = MemoryOffsetsLog()
    key = OffsetKey(GROUP, "topic", 0)
    offsets = [
        offset_record(key, CommittedOffset(each, -1, "", 0, None, ZERO_UUID)) for each in (5, 6, 7)
    ]
    builder = RecordBatchBuilder(compression=CompressionType.GZIP)
    for record in (offsets[0], offsets[1]._replace(value=b"\0\x63"), offsets[2]):
        builder.append(0, *record)
    log.append(0, builder.build())

    async def story(loop: SimulatedLoop) -> None:
        groups = Groups(loop, log)
        # A leader that is elected again reads it again, and does not tell it twice.
        for epoch in range(2):
            groups.coordinator.on_elected(0, epoch)
            assert await groups.committed() == 7
        groups.coordinator.stop()

    simulate(story)
    (line,) = log_lines(caplog)
    assert line.startswith("Skipped the record at offset 1 of __consumer_offsets-0: A group record")


async def test_nothing_is_decided_about_an_id_whose_last_record_makes_no_sense(
    loop: SimulatedLoop,
) -> None:
    """The record before says that the transaction is open: to abort it might undo a commit."""
    log = MemoryOffsetsLog()
    before = Transactions(loop, log)
    await before.elect()
    assert await before.begin(ID)
    assert [each.state for each in before.known()] == [TransactionState.ONGOING]
    before.coordinator.stop()
    builder = RecordBatchBuilder()
    builder.append(0, transaction_tombstone(ID).key, b"\0\1cut short")
    log.append(0, builder.build())
    after = Transactions(loop, log)
    await after.elect()
    assert after.known() == []
    await asyncio.sleep(DAY_S / 2)
    assert after.partitions.markers == []
    assert await after.transact(ID) is ErrorCode.NONE
    after.coordinator.stop()


async def test_a_large_batch_is_folded_in_turns(loop: SimulatedLoop) -> None:
    count, log = 50_000, MemoryOffsetsLog()
    builder = RecordBatchBuilder(compression=CompressionType.GZIP)
    committed = CommittedOffset(1, -1, "", 0, None, ZERO_UUID)
    value = offset_record(OffsetKey(GROUP, "topic", 0), committed).value
    for partition in range(count):
        builder.append(0, offset_tombstone(OffsetKey(GROUP, "topic", partition)).key, value)
    log.append(0, builder.build())
    groups, turns = Groups(loop, log), 0
    groups.coordinator.on_elected(0, 0)
    while groups.coordinator.list_groups([], [])[0]:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= count // 5_000
    assert await groups.committed() == 1
    groups.coordinator.stop()

"""Produce, fetch and offsets on one broker: what is answered, what waits, what is refused."""

import asyncio
import errno
from typing import cast

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.fetch import EpochEndOffset, LeaderIdAndEpoch, PartitionData
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.metadata.metadata_records import PartitionChangeRecord
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.partition.fetch_data import FetchParams
from tierlog.replication.topic_names import REMOTE_LOG_METADATA_TOPIC
from tierlog.storage.checkpoint import PARTITION_METADATA_FILE
from tierlog.storage.config import LogConfig
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.replication.broker_node import (
    BrokerNode,
    batch_of,
    broker_node,
    codes,
    count_waiting,
    offsets,
    records_in,
    values_in,
    with_broker,
)
from tierlog.tests.replication.node import (
    DATA,
    create,
    creation,
    delete,
    open_controller,
    registration,
)
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate


async def fetch(node: BrokerNode, params: FetchParams, *offsets: int) -> list[PartitionData]:
    """Fetch partition 0, 1, ... of topic t from these offsets, waiting as long as it takes."""
    asked = [node.asked("t", offset, partition=n) for n, offset in enumerate(offsets)]
    outcome = node.replicas.leader_fetch.fetch(params, asked)
    return outcome if isinstance(outcome, list) else await outcome


async def test_what_is_appended_is_fetched_as_the_same_bytes(node: BrokerNode) -> None:
    await create(node.controller, "t")
    first = node.append("t", b"a", b"b")
    second = node.append("t", b"c")
    assert (first.error, first.base_offset, first.last_offset) == (ErrorCode.NONE, 0, 1)
    assert (second.base_offset, second.log_start_offset) == (2, 0)
    (result,) = node.fetch_now(node.asked("t", 0))
    assert records_in(result) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (result.high_watermark, result.last_stable_offset) == (3, 3)
    assert result.aborted_transactions is None


@pytest.mark.parametrize("acks", [-1, 0, 1])
async def test_with_one_replica_every_acks_is_answered_in_the_call(
    node: BrokerNode, acks: int
) -> None:
    await create(node.controller, "t")
    entries = [AppendEntry(TopicPartition("t", 0), batch_of(b"x"))]
    outcome = node.replicas.append_records(AppendRequest(entries, acks))
    assert isinstance(outcome, list)
    assert outcome[0].error is ErrorCode.NONE
    assert node.replicas.partition(TopicPartition("t", 0)).log.high_watermark == 1


async def test_refusals_of_an_append_are_each_partitions_own(node: BrokerNode) -> None:
    await create(node.controller, "t")
    await create(node.controller, "__consumer_offsets")
    damaged = batch_of(b"x")
    damaged[-1] ^= 1
    entries = [
        AppendEntry(TopicPartition("t", 0), damaged),
        AppendEntry(TopicPartition("t", 7), batch_of(b"x")),
        AppendEntry(TopicPartition("nobody", 0), batch_of(b"x")),
        AppendEntry(TopicPartition("__consumer_offsets", 0), batch_of(b"x")),
        AppendEntry(TopicPartition("t", 0), batch_of(b"fine")),
    ]
    outcome = node.replicas.append_records(AppendRequest(entries))
    assert isinstance(outcome, list)
    assert [result.error for result in outcome] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert outcome[4].base_offset == 0
    coordinator = AppendRequest(entries[3:4], origin=AppendOrigin.COORDINATOR)
    allowed = node.replicas.append_records(coordinator)
    assert isinstance(allowed, list)
    assert allowed[0].error is ErrorCode.NONE
    refused = node.replicas.append_records(AppendRequest(entries, acks=2))
    assert isinstance(refused, list)
    assert {result.error for result in refused} == {ErrorCode.INVALID_REQUIRED_ACKS}


async def test_a_fetch_waits_for_min_bytes_and_wakes_on_the_append(node: BrokerNode) -> None:
    await create(node.controller, "t", partitions=2)
    params = FetchParams(max_wait_ms=5_000, min_bytes=1)
    waiting = asyncio.ensure_future(fetch(node, params, 0, 0))
    await asyncio.sleep(1)
    assert not waiting.done()
    assert count_waiting(node.replicas)["Fetch"] == 1
    node.append("t", b"x", partition=1)
    results = await waiting
    assert [values_in(result) for result in results] == [[], [b"x"]]
    assert count_waiting(node.replicas)["Fetch"] == 0


async def test_a_fetch_counts_the_bytes_of_all_its_partitions(node: BrokerNode) -> None:
    await create(node.controller, "t", partitions=2)
    params = FetchParams(max_wait_ms=5_000, min_bytes=300)
    waiting = asyncio.ensure_future(fetch(node, params, 0, 0))
    await asyncio.sleep(0.1)
    node.append("t", b"x" * 150)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    node.append("t", b"y" * 150, partition=1)
    results = await waiting
    assert [values_in(result) for result in results] == [[b"x" * 150], [b"y" * 150]]


async def test_a_fetch_that_finds_nothing_is_answered_empty_after_max_wait(
    node: BrokerNode,
) -> None:
    loop = asyncio.get_running_loop()
    await create(node.controller, "t")
    begin = loop.time()
    (result,) = await fetch(node, FetchParams(max_wait_ms=700), 0)
    assert values_in(result) == []
    assert 0.7 <= loop.time() - begin < 0.75
    assert count_waiting(node.replicas)["Fetch"] == 0


async def test_a_client_that_goes_away_leaves_nothing_waiting(node: BrokerNode) -> None:
    await create(node.controller, "t")
    outcome = node.replicas.leader_fetch.fetch(
        FetchParams(max_wait_ms=60_000), [node.asked("t", 0)]
    )
    assert isinstance(outcome, asyncio.Future)
    outcome.cancel()
    await asyncio.sleep(0)
    assert count_waiting(node.replicas)["Fetch"] == 0
    node.append("t", b"x")


async def test_a_waiting_fetch_is_answered_when_its_topic_goes(node: BrokerNode) -> None:
    await create(node.controller, "t")
    waiting = asyncio.ensure_future(fetch(node, FetchParams(max_wait_ms=60_000), 0))
    await asyncio.sleep(1)
    await delete(node.controller, "t")
    (result,) = await waiting
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_first_batch_comes_whole_even_when_it_is_larger_than_every_limit(
    node: BrokerNode,
) -> None:
    await create(node.controller, "t", partitions=3)
    for partition in (1, 2):
        node.append("t", b"x" * 1_000, partition=partition)
    asked = [node.asked("t", 0, partition=n, max_bytes=100) for n in range(3)]
    results = node.fetch_now(*asked, max_bytes=100)
    # The empty partition doesn't use up the exception; the one after the first doesn't get it.
    assert [len(values_in(result)) for result in results] == [0, 1, 0]
    assert codes(results) == [ErrorCode.NONE] * 3


async def test_a_fetch_ends_where_the_requests_bytes_end(node: BrokerNode) -> None:
    await create(node.controller, "t", partitions=3)
    for partition in range(3):
        node.append("t", b"x" * 1_000, partition=partition)
    asked = [node.asked("t", 0, partition=n) for n in range(3)]
    results = node.fetch_now(*asked, max_bytes=2_500)
    assert [len(values_in(result)) for result in results] == [1, 1, 0]


async def test_errors_of_a_fetch_are_reported_at_once_and_only_where_they_are(
    node: BrokerNode,
) -> None:
    await create(node.controller, "t")
    node.append("t", b"x")
    stranger = node.asked("t", 0)
    stranger.topic_id_partition = TopicIdPartition(Uuid(b"o" * 16), "t", 0)
    unknown = node.asked("t", 0, partition=9)
    beyond = node.asked("t", 2)
    at_end = node.asked("t", 1)
    fenced, ahead = node.asked("t", 0), node.asked("t", 0)
    fenced.current_leader_epoch, ahead.current_leader_epoch = 0, 9
    params = FetchParams(max_wait_ms=60_000, min_bytes=1_000)
    asked = [stranger, unknown, beyond, at_end, fenced, ahead]
    results = node.replicas.leader_fetch.fetch(params, asked)
    assert isinstance(results, list)
    assert codes(results) == [
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


def test_a_client_of_an_older_epoch_is_fenced_and_gets_the_leader() -> None:
    disk = SimulatedDisk()

    async def first(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"old")

    async def second(node: BrokerNode) -> None:
        asked = node.asked("t", 0)
        asked.current_leader_epoch = 0
        (result,) = node.fetch_now(asked)
        assert result.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert result.current_leader == LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
        (result,) = node.fetch_now(node.asked("t", 0))
        assert values_in(result) == [b"old"]

    with_broker(first, disk)
    with_broker(second, disk)


def test_a_fetcher_whose_log_diverges_gets_the_diverging_epoch() -> None:
    disk = SimulatedDisk()

    async def first(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"a", b"b")

    async def second(node: BrokerNode) -> None:
        node.append("t", b"c")
        for offset, epoch, diverging in (
            (3, 2, EpochEndOffset()),
            (2, 0, EpochEndOffset()),
            (3, 0, EpochEndOffset(epoch=0, end_offset=2)),
            (4, 2, EpochEndOffset(epoch=2, end_offset=3)),
        ):
            asked = node.asked("t", offset)
            asked.last_fetched_epoch = epoch
            (result,) = node.fetch_now(asked)
            assert (result.error_code, result.diverging_epoch) == (ErrorCode.NONE, diverging)
            if diverging.epoch >= 0:
                assert values_in(result) == []
                assert result.high_watermark == 3
        asked = node.asked("t", 1)
        asked.last_fetched_epoch = 5
        assert codes(node.fetch_now(asked)) == [ErrorCode.OFFSET_OUT_OF_RANGE]

    with_broker(first, disk)
    with_broker(second, disk)


async def test_a_topic_made_again_under_its_name_starts_empty(node: BrokerNode) -> None:
    await create(node.controller, "t")
    old = node.asked("t", 0)
    node.append("t", b"old")
    await delete(node.controller, "t")
    await create(node.controller, "t")
    assert codes(node.fetch_now(old)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    (result,) = node.fetch_now(node.asked("t", 0))
    assert (values_in(result), result.high_watermark) == ([], 0)


def test_a_log_without_a_topic_is_left_alone_until_its_name_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    name = TopicPartition("t", 0)

    async def first(loop: SimulatedLoop) -> None:
        # The power goes between the removal of the topic and that of its log.
        node = BrokerNode(loop, SimulatedFiles(disk))
        node.log_manager.get_or_create_log(name, Uuid(b"s" * 16), LogConfig(), 0)
        await node.stop()

    async def second(node: BrokerNode) -> None:
        assert (
            "Found stray log directories (1) that belong to no partition of this broker"
            in caplog.text
        )
        assert node.log_manager.get_log(name) is not None
        assert node.append("t", b"x").error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await create(node.controller, "t")
        log = node.log_manager.get_log(name)
        assert log is not None
        assert log.topic_id == node.controller.image.topics_by_name["t"].topic_id

    simulate(first)
    with_broker(second, disk)


@pytest.mark.parametrize("is_same_topic", [True, False])
def test_a_replica_that_left_while_its_broker_was_down_leaves_no_log(is_same_topic: bool) -> None:
    disk = SimulatedDisk()
    name = TopicPartition("t", 0)

    async def first(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"old")

    async def meanwhile(loop: SimulatedLoop) -> None:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        if not is_same_topic:
            await delete(controller, "t")
            await create(controller, "t")
        topic_id = controller.image.topics_by_name["t"].topic_id
        left = PartitionChangeRecord(
            partition_id=0, topic_id=topic_id, replicas=[7], isr=[7], leader=7
        )
        await controller.decide(lambda _: Decision([left], None))
        await controller.stop()

    async def again(node: BrokerNode) -> None:
        assert node.log_manager.get_log(name) is None
        assert node.append("t", b"x").error is not ErrorCode.NONE

    with_broker(first, disk)
    simulate(meanwhile)
    with_broker(again, disk)


def test_a_log_that_lost_the_name_of_its_topic_keeps_its_records() -> None:
    """What a power loss can take of a log that was never flushed; Kafka adopts it as well."""
    disk = SimulatedDisk()

    async def first(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"kept")

    async def second(node: BrokerNode) -> None:
        (result,) = node.fetch_now(node.asked("t", 0))
        assert values_in(result) == [b"kept"]
        topic_id = node.controller.image.topics_by_name["t"].topic_id
        assert node.replicas.partition(TopicPartition("t", 0)).log.topic_id == topic_id

    with_broker(first, disk)
    SimulatedFiles(disk).remove(f"{DATA}/t-0/{PARTITION_METADATA_FILE}")
    with_broker(second, disk)


def test_a_topics_configuration_reaches_its_logs() -> None:
    disk = SimulatedDisk()
    name = TopicPartition("t", 0)

    async def first(node: BrokerNode) -> None:
        response = await node.controller.create_topics(creation("t", configs={"retention.ms": "5"}))
        assert response.topics[0].error_code == 0
        log = node.replicas.partition(name).log
        assert log.config.retention_ms == 5
        await node.controller.alter_topic_config("t", {"max.message.bytes": "100"})
        assert (log.config.retention_ms, log.config.max_message_bytes) == (5, 100)
        assert node.append("t", b"x" * 200).error is ErrorCode.MESSAGE_TOO_LARGE

    async def second(node: BrokerNode) -> None:
        assert node.replicas.partition(name).log.config.max_message_bytes == 100

    with_broker(first, disk)
    with_broker(second, disk)


class Listening:
    """Notes the leaderships that it is told of."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        self.heard.append(("elected", partition, leader_epoch))

    def on_resigned(self, partition: int) -> None:
        self.heard.append(("resigned", partition, -1))


async def test_a_listener_hears_of_leaderships_present_and_to_come(node: BrokerNode) -> None:
    await create(node.controller, "t")
    mine, other = Listening(), Listening()
    node.replicas.listen("t", mine)
    node.replicas.listen("u", other)
    await delete(node.controller, "t")
    await create(node.controller, "u", partitions=2)
    assert mine.heard == [("elected", 0, 0), ("resigned", 0, -1)]
    assert other.heard == [("elected", 0, 0), ("elected", 1, 0)]


async def test_a_disk_that_fails_takes_its_partitions_offline_and_answers_those_who_wait(
    loop: SimulatedLoop,
) -> None:
    disk = SimulatedDisk()
    node = BrokerNode(loop, SimulatedFiles(disk))
    await create(node.controller, "t")
    node.append("t", b"x")
    waiting = asyncio.ensure_future(fetch(node, FetchParams(max_wait_ms=60_000), 1))
    await asyncio.sleep(1)
    disk.faults.append(Fault(Kind.WRITE, errno.EIO))
    assert node.append("t", b"y").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert codes(await waiting) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.append("t", b"z").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert codes(node.fetch_now(node.asked("t", 0))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert offsets(node, -1)[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    await node.replicas.stop()


async def test_stopping_answers_those_who_wait(loop: SimulatedLoop) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await create(node.controller, "t")
    waiting = asyncio.ensure_future(fetch(node, FetchParams(max_wait_ms=60_000), 0))
    await asyncio.sleep(1)
    await node.stop()
    assert codes(await waiting) == [ErrorCode.NONE]


@pytest.mark.parametrize("sender", ["somebody", None])
async def test_the_metadata_topic_of_a_tier_is_one_producers_alone(
    loop: SimulatedLoop, sender: str | None
) -> None:
    """A tier stands on it where there is one; where there is none, it is any other topic."""

    def asked(name: str | None) -> AppendRequest:
        entry = AppendEntry(TopicPartition(REMOTE_LOG_METADATA_TOPIC, 0), batch_of(b"x"))
        return AppendRequest([entry], sender=name)

    def code_of(outcome: object) -> int:
        assert isinstance(outcome, list)
        return cast("list[AppendEntry]", outcome)[0].error

    where = TopicPartition(REMOTE_LOG_METADATA_TOPIC, 0)
    async with broker_node(loop, SimulatedFiles(SimulatedDisk())) as node:
        await create(node.controller, REMOTE_LOG_METADATA_TOPIC)
        assert code_of(node.replicas.append_records(asked(sender))) == 0

    def is_metadata_writer(client_id: str | None) -> bool:
        return client_id == "its own"

    files = SimulatedFiles(SimulatedDisk())
    async with broker_node(loop, files, is_metadata_writer=is_metadata_writer) as node:
        await create(node.controller, REMOTE_LOG_METADATA_TOPIC)
        assert code_of(node.replicas.append_records(asked(sender))) == 17
        assert code_of(node.replicas.append_records(asked("its own"))) == 0
        refused = node.replicas.delete_records([(where, -1)], 1000)
        assert isinstance(refused, list)
        assert refused[0].error == 17


def test_a_damaged_batch_header_is_reported_once_with_its_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"a")
        node.append("t", b"b")
        file = disk.file(f"{DATA}/t-0/{0:020d}.log")
        file.content[8] ^= 0x80
        for _ in range(3):
            assert codes(node.fetch_now(node.asked("t", 0))) == [ErrorCode.CORRUPT_MESSAGE]
        file.content[8] ^= 0x80
        assert len(records_in(node.fetch_now(node.asked("t", 0))[0])) == 2

    with_broker(story, disk)
    messages = [
        each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()
    ]
    assert len(messages) == 1
    assert "t-0 cannot be read at offset 0" in messages[0]
    assert f"{0:020d}.log is damaged at position 0" in messages[0]

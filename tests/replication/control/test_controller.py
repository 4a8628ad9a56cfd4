"""The controller: one change after the other, answered when it counts, remembered for ever."""

import asyncio
import errno
from collections.abc import Awaitable

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tierlog.clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.replication.control import controller_loop
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.controller_state import ControllerCore, ControllerState
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    TopicRecord,
)
from tierlog.tests.replication.node import (
    CLUSTER_ID,
    create,
    creation,
    open_controller,
    registration,
)
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.disk import Fault, Kind, PowerLoss, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate


async def test_a_new_cluster_begins_with_its_feature_level_and_its_own_broker(
    loop: SimulatedLoop,
) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    image = controller.image
    assert (image.cluster_id, controller.leader_id) == (CLUSTER_ID, 1)
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert image.broker_config(None) == {"min.insync.replicas": "1"}
    broker = image.brokers[1]
    assert broker.is_active
    assert broker.endpoints["PLAINTEXT"].port == 9092
    await controller.stop()


def test_topics_configs_and_producer_ids_survive_a_restart() -> None:
    disk = SimulatedDisk()

    async def first_life(loop: SimulatedLoop) -> ClusterImage:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        await create(controller, "orders", "payments", partitions=3)
        await controller.create_topics(creation("gone"))
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=1_000)
        deleted = await controller.delete_topics(deletion)
        assert [result.error_code for result in deleted.responses] == [0]
        await controller.alter_topic_config("orders", {"retention.ms": "5000"})
        widening = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="payments", count=5, assignments=None)],
            timeout_ms=1_000,
        )
        widened = await controller.create_partitions(widening)
        assert [result.error_code for result in widened.results] == [0]
        assert await controller.allocate_producer_ids() == 0
        assert await controller.allocate_producer_ids() == 1_000
        await controller.stop()
        return controller.image

    async def second_life(loop: SimulatedLoop) -> ClusterImage:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration(2))
        assert await controller.allocate_producer_ids() == 2_000
        await controller.stop()
        return controller.image

    before, after = simulate(first_life), simulate(second_life)
    assert sorted(after.topics_by_name) == ["orders", "payments"]
    assert after.topic_config("orders") == {"retention.ms": "5000"}
    assert len(after.topics_by_name["payments"].partitions) == 5
    for name, topic in before.topics_by_name.items():
        assert after.topics_by_name[name].topic_id == topic.topic_id
    assert after.brokers[1].incarnation_id != before.brokers[1].incarnation_id
    assert after.brokers[1].epoch > before.brokers[1].epoch


def test_a_restart_raises_the_epochs_of_the_quorum_and_of_every_partition_led() -> None:
    disk = SimulatedDisk()
    epochs: list[int] = []
    partitions: list[tuple[int, int]] = []

    async def life(loop: SimulatedLoop) -> None:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        if not partitions:
            await create(controller, "t")
        epochs.append(controller.image.epoch)
        partition = controller.image.partition("t", 0)
        assert partition is not None
        partitions.append((partition.leader_epoch, partition.partition_epoch))
        await controller.stop()

    for _ in range(3):
        simulate(life)
    assert epochs == [1, 2, 3]
    # One epoch in which nobody leads, and one in which this broker does.
    assert partitions == [(0, 0), (2, 2), (4, 4)]


def test_a_broker_with_more_partitions_than_one_request_may_create_restarts() -> None:
    disk = SimulatedDisk()

    async def first_life(loop: SimulatedLoop) -> None:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        for name in ("a", "b", "c"):
            await create(controller, name, partitions=4_000)
        await controller.stop()

    async def second_life(loop: SimulatedLoop) -> set[tuple[int, int]]:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration(2))
        image = controller.image
        assert image.brokers[1].is_active
        topics = image.topics_by_name.values()
        partitions = [each for topic in topics for each in topic.partitions.values()]
        assert len(partitions) == 12_000
        await controller.stop()
        return {(each.leader, each.leader_epoch) for each in partitions}

    simulate(first_life)
    assert simulate(second_life) == {(1, 2)}


async def test_listeners_hear_of_a_change_before_its_request_is_answered(
    loop: SimulatedLoop,
) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    heard: list[str] = []

    def listen(image: ClusterImage, delta: ClusterDelta) -> None:
        assert controller.image is image
        heard.extend(topic.name for topic in delta.changed_topics.values())

    controller.start(registration())
    await create(controller, "before")
    controller.subscribe(listen)
    assert heard == ["before"]
    await create(controller, "after")
    assert heard == ["before", "after"]
    await controller.stop()


async def test_changes_that_arrive_together_share_one_fsync_and_keep_their_order(
    loop: SimulatedLoop,
) -> None:
    disk = SimulatedDisk()
    controller = open_controller(loop, SimulatedFiles(disk))
    controller.start(registration())
    answers = await asyncio.gather(
        *(controller.create_topics(creation("same")) for _ in range(5)),
        controller.create_topics(creation("other")),
    )
    codes = [answer.topics[0].error_code for answer in answers]
    assert codes == [0, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 4, 0]
    await controller.stop()


async def test_validate_only_changes_nothing(loop: SimulatedLoop) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    image = controller.image
    response = await controller.create_topics(creation("t", validate_only=True))
    assert response.topics[0].error_code == 0
    assert controller.image is image
    await controller.stop()


def test_what_was_replayed_may_be_refused_before_anything_is_written() -> None:
    disk = SimulatedDisk()

    async def first_life(loop: SimulatedLoop) -> ClusterImage:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        await create(controller, "orders")
        image = controller.image
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000)
        await controller.delete_topics(deletion)
        await controller.stop()
        return image

    deleted = simulate(first_life).topics_by_name["orders"].topic_id

    async def second_life(loop: SimulatedLoop) -> None:
        controller = open_controller(loop, SimulatedFiles(disk))
        log = controller.metadata_log
        end, epoch = log.end_offset, log.epoch

        def refuse(image: ClusterImage) -> None:
            assert not log.has_lost(deleted)
            assert log.has_lost(Uuid(bytes(range(16))))
            assert "orders" not in image.topics_by_name
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No.")

        with pytest.raises(KafkaError, match="No"):
            controller.start(registration(), refuse)
        assert (log.end_offset, log.epoch) == (end, epoch)

    simulate(second_life)


async def test_a_disk_that_refuses_to_flush_ends_the_controller(loop: SimulatedLoop) -> None:
    disk = SimulatedDisk()
    controller = open_controller(loop, SimulatedFiles(disk))
    controller.start(registration())
    image = controller.image
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO))
    response = await controller.create_topics(creation("lost"))
    assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert controller.state is ControllerState.FAILED
    assert controller.image is image
    with pytest.raises(KafkaError) as refused:
        await controller.allocate_producer_ids()
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_a_change_that_no_segment_has_room_for_is_refused_alone() -> None:
    """Nothing of it is written: what is decided before and after it is not touched."""

    def too_large(image: ClusterImage) -> Decision[None]:
        value = "v" * 3_000
        return Decision(
            [
                ConfigRecord(resource_type=4, resource_name="1", name=f"n{each}", value=value)
                for each in range(400)
            ],
            None,
        )

    disk = SimulatedDisk()

    async def story(loop: SimulatedLoop) -> ClusterImage:
        config = MetadataLogConfig(segment_bytes=1 << 20)
        controller = open_controller(loop, SimulatedFiles(disk), log_config=config)
        controller.start(registration())
        published: list[int] = []
        controller.subscribe(lambda image, delta: published.append(image.offset))
        epoch = controller.metadata_log.epoch
        before = asyncio.ensure_future(controller.create_topics(creation("before")))
        large = asyncio.ensure_future(controller.decide(too_large))
        after = asyncio.ensure_future(controller.create_topics(creation("after")))
        with pytest.raises(KafkaError) as refused:
            await large
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        for each in (before, after):
            assert (await each).topics[0].error_code == ErrorCode.NONE
        assert controller.leader_id == 1
        assert controller.metadata_log.epoch == epoch
        assert list(controller.image.topics_by_name) == ["before", "after"]
        await create(controller, "next")
        assert published == sorted(set(published))
        image = controller.image
        await controller.stop()
        return image

    image = simulate(story)
    assert _replayed(disk, image.offset) == image


def _replayed(disk: SimulatedDisk, last_offset: int) -> ClusterImage:
    """What a standby makes of the log up to an offset."""

    async def story(loop: SimulatedLoop) -> ClusterImage:
        controller = open_controller(loop, SimulatedFiles(disk))
        core: ControllerCore[None] = ControllerCore(controller.image)
        core.replay(controller.metadata_log.reader.read(last_offset + 1))
        return core.committed

    return simulate(story)


def state_of(controller: Controller) -> ControllerState:
    """As a function, for type checkers take a property to stay as it was."""
    return controller.state


def test_a_standby_replays_what_is_committed_and_decides_nothing() -> None:
    disk = SimulatedDisk()

    async def story(loop: SimulatedLoop) -> ClusterImage:
        controller = open_controller(loop, SimulatedFiles(disk))
        controller.start(registration())
        log = controller.metadata_log
        await create(controller, "ours")
        image = controller.image
        controller.on_deposed()
        assert state_of(controller) is ControllerState.STANDBY
        with pytest.raises(KafkaError) as refused:
            await controller.allocate_producer_ids()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        log.append([BeginTransactionRecord()], 0)
        log.append([TopicRecord(name="half", topic_id=Uuid(b"h" * 16))], 0)
        controller.on_high_watermark(log.end_offset - 1)
        assert controller.image == image
        log.append([EndTransactionRecord()], 0)
        log.append([TopicRecord(name="later", topic_id=Uuid(b"l" * 16))], 0)
        controller.on_high_watermark(log.end_offset - 1)
        assert sorted(controller.image.topics_by_name) == ["half", "ours"]
        controller.on_high_watermark(log.end_offset)
        log.flush()
        controller.on_elected(log.epoch + 1)
        assert state_of(controller) is ControllerState.ACTIVE
        return controller.image

    image = simulate(story)
    assert sorted(image.topics_by_name) == ["half", "later", "ours"]
    assert _replayed(disk, image.offset) == image


async def test_an_answer_without_a_change_waits_for_the_changes_that_it_saw(
    loop: SimulatedLoop,
) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())

    async def names() -> set[str]:
        seen = await controller.decide(lambda image: Decision([], set(image.topics_by_name)))
        assert seen <= controller.image.topics_by_name.keys()
        return seen

    assert await names() == set()
    creating = asyncio.ensure_future(create(controller, "t"))
    asking = asyncio.ensure_future(names())
    assert await asking == {"t"}
    await creating
    await controller.stop()


async def test_decisions_that_take_long_are_reported(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())

    def slow(image: ClusterImage) -> Decision[None]:
        late = loop.time() + 3
        monkeypatch.setattr(loop, "time", lambda: late)
        return Decision([], None)

    await controller.decide(slow)
    monkeypatch.undo()
    assert "Slow decisions: 1 changes took the controller 3000 ms" in caplog.text
    await controller.stop()


async def test_a_change_that_has_waited_too_long_is_not_begun(loop: SimulatedLoop) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    first = asyncio.ensure_future(controller.create_topics(creation("first")))
    for _ in range(5):
        # Until the worker waits for the disk.
        await asyncio.sleep(0)
    late = creation("late")
    late.timeout_ms = 0
    response = await controller.create_topics(late)
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await first).topics[0].error_code == 0
    assert list(controller.image.topics_by_name) == ["first"]
    await controller.stop()


async def test_of_too_many_changes_that_wait_the_last_is_refused_for_now(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_loop, "WRITES_MAX", 2)
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    names = ("a", "b", "c")
    answers = await asyncio.gather(*(controller.create_topics(creation(n)) for n in names))
    codes = [each.topics[0].error_code for each in answers]
    assert codes == [0, 0, ErrorCode.REQUEST_TIMED_OUT]
    await create(controller, "c")
    await controller.stop()


async def test_stopping_answers_those_who_wait(loop: SimulatedLoop) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    waiting = asyncio.ensure_future(controller.create_topics(creation("t")))
    await asyncio.sleep(0)
    await controller.stop()
    assert (await waiting).topics[0].error_code == ErrorCode.NOT_CONTROLLER
    response = await controller.create_topics(creation("u"))
    assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER


class CreatingTopics:
    """Topics are created until the power goes; those that were answered must be there."""

    def __init__(self) -> None:
        self.answered: list[str] = []

    def prepare(self, files: SimulatedFiles) -> None:
        pass

    def work(self, files: SimulatedFiles) -> None:
        async def story(loop: SimulatedLoop) -> None:
            controller = open_controller(loop, files)
            controller.start(registration())
            for name in ("a", "b"):
                await create(controller, name)
                self.answered.append(name)

        try:
            simulate(story)
        except BaseException as error:
            # A controller whose power goes may still get to say that it has failed.
            if not files.is_alive:
                raise PowerLoss from error
            raise

    def check(self, files: SimulatedFiles) -> None:
        async def story(loop: SimulatedLoop) -> None:
            controller = open_controller(loop, files)
            controller.start(registration(2))
            there = controller.image.topics_by_name
            assert set(self.answered) <= set(there)
            for topic in there.values():
                assert list(topic.partitions) == [0]
            name = f"again{controller.image.offset}"
            await create(controller, name)
            await controller.stop()

        simulate(story)


def test_what_was_answered_survives_the_power_going_at_any_point() -> None:
    assert cut_power_everywhere(CreatingTopics) > 10


async def test_a_controller_that_was_not_started_decides_nothing(loop: SimulatedLoop) -> None:
    controller: Controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    with pytest.raises(KafkaError) as refused:
        await controller.allocate_producer_ids()
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_decision_that_fails_unexpectedly_fails_alone(loop: SimulatedLoop) -> None:
    def decide(image: ClusterImage) -> Decision[None]:
        raise LookupError("broken")

    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    async with asyncio.TaskGroup() as together:
        together.create_task(create(controller, "before"))
        failing = together.create_task(_failure_of(controller.decide(decide)))
        together.create_task(create(controller, "after"))
    assert isinstance(failing.result(), LookupError)
    assert controller.state is ControllerState.ACTIVE
    assert {"before", "after"} <= controller.image.topics_by_name.keys()
    await controller.stop()


async def _failure_of(work: Awaitable[None]) -> Exception:
    with pytest.raises(LookupError) as failure:
        await work
    return failure.value


async def test_a_listener_that_fails_ends_neither_the_controller_nor_other_listeners(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[ClusterImage] = []

    def fail(image: ClusterImage, delta: ClusterDelta) -> None:
        if "orders" in image.topics_by_name:
            raise LookupError("broken")

    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    controller.subscribe(fail)
    controller.subscribe(lambda image, delta: seen.append(image))
    await create(controller, "orders")
    await create(controller, "payments")
    assert {"orders", "payments"} <= seen[-1].topics_by_name.keys()
    assert "Publication of metadata" in caplog.text
    await controller.stop()


async def test_producer_ids_that_are_known_to_be_used_are_passed_over(loop: SimulatedLoop) -> None:
    controller = open_controller(loop, SimulatedFiles(SimulatedDisk()))
    controller.start(registration())
    used = [7, 1_500, 2**63 - 1]
    assert await controller.allocate_producer_ids(used=used) == 8
    assert await controller.allocate_producer_ids(used=used) == 1_501
    assert await controller.allocate_producer_ids(used=used) == 2_501
    await controller.stop()

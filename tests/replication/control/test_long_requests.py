"""Requests for thousands of partitions, each with its own result: they are decided on in parts."""

import asyncio
import gc

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages import (
    alter_partition,
    alter_partition_request as isr,
    assign_replicas_to_dirs,
    assign_replicas_to_dirs_request as assigned,
)
from tierlog.replication.control import controller_loop
from tierlog.replication.control.brokers import directory_requests
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.leadership import isr_requests
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.metadata_records import NoOpRecord
from tierlog.storage.config import LogConfig

from .cluster_story import TOPIC_ID, ClusterStory, directory_id

OTHER = Uuid(b"o" * 16)
COUNT = 5


def alteration(cluster: ClusterStory, *, epoch: int | None = None) -> isr.AlterPartitionRequest:
    """Broker 2 asks to be alone in the ISR of all partitions, and of some that do not exist."""
    broker_epoch = cluster.broker(2).epoch
    asked = [
        isr.PartitionData(
            partition_index=number,
            leader_epoch=0,
            partition_epoch=0,
            new_isr_with_epochs=[isr.BrokerState(broker_id=2, broker_epoch=broker_epoch)],
        )
        for number in range(COUNT)
    ]
    return isr.AlterPartitionRequest(
        broker_id=2,
        broker_epoch=broker_epoch if epoch is None else epoch,
        topics=[
            isr.TopicData(topic_id=OTHER, partitions=asked[:3]),
            isr.TopicData(topic_id=TOPIC_ID, partitions=asked),
        ],
    )


def assignment(cluster: ClusterStory) -> assigned.AssignReplicasToDirsRequest:
    """Broker 2 says where its replicas are, and some that do not exist."""
    numbers = [assigned.PartitionData(partition_index=number) for number in range(COUNT)]
    return assigned.AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=cluster.broker(2).epoch,
        directories=[
            assigned.DirectoryData(
                id=directory_id(2, 1),
                topics=[
                    assigned.TopicData(topic_id=OTHER, partitions=numbers[:3]),
                    assigned.TopicData(topic_id=TOPIC_ID, partitions=numbers[:2]),
                ],
            ),
            assigned.DirectoryData(
                id=directory_id(2, 2),
                topics=[assigned.TopicData(topic_id=TOPIC_ID, partitions=numbers[2:])],
            ),
        ],
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
async def test_the_parts_of_an_alteration_are_the_whole(cluster: ClusterStory, size: int) -> None:
    await cluster.join(2, 3)
    await cluster.create_topic(*[[2, 3]] * COUNT)
    request = alteration(cluster)
    whole = isr_requests.decide_alter_partition(cluster.image, request, LogConfig())
    parts = isr_requests.parts_of(request, size)
    assert len(parts) == -(-8 // size)
    for part in parts:
        assert sum(len(topic.partitions) for topic in part.topics) <= max(size, 8 // len(parts))
    decided = [
        isr_requests.decide_alter_partition(cluster.image, part, LogConfig()) for part in parts
    ]
    assert [record for each in decided for record in each.records] == whole.records
    assert isr_requests.joined([each.answer for each in decided]) == whole.answer


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
async def test_the_parts_of_an_assignment_are_the_whole(cluster: ClusterStory, size: int) -> None:
    await cluster.join(2, 3)
    await cluster.create_topic(*[[2, 3]] * COUNT)
    request = assignment(cluster)
    whole = directory_requests.decide_assignments(cluster.image, request, LogConfig())
    parts = directory_requests.parts_of(request, size)
    assert len(parts) == -(-8 // size)
    decided = [
        directory_requests.decide_assignments(cluster.image, part, LogConfig()) for part in parts
    ]
    assert [record for each in decided for record in each.records] == whole.records
    assert directory_requests.joined([each.answer for each in decided]) == whole.answer


async def test_a_long_request_has_one_answer(
    cluster: ClusterStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierlog.replication.control.cluster_control.RECORDS_PER_PART", 2)
    await cluster.join(2, 3)
    await cluster.create_topic(*[[2, 3]] * COUNT)
    end = cluster.controller.metadata_log.end_offset

    answer = await cluster.control.alter_partition(alteration(cluster))
    assert isinstance(answer, alter_partition.AlterPartitionResponse)
    unknown, known = answer.topics
    assert {each.error_code for each in unknown.partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert [(each.error_code, each.isr) for each in known.partitions] == [(0, [2])] * COUNT
    assert [cluster.partition(number).isr for number in range(COUNT)] == [(2,)] * COUNT
    assert cluster.controller.metadata_log.end_offset == end + COUNT

    reported = await cluster.control.assign_replicas(assignment(cluster))
    assert isinstance(reported, assign_replicas_to_dirs.AssignReplicasToDirsResponse)
    assert [len(each.topics) for each in reported.directories] == [2, 1]


async def test_a_long_request_of_an_older_registration_is_refused(
    cluster: ClusterStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierlog.replication.control.cluster_control.RECORDS_PER_PART", 2)
    await cluster.join(2, 3)
    await cluster.create_topic(*[[2, 3]] * COUNT)
    with pytest.raises(KafkaError) as refused:
        await cluster.control.alter_partition(alteration(cluster, epoch=1))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert cluster.partition().isr == (2, 3)


@pytest.mark.parametrize("ends", ["the client goes", "the queue is full"])
async def test_parts_that_are_given_up_are_not_decided(cluster: ClusterStory, ends: str) -> None:
    controller, loop = cluster.controller, asyncio.get_running_loop()
    decided: list[ClusterImage] = []
    unseen: list[object] = []
    loop.set_exception_handler(lambda _, context: unseen.append(context["message"]))

    def decide(image: ClusterImage) -> Decision[None]:
        decided.append(image)
        return Decision([NoOpRecord()], None)

    count = controller_loop.WRITES_MAX + 1 if ends == "the queue is full" else COUNT
    deciding = asyncio.ensure_future(controller.decide_each([decide] * count))
    await asyncio.sleep(0)
    if ends == "the client goes":
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding
    else:
        with pytest.raises(KafkaError) as full:
            await deciding
        assert full.value.code is ErrorCode.REQUEST_TIMED_OUT
    controller.on_deposed()
    del deciding
    await asyncio.sleep(1)
    gc.collect()
    assert not unseen
    assert not decided


async def test_parts_of_a_controller_that_loses_its_lead_are_refused(cluster: ClusterStory) -> None:
    controller, loop = cluster.controller, asyncio.get_running_loop()
    unseen: list[object] = []
    loop.set_exception_handler(lambda _, context: unseen.append(context["message"]))

    def decide(_: ClusterImage) -> Decision[None]:
        return Decision([NoOpRecord()], None)

    deciding = asyncio.ensure_future(controller.decide_each([decide] * COUNT))
    await asyncio.sleep(0)
    controller.on_deposed()
    with pytest.raises(KafkaError) as refused:
        await deciding
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    gc.collect()
    assert not unseen

"""Three whole controllers on sockets and disks: one decides, all come to the same image."""

import asyncio
import errno
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.controller_state import ControllerState
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.metadata_records import ConfigRecord

from ..node import create, creation, delete
from .controller_nodes import (
    ControllerNode,
    Controllers,
    eventually,
    register_broker_by,
    three_controllers,
)


def topics(node: ControllerNode) -> list[str]:
    return sorted(node.image.topics_by_name)


async def an_active(controllers: Controllers) -> ControllerNode:
    """The active controller, of a cluster with one broker."""
    active = await controllers.active()
    await register_broker_by(active.controller)
    return active


async def test_one_is_elected_and_all_come_to_its_image(tmp_path: Path) -> None:
    async with three_controllers(tmp_path) as controllers:
        active = await an_active(controllers)
        assert active.roles == [True]
        await create(active.controller, "orders", partitions=3)
        await active.controller.alter_topic_config("orders", {"retention.ms": "5000"})
        image = await controllers.in_step(active)
        assert image.topic_config("orders") == {"retention.ms": "5000"}
        assert image.features["metadata.version"] > 0

        for node in controllers.standbys(active):
            assert not node.controller.is_active
            assert node.roles == []
            assert node.controller.leader_id == active.node_id
            assert node.member.leader_address == active.member.leader_address
            with pytest.raises(KafkaError) as refused:
                await node.controller.allocate_producer_ids()
            assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_the_next_one_has_all_that_was_acknowledged_and_the_first_returns_as_a_standby(
    tmp_path: Path,
) -> None:
    async with three_controllers(tmp_path) as controllers:
        first = await an_active(controllers)
        await create(first.controller, "acknowledged")
        epoch = first.quorum.epoch
        await controllers.kill(first)

        second = await controllers.active(not_in_epoch=epoch)
        # It had replayed all of it before it was active.
        assert second.image.epoch == epoch
        assert topics(second) == ["acknowledged"]
        await create(second.controller, "after")

        again = await controllers.start(first.node_id)
        image = await controllers.in_step(second)
        assert sorted(image.topics_by_name) == ["acknowledged", "after"]
        assert not again.controller.is_active
        assert again.roles == []


async def test_writes_that_wait_are_refused_when_the_majority_is_gone(tmp_path: Path) -> None:
    async with three_controllers(tmp_path) as controllers:
        first = await an_active(controllers)
        await create(first.controller, "kept")
        image = await controllers.in_step(first)
        for node in controllers.standbys(first):
            await controllers.kill(node)

        response = await first.controller.create_topics(creation("lost"))
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert first.roles == [True, False]
        assert first.image is first.published[-1]
        assert first.image == image

        for node_id in {1, 2, 3} - {first.node_id}:
            await controllers.start(node_id)
        active = await controllers.active(not_in_epoch=image.epoch)
        await create(active.controller, "next")
        await controllers.in_step(active)
        # Whether the refused topic is there depends on who was elected; all agree.
        assert {"kept", "next"} <= set(topics(active))


async def test_a_standby_that_has_missed_a_snapshot_publishes_the_difference(
    tmp_path: Path,
) -> None:
    small = MetadataLogConfig(max_record_bytes_between_snapshots=400, retention_bytes=1)
    async with three_controllers(tmp_path, small) as controllers:
        active = await an_active(controllers)
        await create(active.controller, "stays", "goes")
        await controllers.in_step(active)
        late = controllers.standbys(active)[0]
        end = late.log.end_offset
        await controllers.kill(late)

        await delete(active.controller, "goes")
        number = 0
        while active.log.start_offset <= end:
            await create(active.controller, f"topic-{number}")
            number += 1
            await asyncio.sleep(0.02)
        before = late.published
        late = await controllers.start(late.node_id)
        await eventually(lambda: late.image.offset == active.image.offset)
        assert late.log.start_offset > end
        assert before[-1].topics_by_name.keys() == {"stays", "goes"}
        assert late.image.topics_by_name == active.image.topics_by_name
        assert late.image.brokers == active.image.brokers

        # Each node cuts its log by itself, the standbys as well.
        other = next(node for node in controllers.standbys(active) if node is not late)
        await create(active.controller, "after")
        await controllers.in_step(active)
        await eventually(lambda: other.log.start_offset > 0)


async def test_a_change_that_no_segment_has_room_for_is_refused_alone(tmp_path: Path) -> None:
    def too_large(image: ClusterImage) -> Decision[None]:
        value = "v" * 3_000
        return Decision(
            [
                ConfigRecord(resource_type=4, resource_name="1", name=f"n{each}", value=value)
                for each in range(400)
            ],
            None,
        )

    # A batch that no segment has room for.
    config = MetadataLogConfig(segment_bytes=1 << 20)
    async with three_controllers(tmp_path, config) as controllers:
        active = await an_active(controllers)
        epoch = active.quorum.epoch
        with pytest.raises(KafkaError) as refused:
            await active.controller.decide(too_large)
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert active.roles == [True]
        assert active.quorum.epoch == epoch

        await create(active.controller, "next")
        await controllers.in_step(active)


async def test_a_node_whose_disk_fails_leaves_the_lead_to_another(tmp_path: Path) -> None:
    async with three_controllers(tmp_path) as controllers:
        first = await an_active(controllers)
        await create(first.controller, "acknowledged")
        epoch = first.quorum.epoch
        first.log_dir.fail(OSError(errno.EIO, "Input/output error"))
        response = await first.controller.create_topics(creation("lost"))
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert first.controller.state is ControllerState.FAILED
        assert len(first.failures) == 1
        await controllers.kill(first)
        second = await controllers.active(not_in_epoch=epoch)
        assert topics(second) == ["acknowledged"]


async def test_many_writes_share_fsyncs_and_are_answered_in_order(tmp_path: Path) -> None:
    async with three_controllers(tmp_path) as controllers:
        active = await an_active(controllers)
        names = [f"topic-{number}" for number in range(300)]
        answered: list[str] = []

        async def one(name: str) -> None:
            await create(active.controller, name)
            answered.append(name)

        await asyncio.gather(*map(one, names))
        assert answered == names
        image = await controllers.in_step(active)
        assert sorted(image.topics_by_name) == sorted(names)


async def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async with three_controllers(tmp_path) as controllers:
        first = await an_active(controllers)
        await create(first.controller, "before")
        epoch = first.quorum.epoch
        del controllers.alive[first.node_id]
        await first.stop()
        second = await controllers.active(not_in_epoch=epoch)
        assert topics(second) == ["before"]
        await create(second.controller, "after")
        assert first.failures == []


async def test_a_change_that_is_too_large_to_replicate_is_refused_and_the_leader_goes_on(
    tmp_path: Path,
) -> None:
    async with three_controllers(tmp_path) as controllers:
        active = await an_active(controllers)
        epoch, end = active.quorum.epoch, active.controller.metadata_log.end_offset
        large = [
            ConfigRecord(resource_type=2, resource_name="t", name=f"n{each}", value="v" * 30_000)
            for each in range(300)
        ]
        with pytest.raises(KafkaError) as refused:
            await active.controller.decide(lambda _: Decision(large, None))
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert active.controller.metadata_log.end_offset == end
        await create(active.controller, "after")
        image = await controllers.in_step(active)
        assert image.epoch == epoch
        assert topics(active) == ["after"]

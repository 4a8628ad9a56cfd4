"""The small file that says which leader wrote what is damaged or gone: no record is."""

import logging
from functools import partial

import pytest

from tierlog.storage.checkpoint import LEADER_EPOCH_FILE
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import DELETE, MemoryTier
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, until

PATH = f"/data/orders-0/{LEADER_EPOCH_FILE}"
OF_ONE = b"0\n1\n0 0\n"
OF_THREE = b"0\n3\n0 0\n3 4\n7 8\n"


def is_offloaded_up_to(broker: TieredBroker, end: int) -> bool:
    return broker.log.local_log_start_offset == end - 1


async def written(loop: SimulatedLoop, epochs: list[int]) -> TieredBroker:
    """A broker with four records of each epoch, in the tier but for the last of all."""
    broker = TieredBroker(loop, MemoryTier(), SharedTopic())
    await broker.manager.start()
    for number, epoch in enumerate(epochs):
        broker.lead(epoch)
        broker.append(4)
        end = 4 * (number + 1)
        await until(partial(is_offloaded_up_to, broker, end))
    return broker


async def damaged(broker: TieredBroker, content: bytes | None) -> TieredBroker:
    """The broker's next life, in which the file holds something else; None: it is gone."""
    await broker.manager.stop()
    broker.log.close(broker.environment.wall_clock_ms())
    if content is None:
        broker.files.remove(PATH)
    else:
        broker.files.atomic_replace(PATH, content)
    again = TieredBroker(broker.loop, broker.tier, broker.topic, broker.files, broker.config)
    await again.manager.start()
    again.lead(broker.epoch + 1)
    return again


@pytest.mark.parametrize(
    ("epochs", "right", "wrong"),
    [
        ([0], OF_ONE, b"0\n1\n1 0\n"),
        ([0], OF_ONE, b"0\n1\n0 1\n"),
        ([0], OF_ONE, None),
        ([0], OF_ONE, b""),
        ([0], OF_ONE, b"0\n0\n"),
        ([0], OF_ONE, b"damaged"),
        ([0, 3, 7], OF_THREE, None),
        ([0, 3, 7], OF_THREE, b"0\n3\n2 0\n3 4\n7 8\n"),
        ([0, 3, 7], OF_THREE, b"0\n3\n4 0\n3 4\n7 8\n"),
        ([0, 3, 7], OF_THREE, b"0\n3\n0 0\n3 4\n6 8\n"),
        ([0, 3, 7], OF_THREE, b"0\n3\n0 0\n3 0\n7 8\n"),
    ],
)
async def test_what_the_tier_has_is_found_again_and_nothing_of_it_goes(
    loop: SimulatedLoop,
    epochs: list[int],
    right: bytes,
    wrong: bytes | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    count = 4 * len(epochs)
    broker = await written(loop, epochs)
    assert broker.files.read(PATH) == right
    stored = set(broker.tier.segments)
    broker = await damaged(broker, wrong)
    began = loop.time()
    await until(lambda: loop.time() > began + 60)
    assert stored <= set(broker.tier.segments)
    assert not broker.tier.asked(DELETE)
    assert broker.log.log_start_offset == 0
    assert (await broker.consume(0))[0] == list(range(count))
    broker.append(2)
    await until(lambda: broker.log.local_log_start_offset > count)
    assert (await broker.consume(0))[0] == list(range(count + 2))
    await broker.manager.stop()
    assert "leader-epoch-checkpoint" in caplog.text
    assert "orders-0" in caplog.text


async def test_a_history_in_order_is_left_alone(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await written(loop, [0, 3, 7])
    broker = await damaged(broker, OF_THREE)
    began = loop.time()
    await until(lambda: loop.time() > began + 60)
    assert (await broker.consume(0))[0] == list(range(12))
    await broker.manager.stop()
    assert "leader-epoch-checkpoint" not in caplog.text


async def test_a_lost_log_start_costs_nothing_of_what_came_after_it(loop: SimulatedLoop) -> None:
    broker = await written(loop, [0, 3, 7])
    # The log of the next life is not told where it began: its history and the tier know.
    broker.log.maybe_increment_log_start_offset(2)
    began = loop.time()
    await until(lambda: loop.time() > began + 60 and bool(broker.tier.asked(DELETE)))
    stored = set(broker.tier.segments)
    broker = await damaged(broker, b"0\n3\n0 2\n3 4\n7 8\n")
    began = loop.time()
    await until(lambda: loop.time() > began + 60)
    assert broker.log.log_start_offset == 2
    assert stored == set(broker.tier.segments)
    assert (await broker.consume(2))[0] == list(range(2, 12))
    await broker.manager.stop()


@pytest.mark.parametrize(
    ("epochs", "expired", "content"),
    [
        ([0], 2, None),
        ([0, 3, 7], 2, None),
        ([0, 3, 7], 4, b"damaged"),
        ([0, 3, 7], 6, b""),
        ([0, 3, 7, 9], 6, None),
        ([0, 3, 7], 8, b"0\n1\n7 0\n"),
    ],
)
async def test_what_is_left_of_a_tier_stays_though_the_log_start_is_lost_as_well(
    loop: SimulatedLoop, epochs: list[int], expired: int, content: bytes | None
) -> None:
    count = 4 * len(epochs)
    broker = await written(loop, epochs)
    broker.log.maybe_increment_log_start_offset(expired)
    await until(lambda: len(broker.tier.segments) == count - 1 - expired)
    stored = set(broker.tier.segments)
    # The next life is not told where its log began, either.
    broker = await damaged(broker, content)
    began = loop.time()
    await until(lambda: loop.time() > began + 60)
    assert stored == set(broker.tier.segments)
    assert broker.log.log_start_offset == expired
    assert (await broker.consume(expired))[0] == list(range(expired, count))
    broker.append(2)
    await until(lambda: broker.log.local_log_start_offset > count)
    assert (await broker.consume(expired))[0] == list(range(expired, count + 2))
    await broker.manager.stop()


async def test_what_lies_below_a_hole_of_the_tier_stays_though_both_checkpoints_are_lost(
    loop: SimulatedLoop,
) -> None:
    broker = await written(loop, [0, 3, 7])
    broker.log.maybe_increment_log_start_offset(2)
    await until(lambda: len(broker.tier.segments) == 9)
    remote = broker.metadata.remote_log(PARTITION)
    lost = remote.segment_for(3, 5)
    assert lost is not None
    broker.tier.segments.pop(lost.id)
    for state in (
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
    ):
        await broker.metadata.publish(
            RemoteLogSegmentMetadataUpdate(
                segment_id=lost.segment_id, event_timestamp_ms=1, state=state, broker_id=0
            )
        )
    await broker.manager.stop()
    stored = set(broker.tier.segments)
    broker = await damaged(broker, None)
    began = loop.time()
    await until(lambda: loop.time() > began + 60)
    assert stored == set(broker.tier.segments)
    assert broker.log.log_start_offset == 2
    assert (await broker.read(2))[0] == [2]
    assert (await broker.consume(6))[0] == list(range(6, 12))
    await broker.manager.stop()

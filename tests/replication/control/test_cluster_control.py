"""Brokers register, live by their heartbeats, and are fenced when they are silent."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.control.brokers.broker_states import Heartbeat, HeartbeatAnswer
from tierlog.tests.replication.control.cluster_story import ClusterStory, broker_data

SESSION_S = 9.0


async def test_a_broker_registers_fenced_and_is_unfenced_once_it_has_read_its_registration(
    cluster: ClusterStory,
) -> None:
    end = cluster.controller.metadata_log.end_offset
    epoch = await cluster.control.register_broker(broker_data(2))
    assert epoch == end
    assert cluster.broker(2).epoch == epoch
    assert cluster.broker(2).fenced
    behind = await cluster.beat(2, read=epoch - 1)
    assert behind == HeartbeatAnswer(False, is_fenced=True, should_shut_down=False)
    waiting = await cluster.beat(2, fence=True)
    assert waiting == HeartbeatAnswer(True, is_fenced=True, should_shut_down=False)
    assert cluster.broker(2).fenced
    running = await cluster.beat(2, read=epoch)
    assert running == HeartbeatAnswer(True, is_fenced=False, should_shut_down=False)
    assert cluster.broker(2).is_active


async def test_a_silent_broker_is_fenced_and_leads_nothing_more(cluster: ClusterStory) -> None:
    await cluster.join(2, 3)
    await cluster.create_topic([2, 3], [2])
    await cluster.keep_alive(1, 3, for_s=SESSION_S)
    assert cluster.broker(2).is_active
    await cluster.keep_alive(1, 3, for_s=SESSION_S / 8 + 1)
    assert cluster.broker(2).fenced
    assert (cluster.partition(0).leader, cluster.partition(0).isr) == (3, (3,))
    # The last member of an ISR is the one that may lead again.
    assert (cluster.partition(1).leader, cluster.partition(1).isr) == (-1, ())
    assert cluster.partition(1).elr == (2,)
    await cluster.beat(2)
    assert (cluster.partition(1).leader, cluster.partition(1).leader_epoch) == (2, 2)
    assert cluster.partition(0).leader == 3


async def test_silent_brokers_are_fenced_one_a_look(cluster: ClusterStory) -> None:
    await cluster.join(2, 3, 4)
    fenced_at: list[float] = []
    loop = asyncio.get_running_loop()
    cluster.controller.subscribe(
        lambda _, delta: fenced_at.extend(
            loop.time()
            for broker in delta.changed_brokers.values()
            if broker is not None and broker.fenced
        )
    )
    fenced_at.clear()
    await cluster.keep_alive(1, for_s=2 * SESSION_S)
    assert len(fenced_at) == 3
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(fenced_at))


async def test_another_incarnation_waits_until_the_session_of_the_last_one_is_over(
    cluster: ClusterStory,
) -> None:
    await cluster.join(2)
    before = cluster.broker(2)
    with pytest.raises(KafkaError) as refused:
        await cluster.control.register_broker(broker_data(2, incarnation=2))
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await cluster.keep_alive(1, for_s=SESSION_S + 0.5)
    epoch = await cluster.control.register_broker(broker_data(2, incarnation=2))
    assert epoch > before.epoch
    assert cluster.broker(2).fenced
    stale = Heartbeat(epoch)
    with pytest.raises(KafkaError) as late:
        await cluster.control.heartbeat(2, before.epoch, stale)
    assert late.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_the_same_incarnation_registers_again_and_stays_as_it_is(
    cluster: ClusterStory,
) -> None:
    await cluster.join(2)
    before = cluster.broker(2)
    moved = replace(broker_data(2), rack="b")
    assert await cluster.control.register_broker(moved) == before.epoch
    assert cluster.broker(2) == replace(before, rack="b")

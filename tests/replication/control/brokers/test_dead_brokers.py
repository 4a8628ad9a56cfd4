"""A controller may hear of a dead broker early, and lets others leave before it stops."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.control.brokers.broker_states import Heartbeat
from tierlog.replication.control.cluster_control_config import ClusterControlConfig
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.loop import SimulatedLoop

from ..cluster_story import QUIET, ClusterStory, broker_data, controlled_cluster, run_story

AFTER_RESET_MS = 2_250
WITH_HINT = QUIET._replace(session_after_reset_ms=AFTER_RESET_MS)


class Connection:
    """A connection to the controller, as it sees it."""

    def __init__(self) -> None:
        self.on_lost: Callable[[], None] | None = None

    def close(self) -> None:
        if self.on_lost is not None:
            self.on_lost()


async def beat(cluster: ClusterStory, broker_id: int, connection: Connection) -> None:
    await cluster.control.heartbeat(
        broker_id,
        cluster.broker(broker_id).epoch,
        Heartbeat(cluster.controller.metadata_log.end_offset),
        connection=connection,
    )


async def seconds_until_fenced(cluster: ClusterStory, broker_id: int) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    is_fenced = asyncio.Event()

    def look(image: ClusterImage, _: ClusterDelta) -> None:
        if image.brokers[broker_id].fenced:
            is_fenced.set()

    cluster.controller.subscribe(look)
    await is_fenced.wait()
    return loop.time() - began


@pytest.mark.parametrize(("config", "least", "most"), [(QUIET, 8, 10.3), (WITH_HINT, 1.25, 1.3)])
async def test_a_lost_connection_ends_a_session_early_only_where_that_is_on(
    loop: SimulatedLoop, config: ClusterControlConfig, least: float, most: float
) -> None:
    async with controlled_cluster(loop, config) as cluster:
        await cluster.join(2, 3)
        await cluster.create_topic([2, 3])
        connection = Connection()
        await beat(cluster, 2, connection)
        connection.close()
        await asyncio.sleep(1)
        await cluster.beat(3)
        assert least <= await seconds_until_fenced(cluster, 2) <= most
        assert cluster.partition().leader == 3


async def test_brokers_that_die_together_are_fenced_together(loop: SimulatedLoop) -> None:
    async with controlled_cluster(loop, WITH_HINT) as cluster:
        connections = {broker_id: Connection() for broker_id in (2, 3, 4)}
        await cluster.join(1, *connections)
        for broker_id, connection in connections.items():
            await beat(cluster, broker_id, connection)
        for connection in connections.values():
            connection.close()
        for broker_id in connections:
            await seconds_until_fenced(cluster, broker_id)
        took_s = await seconds_until_fenced(cluster, 4)
        assert took_s < 0.1


def test_who_died_with_the_last_controller_is_fenced_early_only_where_that_is_on() -> None:
    """A controller that becomes active has seen for a second that broker 2's process is gone."""

    async def before(cluster: ClusterStory) -> None:
        await cluster.join(2, 3)
        await cluster.create_topic([2, 3])

    def after(least: float, most: float) -> Callable[[ClusterStory], Awaitable[None]]:
        async def story(cluster: ClusterStory) -> None:
            await cluster.beat(3)
            took_s = await seconds_until_fenced(cluster, 2)
            assert least <= took_s <= most
            assert cluster.partition().leader == 3
            assert cluster.broker(3).is_active

        return story

    def ended_since(node_id: int) -> float | None:
        now_ms = 1_000 * asyncio.get_running_loop().time()
        first_seen_ms.append(now_ms)
        return first_seen_ms[0] - 1_000 if node_id == 2 else None

    for config, least, most in [(QUIET, 9, 11.3), (WITH_HINT, 1.2, 1.4)]:
        first_seen_ms: list[float] = []
        disk = SimulatedDisk()
        run_story(before, config, disk)
        run_story(after(least, most), config, disk, ended_since)


def test_a_broker_that_is_heard_is_not_looked_for() -> None:
    async def before(cluster: ClusterStory) -> None:
        await cluster.join(2)

    async def after(cluster: ClusterStory) -> None:
        await cluster.beat(2)
        await cluster.keep_alive(2, for_s=10)
        assert cluster.broker(2).is_active

    disk = SimulatedDisk()
    run_story(before, WITH_HINT, disk)
    run_story(after, WITH_HINT, disk, lambda _: 0.0)


async def test_a_live_broker_that_connects_anew_stays(loop: SimulatedLoop) -> None:
    async with controlled_cluster(loop, WITH_HINT) as cluster:
        await cluster.join(2)
        for _ in range(10):
            connection = Connection()
            await beat(cluster, 2, connection)
            connection.close()
            await asyncio.sleep(2)
            assert cluster.broker(2).is_active


async def test_the_end_of_an_older_connection_says_nothing(loop: SimulatedLoop) -> None:
    async with controlled_cluster(loop, WITH_HINT) as cluster:
        await cluster.join(2)
        old, new = Connection(), Connection()
        await beat(cluster, 2, old)
        await beat(cluster, 2, new)
        old.close()
        await asyncio.sleep(8)
        assert cluster.broker(2).is_active


@pytest.mark.parametrize("is_on", [False, True])
async def test_a_broker_that_may_stop_registers_again_at_once_only_where_that_is_on(
    loop: SimulatedLoop, is_on: bool
) -> None:
    async with controlled_cluster(loop, QUIET._replace(clean_restart=is_on)) as cluster:
        await cluster.join(2)
        before = cluster.broker(2).epoch
        assert (await cluster.beat(2, shutdown=True)).should_shut_down
        again = broker_data(2, incarnation=2, previous_epoch=before)
        if is_on:
            assert await cluster.control.register_broker(again) > before
            return
        with pytest.raises(KafkaError) as refused:
            await cluster.control.register_broker(again)
        assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_a_controller_that_stops_waits_for_brokers_that_stop_too(
    cluster: ClusterStory,
) -> None:
    await cluster.join(2, 3)
    await cluster.create_topic([2, 3])
    loop = asyncio.get_running_loop()
    began = loop.time()
    await cluster.control.until_others_left(60)
    assert loop.time() == began
    assert not (await cluster.beat(2, shutdown=True)).should_shut_down
    await cluster.control.until_others_left(3)
    assert loop.time() - began >= 3
    await cluster.beat(1)
    await cluster.beat(3)
    leaving = asyncio.ensure_future(cluster.control.until_others_left(60))
    assert (await cluster.beat(2, shutdown=True)).should_shut_down
    await leaving
    assert loop.time() - began < 10

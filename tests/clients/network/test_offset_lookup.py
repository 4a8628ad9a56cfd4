"""Offsets are looked up at leaders, also while one of them is silent and another takes over."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.metadata import Metadata
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.network.offset_lookup import OffsetLookup
from tierlog.clients.offset_names import LATEST_TIMESTAMP
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.clients.protocol.schema import Message
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.clients.model_cluster import ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork

pytestmark = pytest.mark.simulated(time_limit_s=600)

T1 = TopicPartition("t", 1)
METADATA = MetadataRequest(topics=[])
TIMEOUT_MS = 5_000


@asynccontextmanager
async def a_lookup(
    loop: SimulatedLoop,
) -> AsyncGenerator[tuple[ModelCluster, NetworkClient, OffsetLookup]]:
    cluster = ModelCluster(SimulatedNetwork(loop), 2)
    await cluster.start()
    environment = SimulatedEnvironment(loop)
    network = NetworkClient("broker0:9092", environment)
    try:
        yield cluster, network, OffsetLookup(network, Metadata(network, environment), environment)
    finally:
        await network.close()


def paused(broker: ModelBroker, _request: Message) -> None:
    """Broker 1 takes connections and requests, and answers none."""
    if broker.node_id == 1:
        raise SilenceError


def silent(_broker: ModelBroker, _request: Message) -> None:
    raise SilenceError


def silent_first(broker: ModelBroker, _request: Message) -> None:
    if broker.node_id == 0:
        raise SilenceError


async def test_a_leader_that_went_silent_is_asked_no_more_once_another_one_leads(
    loop: SimulatedLoop,
) -> None:
    """It cost every lookup 10 s of a connection attempt, for as long as metadata is believed."""
    async with a_lookup(loop) as (cluster, _, lookup):
        led = cluster.create_topic("t", 2)[1]
        cluster.control = paused
        began = loop.time()
        with pytest.raises(KafkaError) as refusal:
            await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() - began <= TIMEOUT_MS / 1000
        led.leader, led.epoch = 0, 1
        began = loop.time()
        found = await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
        assert found[T1].offset == 0
        assert loop.time() - began < 1


async def test_a_leader_that_changes_during_a_lookup_is_found(loop: SimulatedLoop) -> None:
    async with a_lookup(loop) as (cluster, _, lookup):
        led = cluster.create_topic("t", 2)[1]
        asking = asyncio.ensure_future(lookup.look_up({T1: LATEST_TIMESTAMP}))
        led.leader, led.epoch = 0, 1
        assert (await asking)[T1].offset == 0


async def test_a_lookup_that_is_out_of_time_breaks_nothing_for_others_on_its_connection(
    loop: SimulatedLoop,
) -> None:
    """It closed the connection of a healthy leader, which consumers fetch from meanwhile."""
    async with a_lookup(loop) as (cluster, network, lookup):
        cluster.create_topic("t", 2)
        await lookup.look_up({T1: LATEST_TIMESTAMP})
        cluster.answer_delay_s = lambda _broker, _request: 0.5
        other = asyncio.ensure_future(network.request(1, METADATA, MetadataResponse))
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaError) as refusal:
            await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=200)
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert (await other).cluster_id == "model"


async def test_a_lookup_keeps_its_time_also_while_no_broker_tells_the_leaders(
    loop: SimulatedLoop,
) -> None:
    async with a_lookup(loop) as (cluster, _, lookup):
        cluster.create_topic("t", 2)
        cluster.control = silent
        for _try in range(3):
            began = loop.time()
            with pytest.raises(KafkaError, match="not answered within 5 s"):
                await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
            assert loop.time() - began <= TIMEOUT_MS / 1000 + 0.01


async def test_a_broker_that_was_away_for_long_is_asked_as_soon_as_the_other_one_is_silent(
    loop: SimulatedLoop,
) -> None:
    """Each failure of a minute put it behind the silent one for one lookup more."""
    async with a_lookup(loop) as (cluster, _, lookup):
        cluster.create_topic("t", 2)
        await lookup.look_up({T1: LATEST_TIMESTAMP})
        cluster.brokers[1].crash()
        end = loop.time() + 60
        while loop.time() < end:
            with pytest.raises(KafkaError):
                await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
        await cluster.brokers[1].start()
        cluster.control = silent_first
        failures = 0
        while failures < 20:
            try:
                await lookup.look_up({T1: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
            except KafkaError:
                failures += 1
            else:
                break
        # The silent connection is closed after 30 s, and one more attempt may begin there.
        assert failures <= 8

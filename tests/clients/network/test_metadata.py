"""What a client believes of its cluster, and when it asks again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.network.metadata import Metadata
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.protocol.schema import Message
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests import wire
from tierlog.tests.async_tests import entered
from tierlog.tests.clients.model_cluster import ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork

pytestmark = pytest.mark.simulated(time_limit_s=3600)

T0 = TopicPartition("t", 0)


@asynccontextmanager
async def opened_metadata(loop: SimulatedLoop, cluster: ModelCluster) -> AsyncGenerator[Metadata]:
    await cluster.start()
    environment = SimulatedEnvironment(loop)
    network = NetworkClient(cluster.bootstrap, environment)
    try:
        yield Metadata(network, environment, max_age_ms=60_000)
    finally:
        await network.close()


@pytest.fixture
def cluster(loop: SimulatedLoop) -> ModelCluster:
    return ModelCluster(SimulatedNetwork(loop), 2)


@pytest.fixture
def metadata(loop: SimulatedLoop, cluster: ModelCluster) -> Metadata:
    return entered(opened_metadata(loop, cluster))


def metadata_response(
    cluster: ModelCluster, leader: int, epoch: int, topic_id: str = "t"
) -> wire.MetadataResponse:
    """One broker's view of one topic."""
    return wire.MetadataResponse(
        brokers=[wire.MetadataResponseBroker(node_id=0, host="broker0", port=9092)],
        topics=[
            wire.MetadataResponseTopic(
                name="t",
                topic_id=cluster.topic_id(topic_id),
                partitions=[
                    wire.MetadataResponsePartition(
                        partition_index=0, leader_id=leader, leader_epoch=epoch
                    )
                ],
            )
        ],
    )


def leader_of(metadata: Metadata) -> int | None:
    found = metadata.leader(T0)
    return None if found is None else found.leader_id


async def test_a_known_topic_is_not_asked_for_again_until_it_is_old(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    cluster.create_topic("t", 1)
    for _ in range(3):
        await metadata.ensure(["t"])
    assert cluster.count(wire.MetadataRequest) == 1
    await asyncio.sleep(61)
    await metadata.ensure(["t"])
    assert cluster.count(wire.MetadataRequest) == 2
    metadata.mark_stale()
    await metadata.ensure(["t"])
    assert cluster.count(wire.MetadataRequest) == 3


async def test_many_who_ask_together_share_one_refresh(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    cluster.create_topic("t", 1)
    await asyncio.gather(*(metadata.ensure(["t"]) for _ in range(20)))
    assert cluster.count(wire.MetadataRequest) == 1
    assert leader_of(metadata) == 0
    assert metadata.topic_names[metadata.topic_id("t")] == "t"


async def test_an_older_leader_epoch_is_not_believed(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    metadata.apply(metadata_response(cluster, leader=1, epoch=5))
    metadata.apply(metadata_response(cluster, leader=0, epoch=4))
    assert leader_of(metadata) == 1
    metadata.apply(metadata_response(cluster, leader=0, epoch=6))
    assert leader_of(metadata) == 0


async def test_a_topic_made_anew_begins_its_epochs_again(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    metadata.apply(metadata_response(cluster, leader=1, epoch=5))
    metadata.apply(metadata_response(cluster, leader=0, epoch=0, topic_id="new"))
    assert leader_of(metadata) == 0
    assert cluster.topic_id("t") not in metadata.topic_names


async def test_no_leader_is_none_and_not_a_number(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    metadata.apply(metadata_response(cluster, leader=-1, epoch=5))
    assert leader_of(metadata) is None
    assert metadata.leader(TopicPartition("absent", 0)) is None
    assert metadata.topic_id("absent") == ZERO_UUID


async def test_a_topic_that_is_gone_is_forgotten(cluster: ModelCluster, metadata: Metadata) -> None:
    cluster.create_topic("t", 1)
    await metadata.ensure(["t"])
    del cluster.topics["t"]
    await metadata.refresh([])
    assert metadata.topics == {}
    with pytest.raises(KafkaError) as refusal:
        await metadata.partition_count("t", timeout_ms=2000)
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_waiting_for_a_topic_ends_when_it_comes(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(3, cluster.create_topic, "t", 4)
    assert await metadata.partition_count("t", timeout_ms=10_000) == 4
    assert 3 <= loop.time() < 5


async def test_waiting_for_a_topic_keeps_its_time_though_no_broker_answers(
    cluster: ModelCluster, metadata: Metadata
) -> None:
    def silent(_broker: ModelBroker, _request: Message) -> None:
        raise SilenceError

    cluster.control = silent
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(KafkaError) as refusal:
        await metadata.partition_count("t", timeout_ms=2000)
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert loop.time() - began <= 2.01

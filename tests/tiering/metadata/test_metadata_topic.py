"""The metadata topic over the wire: what a broker that does not answer may cost."""

import asyncio

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.schema import Message
from tierlog.tests import wire
from tierlog.tests.clients.model_cluster import PORT, ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC
from tierlog.tiering.metadata.metadata_topic import ClusterMetadataTopic


async def test_an_event_that_nobody_acknowledges_delays_a_stop_by_two_seconds_at_most(
    loop: SimulatedLoop,
) -> None:
    def silent(_: ModelBroker, request: Message) -> None:
        if isinstance(request, wire.ProduceRequest):
            raise SilenceError

    cluster = ModelCluster(SimulatedNetwork(loop))
    await cluster.start()
    cluster.create_topic(METADATA_TOPIC, 1)
    config, environment = MetadataManagerConfig(), SimulatedEnvironment(loop)
    topic = ClusterMetadataTopic(config, lambda: cluster.bootstrap, environment)
    assert await topic.open() == 1
    assert await topic.append(0, b"acknowledged") == 0
    cluster.control = silent

    async def lose_an_event() -> None:
        with pytest.raises(KafkaError, match="producer was closed"):
            await topic.append(0, b"never acknowledged")

    async def close_meanwhile() -> None:
        await asyncio.sleep(0.1)
        began = loop.time()
        await topic.close()
        assert loop.time() - began == pytest.approx(2, abs=0.1)

    await asyncio.gather(lose_an_event(), close_meanwhile())


@pytest.mark.parametrize("waits", [True, False])
async def test_the_topic_of_a_cluster_waits_for_the_brokers_that_hold_its_replicas(
    loop: SimulatedLoop, waits: bool
) -> None:
    """A process alone creates it with as many replicas as there are brokers."""
    created: list[int] = []

    def creating(broker: ModelBroker, request: Message) -> Message | None:
        if isinstance(request, wire.DescribeClusterRequest):
            return wire.DescribeClusterResponse(
                cluster_id="model",
                brokers=[
                    wire.DescribeClusterBroker(broker_id=each.node_id, host=each.host, port=PORT)
                    for each in broker.cluster.brokers
                ],
            )
        if not isinstance(request, wire.CreateTopicsRequest):
            return None
        (topic,) = request.topics
        created.append(topic.replication_factor)
        broker.cluster.create_topic(topic.name, topic.num_partitions)
        return wire.CreateTopicsResponse(topics=[wire.CreatableTopicResult(name=topic.name)])

    cluster = ModelCluster(SimulatedNetwork(loop), broker_count=3)
    await cluster.start()
    cluster.control = creating
    third = cluster.brokers.pop()
    config, environment = MetadataManagerConfig(), SimulatedEnvironment(loop)
    topic = ClusterMetadataTopic(
        config, lambda: cluster.bootstrap, environment, waits_for_brokers=waits
    )
    if waits:
        with pytest.raises(KafkaError, match="3 replicas, and 2 are live"):
            await topic.open()
        cluster.brokers.append(third)
    assert await topic.open() == 50
    assert created == [3 if waits else 2]
    await topic.close()

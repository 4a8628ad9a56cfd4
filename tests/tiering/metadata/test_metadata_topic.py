"""The metadata topic over the wire: what a broker that does not answer may cost."""

import asyncio

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.messages.produce import ProduceRequest
from tierlog.clients.protocol.schema import Message
from tierlog.tests.clients.model_cluster import ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC
from tierlog.tiering.metadata.metadata_topic import ClusterMetadataTopic


def test_an_event_that_nobody_acknowledges_delays_a_stop_by_two_seconds_at_most() -> None:
    def silent(_: ModelBroker, request: Message) -> None:
        if isinstance(request, ProduceRequest):
            raise SilenceError

    async def story(loop: SimulatedLoop) -> None:
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

    simulate(story)

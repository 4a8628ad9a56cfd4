"""The coordinator of a group is looked up again when it moves, and when it falls silent."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.coordinator_lookup import GroupCoordinatorClient
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.protocol.schema import Message
from tierlog.tests import wire
from tierlog.tests.clients.model_cluster import PORT, ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork


class Coordinators:
    """The control of a cluster whose broker `node_id` coordinates; broker 1 may fall silent."""

    def __init__(self) -> None:
        self.node_id = 1
        self.is_silent = False

    def __call__(self, broker: ModelBroker, request: Message) -> Message | None:
        if self.is_silent and broker.node_id == 1:
            raise SilenceError
        if isinstance(request, wire.FindCoordinatorRequest):
            host = f"broker{self.node_id}"
            return wire.FindCoordinatorResponse(node_id=self.node_id, host=host, port=PORT)
        if isinstance(request, wire.OffsetCommitRequest):
            return wire.OffsetCommitResponse(topics=[])
        return None


@pytest.mark.simulated(time_limit_s=600)
async def test_a_coordinator_that_went_silent_is_looked_up_again_by_the_next_call(
    loop: SimulatedLoop,
) -> None:
    """Calls of less than a connection's 10 s asked the silent one for ever."""
    cluster = ModelCluster(SimulatedNetwork(loop), 2)
    control = cluster.control = Coordinators()
    await cluster.start()
    environment = SimulatedEnvironment(loop)
    network = NetworkClient("broker0:9092", environment)
    coordinator = GroupCoordinatorClient("g", network, environment)

    async def commit() -> wire.OffsetCommitResponse:
        request = wire.OffsetCommitRequest(group_id="g", topics=[])
        return await coordinator.ask(request, wire.OffsetCommitResponse)

    await coordinator.retry(commit, 5_000)
    control.is_silent, control.node_id = True, 0
    with pytest.raises(KafkaError) as refusal:
        await coordinator.retry(commit, 5_000)
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    await asyncio.wait_for(coordinator.retry(commit, 5_000), 1)
    assert cluster.count(wire.FindCoordinatorRequest) == 2
    await network.close()

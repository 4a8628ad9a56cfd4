"""Whoever repairs a simulated cluster by hand: partitions that nobody may lead are led again."""

import asyncio

from tierlog.clients.errors import KafkaError
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests import wire
from tierlog.tests.simulation.cluster_admin import TIMEOUT_MS
from tierlog.tests.simulation.cluster_member import BOOTSTRAP
from tierlog.tests.simulation.cluster_truth import ClusterTruth, is_stranded
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

LOOK_EVERY_S = 0.5
UNCLEAN = 1


class ClusterOperator:
    """Elects the replica that has most, once all brokers of a stranded partition serve.

    An unclean election takes the first active replica. So the operator compares the logs, and
    moves the fullest one to the front before.
    """

    def __init__(self, loop: SimulatedLoop, truth: ClusterTruth) -> None:
        self._loop = loop
        self._truth = truth
        self.is_over = False

    async def run(self) -> None:
        """Look again and again until `is_over`."""
        while not self.is_over:
            await asyncio.sleep(LOOK_EVERY_S)
            if not all(each.is_serving for each in self._truth.members):
                continue
            for name, partition in list(self._truth.partitions()):
                if is_stranded(partition):
                    await self._elect(name, self._truth.fullest_first(name, partition.replicas))

    async def _elect(self, name: TopicPartition, replicas: list[int]) -> None:
        config = NetworkConfig(client_id="operator", request_timeout_ms=TIMEOUT_MS)
        network = NetworkClient(BOOTSTRAP, SimulatedEnvironment(self._loop, "operator"), config)
        moved = wire.ReassignablePartition(partition_index=name.partition, replicas=replicas)
        reassignment = wire.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[wire.ReassignableTopic(name=name.topic, partitions=[moved])],
        )
        election = ElectLeadersRequest(
            election_type=UNCLEAN,
            topic_partitions=[TopicPartitions(topic=name.topic, partitions=[name.partition])],
            timeout_ms=TIMEOUT_MS,
        )
        counts = self._truth.promises.counts
        try:
            answer = await network.request_any(
                reassignment, wire.AlterPartitionReassignmentsResponse
            )
            results = [each for topic in answer.responses for each in topic.partitions]
            if answer.error_code == 0 and all(each.error_code == 0 for each in results):
                await network.request_any(election, ElectLeadersResponse)
                counts["stranded"] += 1
        except KafkaError as error:
            counts[f"not repaired: {error.code.name}"] += 1
        finally:
            await network.close()

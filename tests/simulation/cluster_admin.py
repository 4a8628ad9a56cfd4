"""An administrator of a simulated cluster: topics come and go, replicas and leaders move."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests import wire
from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import BOOTSTRAP, IDS
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

TOPICS = {
    "orders": 1,
    "copies": 2,
    "__consumer_offsets": 1,
    "__transaction_state": 1,
}
"""Those whose replicas move, and how many partitions each has."""
TEMPORARY = "temporary"
ARCHIVE = TopicPartition("archive", 0)
TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "600",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "10",
}
TIMEOUT_MS = 2500


class ClusterAdmin:
    """See the module."""

    def __init__(self, loop: SimulatedLoop, promises: Promises, *, has_tier: bool = False) -> None:
        self.has_tier = has_tier
        self.is_over = False
        self.chance = Random(f"{loop.seed}/admin")
        self.has_temporary: bool | None = False
        """Whether the temporary topic is there; None if nobody can tell."""
        self._counts = promises.counts
        self._loop = loop
        environment = self._environment = SimulatedEnvironment(loop, "admin")
        config = NetworkConfig(client_id="admin", request_timeout_ms=TIMEOUT_MS)
        self._network = NetworkClient(BOOTSTRAP, environment, config)
        self._admin = Admin(BOOTSTRAP, timeout_ms=5000, network=config, environment=environment)

    async def run(self) -> None:
        """Do one thing after another until `is_over`."""
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "created": self._create,
            "deleted": self._delete,
            "reassigned": self._reassign,
            "reassignment cancelled": self._cancel,
            "elected": self._elect,
            "led by another": self._lead_by_another,
            "configured": self._configure,
        }
        try:
            while not self.is_over:
                await asyncio.sleep(self.chance.uniform(0, 1.5))
                name = self.chance.choice(list(actions))
                try:
                    await actions[name]()
                except KafkaError as error:
                    self._counts[f"not {name}: {error.code.name}"] += 1
                else:
                    self._counts[name] += 1
        finally:
            await self._network.close()
            await self._admin.stop()

    async def create_first(self) -> None:
        """The topics of all clients."""
        topics = [NewTopic("orders", 1, 3), NewTopic("copies", 2, 3)]
        if self.has_tier:
            topics.append(NewTopic(ARCHIVE.topic, 1, 3, TIERED))
        await self._admin.create_topics(topics)

    async def _create(self) -> None:
        self.has_temporary = None
        configs = TIERED if self.has_tier and self.chance.random() < 0.8 else {}
        replicas = self.chance.choice((2, 3))
        await self._admin.create_topics([NewTopic(TEMPORARY, 1, replicas, configs)])
        self.has_temporary = True
        if configs:
            await self._fill()

    async def _fill(self) -> None:
        """Write enough for some segments, as far as that is possible just now."""
        options: ProducerOptions = {
            "environment": self._environment,
            "delivery_timeout_ms": 2000,
            "max_block_ms": 2000,
            "request_timeout_ms": 1000,
        }
        async with Producer(BOOTSTRAP, **options) as producer:
            for _ in range(12):
                await producer.send(TEMPORARY, bytes(150), partition=0)

    async def _delete(self) -> None:
        self.has_temporary = None
        await self._admin.delete_topics([TEMPORARY])
        self.has_temporary = False

    async def _reassign(self) -> None:
        topic = self.chance.choice([*TOPICS, TEMPORARY, *([ARCHIVE.topic] * 3 * self.has_tier)])
        replicas: list[int] = self.chance.sample(IDS, self.chance.choice((2, 3, 3)))
        await self._change_replicas(topic, replicas)

    async def _cancel(self) -> None:
        await self._change_replicas(self.chance.choice([*TOPICS, TEMPORARY]), None)

    async def _change_replicas(self, topic: str, replicas: list[int] | None) -> None:
        index = self.chance.randrange(TOPICS.get(topic, 1))
        partition = wire.ReassignablePartition(partition_index=index, replicas=replicas)
        request = wire.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[wire.ReassignableTopic(name=topic, partitions=[partition])],
        )
        answer = await self._network.request_any(request, wire.AlterPartitionReassignmentsResponse)
        _raise_for(answer.error_code)
        for each in answer.responses:
            for result in each.partitions:
                _raise_for(result.error_code)

    async def _elect(self) -> None:
        request = wire.ElectLeadersRequest(
            election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS
        )
        answer = await self._network.request_any(request, wire.ElectLeadersResponse)
        _raise_for(answer.error_code)

    async def _lead_by_another(self) -> None:
        """Let a partition be led by another live replica, and perhaps back again soon."""
        topic = self.chance.choice(list(TOPICS))
        replicas: list[int] = self.chance.sample(IDS, 3)
        for _ in range(self.chance.choice((1, 2, 3))):
            await self._change_replicas(topic, replicas)
            await asyncio.sleep(self.chance.uniform(0.1, 0.6))
            await self._elect()
            replicas = [*replicas[1:], replicas[0]]

    async def _configure(self) -> None:
        name, values = self.chance.choice(
            (
                ("internal.segment.bytes", ("600", "2000", "100000")),
                ("segment.ms", ("1000", "100000")),
                ("min.insync.replicas", ("2", "2", "3")),
            )
        )
        config = AlterableConfig(name=name, config_operation=0, value=self.chance.choice(values))
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=self.chance.choice(("orders", "copies")),
            configs=[config],
        )
        answer = await self._network.request_any(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
        )
        for each in answer.responses:
            _raise_for(each.error_code)


def _raise_for(error_code: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code), "refused")

"""Members of a consumer group and a broker that dies again and again (KIP-848).

Two members never read one partition at the same time, whoever dies and whatever answer is lost; and
when all has gone quiet every partition is read. The members do as the protocol asks and no more:
they read what they were told, from when they are told, and let go of all of it when fenced. Among
them they may be silent, leave and die. Outages are shorter than a session, for who is cut off
for longer reads on without knowing that it is out; its commits are refused then.
"""

import asyncio
from collections.abc import Callable

import pytest

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tierlog.tests import wire
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

TOPIC = "orders"
PARTITIONS = 6
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    # What is acknowledged is on disk: a power loss takes back nothing that a member was told.
    "log.flush.interval.messages": "1",
}
FENCED = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
Partition = tuple[Uuid, int]


class Readers:
    """Who reads what, seen from outside; nobody reads what another reads."""

    def __init__(self) -> None:
        self.by_partition: dict[Partition, str] = {}
        self.moves = 0

    def take(self, member: str, partition: Partition) -> None:
        owner = self.by_partition.setdefault(partition, member)
        assert owner == member, f"{member} and {owner} read {partition[1]}"
        self.moves += 1

    def release(self, member: str, partition: Partition) -> None:
        assert self.by_partition.pop(partition) == member


class Member:
    """One life of a member."""

    def __init__(self, loop: SimulatedLoop, broker: SimulatedBroker, readers: Readers) -> None:
        self._environment = SimulatedEnvironment(loop, f"member/{loop.random.random()}")
        self._random = loop.random
        config = NetworkConfig(request_timeout_ms=2_000)
        self._network = NetworkClient(broker.bootstrap, self._environment, config)
        self._readers = readers
        self.name = uuid_to_string(self._environment.random_uuid())
        self.epoch = 0
        self.owned: set[Partition] = set()
        # After an error nobody knows what the coordinator has heard: all is said again.
        self._says_all = True

    async def live(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                await self._beat()
                await asyncio.sleep(self._random.uniform(0.2, 1.5))
        finally:
            # Dead or gone, it reads no more.
            self._let_go(set())

    async def leave(self) -> None:
        """Let go of everything, and say so; whether that is heard is another matter."""
        self._let_go(set())
        request = self._request(-1)
        try:
            await self._network.request_any(request, ConsumerGroupHeartbeatResponse)
        except KafkaError:
            # Its session will run out.
            return
        finally:
            await self._network.close()

    async def _beat(self) -> None:
        try:
            answer = await self._network.request_any(
                self._request(self.epoch), ConsumerGroupHeartbeatResponse
            )
        except KafkaError:
            self._says_all = True
            return
        if answer.error_code in FENCED:
            self._let_go(set())
            self.epoch, self._says_all = 0, True
        elif answer.error_code:
            self._says_all = True
        else:
            self._obey(answer)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id="group", member_id=self.name, member_epoch=epoch
        )
        if self._says_all:
            request.rebalance_timeout_ms = 30_000
            request.subscribed_topic_names = [TOPIC]
        request.topic_partitions = [
            TopicPartitions(topic_id=topic_id, partitions=[partition])
            for topic_id, partition in sorted(self.owned)
        ]
        return request

    def _obey(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch, self._says_all = answer.member_epoch, False
        if answer.assignment is None:
            return
        assigned = {
            (topic.topic_id, partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        }
        self._let_go(assigned)
        for partition in sorted(assigned - self.owned):
            self._readers.take(self.name, partition)
        self.owned = assigned

    def _let_go(self, kept: set[Partition]) -> None:
        for partition in sorted(self.owned - kept):
            self._readers.release(self.name, partition)
        self.owned &= kept


async def create_topic(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    environment = SimulatedEnvironment(loop, "admin")
    async with Admin(broker.bootstrap, environment=environment) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    network = NetworkClient(broker.bootstrap, environment)
    request = wire.FindCoordinatorRequest(coordinator_keys=["group"])
    await network.request_any(request, wire.FindCoordinatorResponse)
    await network.close()


class Group:
    """Members that come and go at random."""

    def __init__(self, loop: SimulatedLoop, broker: SimulatedBroker) -> None:
        self.readers = Readers()
        self._loop = loop
        self._broker = broker
        self._members: dict[Member, asyncio.Task[None]] = {}

    def come(self) -> None:
        with on_host("clients"):
            member = Member(self._loop, self._broker, self.readers)
            self._members[member] = self._loop.create_task(member.live())

    async def go(self) -> None:
        """One dies, or leaves."""
        member = self._loop.random.choice(list(self._members))
        task = self._members.pop(member)
        task.cancel()
        await asyncio.wait([task])
        if self._loop.random.random() < 0.5:
            await member.leave()

    async def change(self) -> None:
        self.check()
        if len(self._members) > 1 and self._loop.random.random() < 0.4:
            await self.go()
        if len(self._members) < 4 and self._loop.random.random() < 0.5:
            self.come()

    def check(self) -> None:
        """What broke a member breaks the story."""
        for task in self._members.values():
            if task.done():
                task.result()

    async def end(self) -> None:
        """Everything is read, and then the members go."""
        await asyncio.sleep(90)
        self.check()
        assert len(self.readers.by_partition) == PARTITIONS
        owners = set(self.readers.by_partition.values())
        assert owners == {member.name for member in self._members}
        while self._members:
            await self.go()
        assert not self.readers.by_partition


async def play(
    loop: SimulatedLoop, disturb: Callable[[SimulatedBroker, SimulatedNetwork], None]
) -> None:
    network = SimulatedNetwork(loop)
    broker = SimulatedBroker(loop, network, SETTINGS)
    await broker.start()
    with on_host("clients"):
        await create_topic(loop, broker)
    group = Group(loop, broker)
    group.come()
    for _ in range(25):
        await asyncio.sleep(loop.random.uniform(0.5, 6))
        await group.change()
        if loop.random.random() < 0.4:
            starts = broker.starts
            disturb(broker, network)
            await asyncio.sleep(loop.random.uniform(0.1, 5))
            network.heal()
            if not broker.is_running:
                await broker.start()
                assert broker.starts == starts + 1
    await group.end()
    assert group.readers.moves > PARTITIONS
    await broker.stop()


@pytest.mark.simulated(time_limit_s=3600)
async def test_a_broker_that_is_killed_gives_no_partition_to_two(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    await play(loop, lambda broker, _: broker.kill())


@pytest.mark.simulated(time_limit_s=3600)
async def test_a_broker_that_loses_power_gives_no_partition_to_two(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    await play(loop, lambda broker, _: broker.cut_power())


@pytest.mark.simulated(time_limit_s=3600)
async def test_answers_that_are_lost_give_no_partition_to_two(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    def disturb(broker: SimulatedBroker, network: SimulatedNetwork) -> None:
        if loop.random.random() < 0.5:
            network.cut()
        else:
            network.part({"clients"}, {broker.host})

    await play(loop, disturb)

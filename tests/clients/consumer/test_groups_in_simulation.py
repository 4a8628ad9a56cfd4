"""A group of our consumers on our broker in virtual time: members come, go and die, the broker is
killed, and still every record is read, and a partition has one reader in any one generation.
"""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings, strategies as st

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.consumer.group import GroupConfig
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.producer.producer import Producer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import Process, SimulatedNetwork, on_host

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(4)]
RECORDS = 80
GROUP = GroupConfig("readers", session_timeout_ms=6_000, heartbeat_interval_ms=1_000)

# Another member has the partition by now, or the broker is away: the record is read again.
COMMIT_MAY_FAIL = frozenset(
    (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)


@dataclass
class Seen:
    """What all members together have read, and which partitions they held when."""

    values: set[bytes] = field(default_factory=set[bytes])
    holders: dict[tuple[int, TopicPartition], str] = field(
        default_factory=dict[tuple[int, TopicPartition], str]
    )

    def hold(self, generation: int, partition: TopicPartition, name: str) -> None:
        assert self.holders.setdefault((generation, partition), name) == name


async def read_for_ever(
    loop: SimulatedLoop, broker: SimulatedBroker, name: str, seen: Seen, stop: asyncio.Event
) -> None:
    """One member: poll, note, commit."""
    async with Consumer(
        broker.bootstrap,
        group=GROUP,
        auto_offset_reset="earliest",
        max_poll_records=10,
        environment=SimulatedEnvironment(loop, name),
    ) as consumer:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            records = await consumer.poll(500)
            generation = consumer.generation_id
            if generation is not None:
                for partition in consumer.assignment:
                    seen.hold(generation, partition, name)
            seen.values.update(record.value or b"" for record in records)
            try:
                await consumer.commit()
            except KafkaError as error:
                if error.code not in COMMIT_MAY_FAIL:
                    raise


async def produce(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    async with Producer(
        broker.bootstrap,
        enable_idempotence=True,
        environment=SimulatedEnvironment(loop, "producer"),
    ) as producer:
        for number in range(RECORDS):
            partition = PARTITIONS[number % len(PARTITIONS)].partition
            await producer.send(TOPIC, b"%d" % number, partition=partition)
            await asyncio.sleep(loop.random.uniform(0, 0.2))


async def disturb(
    loop: SimulatedLoop, network: SimulatedNetwork, broker: SimulatedBroker, seen: Seen
) -> None:
    """Start members; stop, kill and replace them; kill the broker; cut connections."""
    members: list[tuple[Process, asyncio.Event]] = []
    tasks: list[asyncio.Task[None]] = []
    for number in range(12):
        chance = loop.random.random()
        if len(members) < 2 or chance < 0.3:
            with on_host(f"member{number}") as process:
                stop = asyncio.Event()
                work = read_for_ever(loop, broker, f"member{number}", seen, stop)
                tasks.append(loop.create_task(work, name=f"member{number}"))
                members.append((process, stop))
        elif chance < 0.5:
            members.pop(0)[1].set()
        elif chance < 0.7:
            network.kill(members.pop(0)[0])
        elif chance < 0.85:
            broker.kill()
            await broker.start()
        else:
            network.cut()
        await asyncio.sleep(loop.random.uniform(0, 8))
    for _ in range(600):
        if len(seen.values) == RECORDS:
            break
        await asyncio.sleep(1)
    for _, stop in members:
        stop.set()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        # Those who were killed were cancelled; nobody else has an excuse.
        assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_whoever_comes_and_goes_every_record_is_read(seed: int) -> None:
    async def story(loop: SimulatedLoop) -> None:
        network = SimulatedNetwork(loop)
        broker = SimulatedBroker(loop, network)
        await broker.start()
        seen = Seen()
        with on_host("client"):
            environment = SimulatedEnvironment(loop, "admin")
            async with Admin(broker.bootstrap, environment=environment) as admin:
                await admin.create_topics([NewTopic(TOPIC, len(PARTITIONS), 1)])
            producing = loop.create_task(produce(loop, broker))
        await disturb(loop, network, broker, seen)
        await producing
        assert seen.values == {b"%d" % number for number in range(RECORDS)}
        await broker.stop()

    simulate(story, seed, time_limit_s=3600)


def test_a_committed_offset_whose_record_is_gone_is_asked_for_once() -> None:
    async def story(loop: SimulatedLoop) -> None:
        broker = SimulatedBroker(loop, SimulatedNetwork(loop))
        await broker.start()
        environment = SimulatedEnvironment(loop, "client")
        with on_host("client"):
            async with (
                Admin(broker.bootstrap, environment=environment) as admin,
                Producer(broker.bootstrap, environment=environment) as producer,
                Consumer(
                    broker.bootstrap,
                    group=GROUP,
                    auto_offset_reset="earliest",
                    environment=environment,
                ) as consumer,
            ):
                await admin.create_topics([NewTopic(TOPIC, 1, 1)])
                for number in range(3):
                    await producer.send(TOPIC, b"%d" % number, partition=0)
                await consumer.commit({PARTITIONS[0]: 1})
                await admin.delete_records({PARTITIONS[0]: 2})
                consumer.subscribe([TOPIC])
                async with asyncio.timeout(60):
                    while not (records := await consumer.poll(1_000)):
                        continue
                assert [record.value for record in records] == [b"2"]
        await broker.stop()

    simulate(story, 0, time_limit_s=3600)

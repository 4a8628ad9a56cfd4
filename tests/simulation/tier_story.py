"""A tiered broker, its clients, and everything that can happen to them; drawn from one seed.

Clients produce, read, delete records, and delete the topic and make it again under its name. In the
meantime the object store has its weather (`object_store.py`) and the broker is killed, loses its
power, is killed while it starts, or in the midst of a request to the store.

Checked at every removal of an object and at every turn: nothing goes that can be read, and the log
can be read from its beginning on, which is never where no rule has put it. In the end, in fine
weather: everything closed is in the tier, retention is obeyed, what is promised is read back, and
of objects, metadata and directories there are those of the living log and no others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.network.network import NetworkClient
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.tests import wire
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork, on_host
from tierlog.tests.simulation.object_store import (
    Fault,
    SimulatedPool,
    SimulatedStore,
    Weather,
    register,
)
from tierlog.tests.simulation.tier_records import Promises
from tierlog.tests.simulation.tier_truth import TierTruth

T = TypeVar("T")
TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
SCRUB_INTERVAL_S = 20
LATEST_S = 85.0
"""How long after its time a request of bad times may still be done."""
PROPERTIES = {
    "tierlog.scrub.interval.ms": str(SCRUB_INTERVAL_S * 1000),
    "tierlog.scrub.grace.ms": "5000",
    "remote.partition.remover.task.interval.ms": "10000",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "3000",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    # What is acknowledged is on disk: a power loss takes back nothing that anyone was told.
    "log.flush.interval.messages": "1",
}


@dataclass(frozen=True, slots=True)
class Troubles:
    """What a story may meet."""

    weathers: tuple[tuple[Fault, ...], ...]
    dies: bool
    deletes_topics: bool
    deletes_records: bool
    steps: int = 14


_N = Fault.NONE
FAIR = (_N,)
DOWN = (Fault.UNREACHABLE,)
THROTTLED = (_N, Fault.THROTTLED)
DENIED = (Fault.DENIED,)
FAILING = (_N, _N, _N, Fault.BROKEN, Fault.UNREACHABLE)
SILENT = (_N, _N, Fault.TOO_LATE)
BELATED = (_N, _N, Fault.LATER)
TRUNCATED = (_N, Fault.TRUNCATED)
DEADLY = (*(_N,) * 8, Fault.DEADLY)
EVERYTHING = (*(_N,) * 8, *(each for each in Fault if each is not _N))
ALL_WEATHERS = (
    FAIR, DOWN, THROTTLED, DENIED, FAILING, SILENT, BELATED, TRUNCATED, DEADLY, EVERYTHING,
)  # fmt: skip


class Story:
    """See the module."""

    promises: type[Promises] = Promises

    def __init__(
        self, loop: SimulatedLoop, troubles: Troubles, properties: Mapping[str, str] = PROPERTIES
    ) -> None:
        register()
        self.loop = loop
        self.troubles = troubles
        self.chance = loop.random
        self.store = SimulatedStore(loop, f"tier-{loop.seed}", is_strict=self.chance.random() < 0.5)
        self.broker = SimulatedBroker(
            loop, SimulatedNetwork(loop), {**properties, "rsm.config.url": self.store.url}
        )
        self.broker.pools = partial(SimulatedPool, self.store)
        self.truth = TierTruth(self.broker, self.store)
        self.lives: list[Promises] = []
        self.failures: list[AssertionError] = []
        self.clients = 0
        self.store.on_removal = self._on_removal
        self.store.kill = self._kill

    @property
    def life(self) -> Promises:
        """The incarnation that clients use now."""
        return self.lives[-1]

    def _on_removal(self, key: str) -> None:
        # What a dead process had sent was right when it was sent; what is left is looked at later.
        if self.truth.logs is None:
            return
        try:
            self.check()
            self.truth.check_removal(key)
        except AssertionError as failure:
            self.failures.append(failure)

    def check(self) -> None:
        """What must hold at any moment."""
        now_ms = SimulatedEnvironment(self.loop).wall_clock_ms()
        for life in self.lives:
            log = self.truth.log(life.partition)
            if log is not None:
                life.saw_log_start(log.log_start_offset, now_ms)
                self.truth.check_readable(life.partition, max(life.floor, life.deleted_below))

    def require_no_failure(self) -> None:
        """Raise what was found in callbacks, and look around."""
        if self.failures:
            raise self.failures[0]
        self.check()

    def _kill(self) -> None:
        if self.broker.is_running:
            (self.broker.kill if self.chance.random() < 0.5 else self.broker.cut_power)()

    async def make_trouble(self) -> None:
        """Let the weather change and the broker die, until cancelled."""
        chance = self.chance
        while True:
            self.store.weather = Weather(
                chance.choice(self.troubles.weathers), chance.choice((0.01, 0.2, 5.0, 60.0))
            )
            if not self.troubles.dies:
                self.store.kill = None
            await asyncio.sleep(chance.choice((0.2, 1, 5, 20)) * chance.random())
            if self.troubles.dies and chance.random() < 0.5:
                self._kill()
            self.require_no_failure()
            await self._revive(may_die=self.troubles.dies)

    async def _revive(self, *, may_die: bool) -> None:
        while not self.broker.is_running:
            await asyncio.sleep(self.chance.uniform(0, 1))
            if may_die and self.chance.random() < 0.2:
                self.loop.call_later(self.chance.uniform(0, 0.05), self._kill)
            await self.broker.start_unless_killed()

    async def calm(self) -> None:
        """No more trouble."""
        self.store.weather = Weather()
        self.store.kill = None
        await asyncio.sleep(0.1)
        await self._revive(may_die=False)

    def _environment(self) -> SimulatedEnvironment:
        self.clients += 1
        return SimulatedEnvironment(self.loop, f"client/{self.clients}")

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it succeeds, whatever happens to the broker."""
        async with asyncio.timeout(3600):
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    if not error.is_retriable:
                        raise
                await asyncio.sleep(0.2)

    def topic_settings(self) -> dict[str, str]:
        """The rules of another topic."""
        chance = self.chance
        retention_bytes = chance.choice((-1, -1, 3000, 8000))
        retention_ms = chance.choice((-1, -1, 10_000, 60_000))
        segment_bytes = chance.choice((600, 1500))
        return {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(segment_bytes),
            "local.retention.bytes": "1",
            "retention.bytes": str(retention_bytes),
            "retention.ms": str(retention_ms),
            "file.delete.delay.ms": "10",
            # Else each segment's index takes ten megabytes of a disk that is in memory.
            "segment.index.bytes": "4096",
        }

    async def create_topic(self) -> None:
        """Make the topic, with rules of its own."""
        settings = self.topic_settings()

        async def attempt() -> Uuid:
            async with Admin(self.broker.bootstrap, environment=self._environment()) as admin:
                try:
                    await admin.create_topics([NewTopic(TOPIC, 1, 1, settings)])
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
                return (await admin.list_topics())[TOPIC].topic_id

        topic_id = await self._insist(attempt)
        partition = TopicIdPartition(topic_id, TOPIC, 0)
        assert all(life.partition != partition for life in self.lives)
        names = ("retention.bytes", "retention.ms", "internal.segment.bytes")
        size, time_ms, segment_bytes = (int(settings[name]) for name in names)
        self.lives.append(self.promises(partition, size, time_ms, segment_bytes))

    async def delete_topic(self) -> None:
        """Delete the topic."""

        async def attempt() -> None:
            async with Admin(self.broker.bootstrap, environment=self._environment()) as admin:
                try:
                    await admin.delete_topics([TOPIC])
                except KafkaError as error:
                    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise

        await self._insist(attempt)

    async def produce(self) -> None:
        """Send some records, one after the other."""
        life, environment = self.life, self._environment()
        options: ProducerOptions = {
            "acks": -1,
            "environment": environment,
            "delivery_timeout_ms": 600_000,
            "max_block_ms": 600_000,
        }
        async with Producer(self.broker.bootstrap, **options) as producer:
            for _ in range(self.chance.randrange(1, 20)):
                value = life.next_value(self.chance.randrange(300))
                now_ms = environment.wall_clock_ms()
                key = life.key_of(value)
                sent = await producer.send(TOPIC, value, key, partition=0, timestamp_ms=now_ms)
                assert sent.offset not in life.acknowledged
                life.acknowledged[sent.offset] = value
                life.written_ms[sent.offset] = now_ms
                if self.chance.random() < 0.3:
                    await asyncio.sleep(self.chance.uniform(0, 1))

    async def delete_records(self) -> None:
        """Ask for everything below some offset to go."""
        life = self.life
        offset = self.chance.randint(0, life.end_offset)
        life.deleted_below = max(life.deleted_below, offset)
        asked = wire.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = wire.DeleteRecordsRequest(
            topics=[wire.DeleteRecordsTopic(name=TOPIC, partitions=[asked])], timeout_ms=30_000
        )

        async def attempt() -> None:
            network = NetworkClient(self.broker.bootstrap, self._environment())
            try:
                answer = await network.request_any(request, wire.DeleteRecordsResponse)
            finally:
                await network.close()
            ((result,),) = [topic.partitions for topic in answer.topics]
            code = ErrorCode(result.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise KafkaError(code, "DeleteRecords was refused")

        await self._insist(attempt)

    async def recreate(self) -> None:
        """Delete the topic and make it again, at once or after a while."""
        await self.delete_topic()
        await asyncio.sleep(self.chance.choice((0, 0, 1, 20)))
        await self.create_topic()

    async def wait(self) -> None:
        """Let the broker work."""
        await asyncio.sleep(self.chance.choice((0.5, 3, 30)))

    async def read_all(self) -> None:
        """Read the log from its beginning to its end and compare."""
        start, found = await self._read()
        self.life.check_read(found, start)

    async def _read(self) -> tuple[int, list[ConsumerRecord]]:
        found: list[ConsumerRecord] = []
        async with Consumer(self.broker.bootstrap, environment=self._environment()) as consumer:
            consumer.assign([PARTITION])
            start = (await consumer.beginning_offsets([PARTITION]))[PARTITION]
            end = (await consumer.end_offsets([PARTITION]))[PARTITION]
            consumer.seek(PARTITION, start)
            async with asyncio.timeout(300):
                while start < end and (not found or found[-1].offset < end - 1):
                    found += await consumer.poll(timeout_ms=1000)
        return start, found

    async def act(self) -> None:
        """One thing that clients do."""
        actions = [self.produce] * 5 + [self.wait] * 3
        actions += [self.delete_records] * self.troubles.deletes_records
        actions += [self.recreate] * self.troubles.deletes_topics
        await self.chance.choice(actions)()

    async def run(self) -> None:
        """The story, up to the calm after it."""
        await self.broker.start()
        trouble = self.loop.create_task(self.make_trouble())
        with on_host("client"):
            living = self.loop.create_task(self._live())
        try:
            await asyncio.wait({trouble, living}, return_when=asyncio.FIRST_COMPLETED)
            if trouble.done():
                trouble.result()
            living.result()
        finally:
            trouble.cancel()
            living.cancel()
            await asyncio.wait({trouble, living})
        await self.calm()
        self.require_no_failure()

    async def _live(self) -> None:
        await self.create_topic()
        for _ in range(self.troubles.steps):
            await self.act()

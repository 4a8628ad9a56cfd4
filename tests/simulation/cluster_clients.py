"""The clients of a simulated cluster, and what the cluster has promised them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tierlog.clients.errors import KafkaError
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.cluster_member import BOOTSTRAP
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop


def _ignore(_: TopicPartition, __: int) -> None:
    """What is done about a record as long as nobody checks it."""


@dataclass(slots=True)
class Promises:
    """What clients were promised of each partition, and what they have seen."""

    acknowledged: dict[TopicPartition, dict[int, bytes]] = field(
        default_factory=dict[TopicPartition, dict[int, bytes]]
    )
    on_acknowledged: Callable[[TopicPartition, int], None] = _ignore
    copied: int = 0
    """How many records the copier's committed offset says are copied."""
    counts: Counter[str] = field(default_factory=Counter[str])

    def acknowledge(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A record was acknowledged by all in sync."""
        values = self.acknowledged.setdefault(partition, {})
        assert offset not in values, f"{partition}: {offset} was given to {values[offset]!r} before"
        values[offset] = value
        self.on_acknowledged(partition, offset)
        self.counts["acknowledged"] += 1


class Client(Protocol):
    """Whoever uses the cluster."""

    is_over: bool

    async def run(self) -> None: ...


class LoadingProducer:
    """An idempotent producer with acks=all, which writes numbered values in small bursts."""

    def __init__(
        self, loop: SimulatedLoop, name: str, partitions: list[TopicPartition], promises: Promises
    ) -> None:
        self.name = name
        self.chance = Random(f"{loop.seed}/{name}")
        self._partitions = partitions
        self._promises = promises
        self._number = 0
        self.is_over = False
        options: ProducerOptions = {
            "environment": SimulatedEnvironment(loop, name),
            "request_timeout_ms": 2500,
            "delivery_timeout_ms": 120_000,
            "batch_size": 400,
        }
        self._producer = Producer(BOOTSTRAP, **options)

    async def run(self) -> None:
        """Write until `is_over`, then wait for what is under way."""
        async with asyncio.TaskGroup() as sending, self._producer:
            while not self.is_over:
                for _ in range(self.chance.choice((1, 1, 1, 2, 5))):
                    self._number += 1
                    value = b"%s/%06d" % (self.name.encode(), self._number)
                    sending.create_task(self._send(self.chance.choice(self._partitions), value))
                await asyncio.sleep(self.chance.uniform(0, 0.3))

    async def _send(self, partition: TopicPartition, value: bytes) -> None:
        try:
            sent = await self._producer.send(partition.topic, value, partition=partition.partition)
        except KafkaError as error:
            # Nothing is promised: it may be written or not.
            self._promises.counts[f"send {error.code.name}"] += 1
        else:
            self._promises.acknowledge(partition, sent.offset, value)

"""Shared by tests: records through a whole broker with a tier."""

import asyncio
from importlib import import_module
from typing import Protocol, cast

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.producer.producer import Producer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork
from tierlog.tiering.store.object_keys import parse_object_key

TOPIC = "orders"
VALUE_BYTES = 100
RECORDS = 80


class MemoryFileSystem(Protocol):
    def find(self, path: str) -> list[str]: ...


def segments_in_tier(name: str) -> list[int]:
    """The start offsets of the whole segments in the tier."""
    memory = cast(
        MemoryFileSystem, import_module("fsspec.implementations.memory").MemoryFileSystem()
    )
    keys = [parse_object_key(path) for path in memory.find(f"/{name}")]
    assert None not in keys
    return sorted(key.start_offset for key in keys if key and key.suffix == "manifest")


def tiered_broker(loop: SimulatedLoop, name: str) -> SimulatedBroker:
    loop.network = network = SimulatedNetwork(loop)
    properties = {
        "remote.log.storage.system.enable": "true",
        "rsm.config.url": f"memory://{name}",
        "remote.log.manager.task.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    }
    return SimulatedBroker(loop, network, properties)


async def create_topic(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    async with Admin(broker.bootstrap, environment=SimulatedEnvironment(loop, "admin")) as admin:
        configs = {
            "remote.storage.enable": "true",
            "internal.segment.bytes": "1000",
            "local.retention.bytes": "1",
        }
        await admin.create_topics([NewTopic(TOPIC, 1, 1, configs)])


async def produce(loop: SimulatedLoop, broker: SimulatedBroker, first: int, count: int) -> None:
    environment = SimulatedEnvironment(loop, f"producer {first}")
    async with Producer(broker.bootstrap, acks=-1, environment=environment) as producer:
        for number in range(first, first + count):
            value = b"%06d" % number + bytes(VALUE_BYTES)
            sent = await producer.send(TOPIC, value, partition=0)
            assert sent.offset == number


async def consume(loop: SimulatedLoop, broker: SimulatedBroker) -> list[ConsumerRecord]:
    partition = TopicPartition(TOPIC, 0)
    records: list[ConsumerRecord] = []
    environment = SimulatedEnvironment(loop, f"consumer at {loop.time()}")
    async with Consumer(broker.bootstrap, environment=environment) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        end = (await consumer.end_offsets([partition]))[partition]
        async with asyncio.timeout(300):
            while len(records) < end:
                records += await consumer.poll(timeout_ms=1000)
    return records


def check_all(records: list[ConsumerRecord], count: int) -> None:
    assert [record.offset for record in records] == list(range(count))
    assert [(record.value or b"")[:6] for record in records] == [
        b"%06d" % number for number in range(count)
    ]

"""Topics with replicas on a cluster of several processes: made, written to, read, asked about."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

from tierlog.bench.harness.processes.cluster import Cluster
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.producer.producer import Producer
from tierlog.clients.topic_partition import TopicPartition

T = TypeVar("T")
_STORY_S = 180


def run(story: Coroutine[object, object, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, _STORY_S))


def create(cluster: Cluster, name: str, replicas: Sequence[int]) -> None:
    """A topic whose only partition has these replicas, of which the first one leads."""

    async def story() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic(name, replica_assignments={0: list(replicas)})])

    run(story())


def produce(
    bootstrap: str, topic: str, values: Sequence[bytes], partitions: int = 1, acks: int = -1
) -> None:
    """Every value is acknowledged when this returns."""

    async def story() -> None:
        idempotent = acks == -1
        async with Producer(bootstrap, acks=acks, enable_idempotence=idempotent) as producer:
            sent = [
                producer.send_nowait(topic, value, partition=number % partitions)
                for number, value in enumerate(values)
            ]
            await asyncio.gather(*sent)

    run(story())


def consume(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[bytes]:
    """The first `count` values, by partition."""

    async def story() -> list[bytes]:
        values: dict[int, list[bytes]] = {}
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
            while sum(map(len, values.values())) < count:
                for record in await consumer.poll(1_000):
                    values.setdefault(record.partition, []).append(record.value or b"")
        return [value for number in sorted(values) for value in values[number]]

    return run(story())


def leader_of(cluster: Cluster, bootstrap: str, topic: str) -> int:
    async def story() -> int:
        async with Admin(bootstrap) as admin:
            return (await admin.list_topics())[topic].partitions[0].leader_id

    return run(story())

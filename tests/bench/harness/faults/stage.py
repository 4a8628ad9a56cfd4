"""Three brokers under a producer, to which faults are done one after the other.

Nothing that was acknowledged may be lost, doubled or moved, whatever happened: `check` reads it all
back.
"""

import asyncio
import random
import threading
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tierlog.bench.harness.cluster_runs.in_sync import InSyncWatch
from tierlog.bench.harness.faults.chaos_cluster import PROPERTIES
from tierlog.bench.harness.faults.fault import Fault, Grounds, Store
from tierlog.bench.harness.faults.links import Links
from tierlog.bench.harness.processes.cluster import Cluster, Kind, combined
from tierlog.clients.admin import Admin, NewTopic
from tierlog.tests.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 3
_REPLICAS = 3
_IN_SYNC_S = 180.0
_READ_S = 120.0
_VALUE = b"x" * 200
_PAUSE_S = 0.002
_QUICK: Mapping[str, str] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
}
_TOPIC_SETTINGS: Mapping[str, str] = {"segment.bytes": "1048576"}
_QUICK_TIER: Mapping[str, str] = {
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
}
_TIERED: Mapping[str, str] = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "65536",
    "local.retention.bytes": "1",
}


class _Writer:
    """Produces numbers in order, and notes which are acknowledged at which offset."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 16_384,  # smaller than a segment
                "message.timeout.ms": 300_000,
                "queue.buffering.max.messages": 10_000,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.acknowledged: dict[int, list[tuple[int, int]]] = {}
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert self._producer.flush(_READ_S) == 0

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            try:
                self._producer.produce(
                    TOPIC,
                    _VALUE,
                    key=str(number),
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered,
                )
                number += 1
            except BufferError:
                self._producer.poll(0.1)
            self._producer.poll(0)
            self._ends.wait(_PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        key, partition, offset = message.key(), message.partition(), message.offset()
        assert key is not None
        assert partition is not None
        assert offset is not None
        self.acknowledged.setdefault(partition, []).append((offset, int(key)))


class Stage:
    """See the top of this file."""

    def __init__(self, cluster: Cluster, links: Links, store: Store | None, seed: int) -> None:
        self.cluster = cluster
        self.watch = InSyncWatch(cluster, (TOPIC,))
        self.writer = _Writer(cluster.bootstrap)
        self.grounds = Grounds(
            cluster=cluster,
            links=links,
            chance=random.Random(seed),
            wait=threading.Event().wait,  # the run never ends before a fault does
            free=self._free,
            calm=self._calm,
            store=store,
        )

    def _free(self) -> list[int]:
        nodes = [node.node_id for node in self.cluster.nodes.values() if node.is_alive()]
        self.grounds.chance.shuffle(nodes)
        return nodes

    def _calm(self) -> bool:
        return self.watch.now().nodes == frozenset(self.cluster.nodes)

    def hit(self, fault: Fault, lasts_s: float = 2.0) -> tuple[int, ...]:
        """Do the fault to one or two nodes, and wait until all are in sync again."""
        assert fault.missing() is None
        nodes = fault.choose(self.grounds)
        assert nodes
        fault.act(self.grounds, nodes, lasts_s)
        self.watch.wait_for_all(_IN_SYNC_S)
        before = self.writer.count
        wait_until(lambda: self.writer.count > before, _IN_SYNC_S, "nothing is acknowledged")
        return nodes

    def output(self, nodes: Collection[int]) -> str:
        """What those nodes have logged so far."""
        return "\n".join(self.cluster.nodes[each].output for each in nodes)

    def check(self) -> int:
        """Stop producing and read everything back; returns how many records were acknowledged."""
        self.writer.stop()
        assert not self.writer.failed, self.writer.failed[:3]
        for partition, acknowledged in self.writer.acknowledged.items():
            log = self._read(partition)
            assert len({number for _, number in log.items()}) == len(log), "doubled"
            assert [log.get(offset) for offset, _ in acknowledged] == [
                number for _, number in acknowledged
            ]
            assert list(log.values()) == sorted(log.values()), "another order"
        return self.writer.count

    def check_replicas(self) -> None:
        """All replicas of what was produced are the same bytes. Only without a tier."""
        self.watch.wait_for_all(_IN_SYNC_S)
        wait_until(self._are_replicas_equal, _READ_S, "the replicas differ")

    def _are_replicas_equal(self) -> bool:
        return all(len(set(self._bytes_of(each))) == 1 for each in range(PARTITIONS))

    def _bytes_of(self, partition: int) -> list[bytes]:
        """The log on each node."""
        directories = [
            node.log_directory / f"{TOPIC}-{partition}" for node in self.cluster.nodes.values()
        ]
        return [
            b"".join(segment.read_bytes() for segment in sorted(directory.glob("*.log")))
            for directory in directories
        ]

    def _read(self, partition: int) -> dict[int, int]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        place = TopicPartition(TOPIC, partition, 0)
        consumer.assign([place])
        _, end = consumer.get_watermark_offsets(place, timeout=_READ_S)
        log: dict[int, int] = {}
        deadline = time.monotonic() + _READ_S
        while not log or max(log) < end - 1:
            assert time.monotonic() < deadline, f"read {len(log)} of {end}"
            for message in consumer.consume(5000, 1.0):
                assert message.error() is None, message.error()
                key, offset = message.key(), message.offset()
                assert key is not None
                assert offset is not None
                log[offset] = int(key)
        consumer.close()
        return log


async def _create_topic(bootstrap: str, settings: Mapping[str, str]) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, _REPLICAS, settings)])


@contextmanager
def three_brokers(
    directory: Path,
    faults: Sequence[Fault],
    kind: Kind = "tierlog",
    store: Store | None = None,
    seed: int = 1,
) -> Generator[Stage]:
    """Three nodes that are prepared for these faults, with a producer that writes."""
    properties = {**PROPERTIES, **_QUICK}
    if store is not None:
        properties |= {**store.properties, **_QUICK_TIER}
    del properties["listener.security.protocol.map"], properties["inter.broker.listener.name"]
    cluster = Cluster(directory, combined(kind, kind, kind), properties)
    for node in cluster.nodes.values():
        for fault in faults:
            fault.prepare(node)
    with Links(dict) as links, cluster:
        cluster.wait_until_caught_up()
        settings = _TOPIC_SETTINGS if store is None else _TIERED
        asyncio.run(_create_topic(cluster.bootstrap, settings))
        stage = Stage(cluster, links, store, seed)
        stage.writer.start()
        try:
            stage.watch.wait_for_all(_IN_SYNC_S)
            yield stage
        finally:
            stage.writer.stop()

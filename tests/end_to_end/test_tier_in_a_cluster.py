"""Three processes share a tier: nothing of a live topic goes, and all of a deleted one does.

Every story kills, pauses or deposes a broker while it copies or before it can clean up, and looks
at the objects in the store and at what a consumer reads from them.
"""

import asyncio
import os
import signal
from collections.abc import Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, combined
from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.producer.producer import Producer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tiering.store.object_keys import ObjectKey, parse_object_key

from ..waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

T = TypeVar("T")
_WITHIN_S = 180
_STORY_S = 600
_SEGMENT_BYTES = 4096
_VALUE = bytes(100)
_SETTINGS = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "remote.partition.remover.task.interval.ms": "4000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "6",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
}
_TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(_SEGMENT_BYTES),
    "local.retention.bytes": "1",
}


class TieredCluster:
    """Three brokers and the store that they share."""

    def __init__(self, cluster: Cluster, store: Path) -> None:
        self.cluster = cluster
        self._store = store

    def node(self, node_id: int) -> ClusterNode:
        return self.cluster.nodes[node_id]

    def bootstrap(self, but: Collection[int] = ()) -> str:
        return ",".join(node.bootstrap for at, node in self.cluster.nodes.items() if at not in but)

    def objects(self, topic: str) -> dict[Path, ObjectKey]:
        """Every object of a topic in the store."""
        files = [each for each in live_paths(self._store, f"{topic}-*/*") if each.is_file()]
        keys = {each: parse_object_key(f"{each.parent.name}/{each.name}") for each in files}
        return {path: key for path, key in keys.items() if key is not None}

    def copied(self, topic: str) -> list[int]:
        """The start offsets of the complete copies."""
        return sorted(
            key.start_offset for key in self.objects(topic).values() if key.suffix == "manifest"
        )

    @contextmanager
    def paused(self, node_id: int) -> Generator[None]:
        """The process of a broker gets no turn, and does not notice."""
        pid = self.node(node_id).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if self.node(node_id).is_alive():
                os.kill(pid, signal.SIGCONT)

    def create(
        self,
        name: str,
        replicas: Sequence[int],
        but: Collection[int] = (),
        settings: Mapping[str, str] = _TIERED,
    ) -> None:
        async def story() -> None:
            async with Admin(self.bootstrap(but)) as admin:
                topic = NewTopic(name, replica_assignments={0: list(replicas)}, configs=settings)
                await admin.create_topics([topic])

        _run(story())

    def delete(self, name: str, but: Collection[int] = ()) -> None:
        async def story() -> None:
            async with Admin(self.bootstrap(but)) as admin:
                await admin.delete_topics([name])

        _run(story())

    def leader(self, name: str, but: Collection[int] = ()) -> int:
        async def story() -> int:
            async with Admin(self.bootstrap(but)) as admin:
                return (await admin.list_topics())[name].partitions[0].leader_id

        return _run(story())

    def isr(self, name: str, but: Collection[int] = ()) -> list[int]:
        async def story() -> list[int]:
            async with Admin(self.bootstrap(but)) as admin:
                return list((await admin.list_topics())[name].partitions[0].isr_nodes)

        return _run(story())

    def wait_for_leader(self, name: str, but: Collection[int]) -> int:
        """Another broker than those leads."""
        wait_until(
            lambda: self.leader(name, but) not in (-1, *but),
            _WITHIN_S,
            lambda: f"{name} is led by {self.leader(name, but)}",
        )
        return self.leader(name, but)

    def produce(self, name: str, first: int, count: int, but: Collection[int] = ()) -> None:
        async def story() -> None:
            async with Producer(self.bootstrap(but), acks=-1) as producer:
                for start in range(first, first + count, 20):
                    sent = [
                        producer.send_nowait(name, b"%06d" % number + _VALUE, partition=0)
                        for number in range(start, min(start + 20, first + count))
                    ]
                    await asyncio.gather(*sent)

        _run(story())

    def check_all(self, name: str, count: int, but: Collection[int] = ()) -> None:
        """A consumer reads every record once, in order."""
        assert self.read(name, count, but) == list(range(count))

    def read(self, name: str, count: int, but: Collection[int] = ()) -> list[int]:
        """The first numbers that a consumer reads."""

        async def story() -> list[int]:
            numbers: list[int] = []
            async with Consumer(self.bootstrap(but), auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition(name, 0)])
                while len(numbers) < count:
                    numbers += [int((each.value or b"")[:6]) for each in await consumer.poll(1000)]
            return numbers

        return _run(story())

    def half_copies(self, topic: str) -> set[Uuid]:
        """The segments in the store that have no manifest."""
        keys = self.objects(topic).values()
        whole = {key.segment_id for key in keys if key.suffix == "manifest"}
        return {key.segment_id for key in keys} - whole

    def wait_until_copied(self, name: str, least: int) -> None:
        wait_until(
            lambda: len(self.copied(name)) >= least,
            _WITHIN_S,
            lambda: f"{name}: {self.copied(name)}\n{self.cluster.log_tails(40)}",
        )

    def wait_until_local_is_short(self, name: str, node_id: int, most: int = 2) -> None:
        """Local retention has deleted what is in the tier."""
        directory = self.node(node_id).log_directory / f"{name}-0"
        wait_until(
            lambda: len(list(directory.glob("*.log"))) <= most,
            _WITHIN_S,
            lambda: f"{sorted(each.name for each in directory.iterdir())}",
        )

    def wait_until_gone(self, name: str) -> None:
        wait_until(
            lambda: not self.objects(name),
            _WITHIN_S,
            lambda: f"{sorted(map(str, self.objects(name)))}\n{self.cluster.log_tails(60)}",
        )


def _run(story: Coroutine[object, object, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, _STORY_S))


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredCluster]:
    directory = tmp_path_factory.mktemp("tiered")
    store = directory / "store"
    settings = {**_SETTINGS, "rsm.config.url": store.resolve().as_uri()}
    with Cluster(directory, combined("tierlog", "tierlog", "tierlog"), settings) as three:
        three.wait_until_caught_up()
        made = TieredCluster(three, store)
        # The metadata topic is made with three replicas: not while a story has paused a broker.
        made.create("first", (1, 2, 3))
        made.produce("first", 0, 100)
        made.wait_until_copied("first", 2)
        yield made
        for node in three.nodes.values():
            assert "nternal error" not in node.output


def test_a_topic_whose_leader_dies_at_its_deletion_leaves_no_object(tiered: TieredCluster) -> None:
    """The leader would have marked it. It is paused over the deletion, and then killed."""
    tiered.create("stays", (1, 2, 3))
    tiered.create("goes", (3, 1, 2))
    for name in ("stays", "goes"):
        tiered.produce(name, 0, 400)
        tiered.wait_until_copied(name, 10)
    before = tiered.copied("stays")
    with tiered.paused(3):
        tiered.delete("goes", but=[3])
        assert tiered.objects("goes")
        tiered.node(3).kill()
    tiered.wait_until_gone("goes")
    assert set(before) <= set(tiered.copied("stays"))
    tiered.check_all("stays", 400, but=[3])
    tiered.node(3).start()
    tiered.cluster.wait_until_caught_up()
    tiered.check_all("stays", 400)


def test_a_broker_paused_over_the_creation_of_topics_deletes_nothing_of_them(
    tiered: TieredCluster,
) -> None:
    """It has the events of their segments before it has their creation. (cluster.md, trap 10)"""
    names = [f"young-{number}" for number in range(6)]
    with tiered.paused(2):
        for name in names:
            tiered.create(name, (1, 3), but=[2])
            tiered.produce(name, 0, 100, but=[2])
        for name in names:
            tiered.wait_until_copied(name, 2)
        before = {name: tiered.copied(name) for name in names}
    tiered.cluster.wait_until_caught_up()
    # A topic that is created now and gone shows that the removers of all have looked since.
    tiered.create("marker", (2, 3))
    tiered.produce("marker", 0, 100)
    tiered.wait_until_copied("marker", 2)
    tiered.delete("marker")
    tiered.wait_until_gone("marker")
    for name in names:
        assert set(before[name]) <= set(tiered.copied(name))
        tiered.check_all(name, 100)


def test_a_leader_paused_while_it_copies_is_followed_by_one_that_copies_the_rest(
    tiered: TieredCluster,
) -> None:
    """What both have copied may overlap; the reader gets every record once, whoever leads."""
    tiered.create("moved", (1, 2, 3))
    tiered.produce("moved", 0, 1000)
    with tiered.paused(1):
        leader = tiered.wait_for_leader("moved", [1])
        tiered.produce("moved", 1000, 1000, but=[1])
        tiered.wait_until_copied("moved", 45)
        tiered.wait_until_local_is_short("moved", leader)
        tiered.check_all("moved", 2000, but=[1])
    tiered.cluster.wait_until_caught_up()
    tiered.produce("moved", 2000, 500)
    tiered.wait_until_copied("moved", 55)
    tiered.wait_until_local_is_short("moved", tiered.leader("moved"))
    tiered.check_all("moved", 2500)
    tiered.delete("moved")
    tiered.wait_until_gone("moved")


def test_each_broker_is_killed_in_turn_while_segments_are_copied(tiered: TieredCluster) -> None:
    """Each leads the topic and a part of the metadata. The next one copies what is missing, and
    cleans up what was begun."""
    count = 0
    tiered.create("busy", (1, 2, 3))
    for victim in (1, 2, 3):
        tiered.produce("busy", count, 600)
        count += 600
        tiered.node(victim).kill()
        tiered.wait_for_leader("busy", [victim])
        tiered.produce("busy", count, 200, but=[victim])
        count += 200
        tiered.node(victim).start()
        tiered.cluster.wait_until_caught_up()
    tiered.produce("busy", count, 100)
    count += 100
    tiered.wait_until_local_is_short("busy", tiered.leader("busy"))
    wait_until(
        lambda: not tiered.half_copies("busy"),
        _WITHIN_S,
        lambda: f"{tiered.half_copies('busy')}\n{tiered.cluster.log_tails(60)}",
    )
    tiered.check_all("busy", count)
    tiered.delete("busy")
    tiered.wait_until_gone("busy")


def test_what_an_unclean_leader_does_not_have_is_not_read_from_the_tier(
    tiered: TieredCluster,
) -> None:
    """The former leader alone had it, and had copied it. (KAFKA-16511, scenario 3.4)"""
    unclean = {**_TIERED, "unclean.leader.election.enable": "true"}
    tiered.create("forked", (1, 2), settings=unclean)
    tiered.produce("forked", 0, 300)
    tiered.wait_until_copied("forked", 8)
    with tiered.paused(2):
        wait_until(lambda: 2 not in tiered.isr("forked", [2]), _WITHIN_S, lambda: "in the ISR")
        tiered.produce("forked", 300, 300, but=[2])
        tiered.wait_until_copied("forked", 16)
        tiered.node(1).kill()
    assert tiered.wait_for_leader("forked", [1]) == 2
    expected = [*range(300), *range(5000, 5500)]
    tiered.produce("forked", 5000, 500, but=[1])
    tiered.wait_until_local_is_short("forked", 2)
    assert tiered.read("forked", 800, but=[1]) == expected
    tiered.node(1).start()
    tiered.cluster.wait_until_caught_up()
    wait_until(lambda: 1 in tiered.isr("forked"), _WITHIN_S, lambda: "not in the ISR")
    tiered.node(2).kill()
    assert tiered.wait_for_leader("forked", [2]) == 1
    assert tiered.read("forked", 800, but=[2]) == expected
    tiered.node(2).start()
    tiered.cluster.wait_until_caught_up()
    tiered.delete("forked")
    tiered.wait_until_gone("forked")

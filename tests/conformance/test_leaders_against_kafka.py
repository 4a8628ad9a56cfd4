"""A leader of Kafka and one of ours with the same follower, which the test plays.

What the leader answers to it, to consumers and to producers must be the same, and so must be who is
in sync: how far the high watermark goes, who holds it back, and who is refused.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, Kind, separate
from tierlog.bench.harness.processes.cluster_log import metadata_bytes, metadata_records
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.runtime.environment import SystemEnvironment

from ..broker_process import RawClient
from ..waiting import wait_until
from .lone_controllers import PlayedBrokers
from .side_by_side import OUR_OWN, plain

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn"), pytest.mark.timeout(600)]

LEADER, FOLLOWER, STRANGER = 11, 12, 13
LAG_S = 10
FIRST_MS = SystemEnvironment().wall_clock_ms()
PROPERTIES = {
    "replica.lag.time.max.ms": str(LAG_S * 1_000),
    # A played broker has no heartbeats by the clock.
    "broker.session.timeout.ms": "600000",
}
CONSUMER, OF_EPOCH_0 = -1, 0
NOT_HERE = OUR_OWN | {"topic_id", "log_append_time_ms", "node_endpoints", "host"}


class PlayedTo:
    """The controller of a cluster."""

    def __init__(self, node: ClusterNode, cluster_id: str) -> None:
        self.port = node.controller_port
        self.cluster_id = cluster_id
        self._directory = node.log_directory

    def records(self) -> Iterator[Message]:
        return iter(metadata_records(metadata_bytes(self._directory)))


class Side:
    """A cluster of one controller and one broker that leads, and what was answered."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.cluster = Cluster(directory, separate([kind], [kind]), PROPERTIES)
        self.said: list[object] = []

    def __enter__(self) -> Self:
        self.cluster.start()
        (controller,) = self.cluster.controllers
        self.brokers = PlayedBrokers(PlayedTo(controller, self.cluster.cluster_id))
        self._leader = RawClient(self.cluster.nodes[LEADER].port)
        return self

    def __exit__(self, *_: object) -> None:
        self.brokers.close()
        self._leader.socket.close()
        self.cluster.kill()

    def fetch(
        self,
        topic: str,
        offset: int,
        reader: int = CONSUMER,
        *,
        broker_epoch: int | None = None,
        leader_epoch: int = OF_EPOCH_0,
        last_epoch: int = -1,
        version: int = 17,
    ) -> None:
        """Fetch as a consumer or as a replica."""
        epoch = self.brokers.epochs.get(reader, -1)
        partition = FetchPartition(
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1 if reader == CONSUMER else 0,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=reader, replica_epoch=epoch if broker_epoch is None else broker_epoch
            ),
            max_wait_ms=0,
            topics=[
                FetchTopic(
                    topic=topic, topic_id=self.brokers.topic_ids[topic], partitions=[partition]
                )
            ],
        )
        if version < 15:
            request.replica_id, request.replica_state = reader, ReplicaState()
        if version < 12:
            partition.last_fetched_epoch = -1
        answer = self._leader.ask(request, version, FetchResponse)
        self.said.append((topic, offset, reader, version, plain(answer, NOT_HERE)))

    def produce(self, topic: str, acks: int, *, follow_from: int | None = None) -> int:
        """Produce one record; the follower reads on from there before the answer is awaited."""
        batch = build_batch([Record(0, FIRST_MS, None, topic.encode())])
        data = PartitionProduceData(records=memoryview(batch))
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
        with RawClient(self.cluster.nodes[LEADER].port, 60) as producer:
            header = producer.send(request, 9)
            if follow_from is not None:
                self.wait_for_end(topic, follow_from + 1)
                self.fetch(topic, follow_from + 1, FOLLOWER)
            answer = producer.receive(header)
        assert isinstance(answer, ProduceResponse)
        (produced,) = answer.responses[0].partition_responses
        self.said.append((topic, acks, produced.error_code, produced.base_offset))
        return produced.error_code

    def wait_for_end(self, topic: str, end: int) -> None:
        """Wait until the log has grown so far: who fetches at its end is not told so."""

        def has_grown() -> bool:
            before = len(self.said)
            self.fetch(topic, end, STRANGER, broker_epoch=-1, version=12)
            self.fetch(topic, end - 1, FOLLOWER)
            answer = str(self.said.pop())
            del self.said[before:]
            return "'records': b''" not in answer

        wait_until(has_grown, 180, f"{topic} ends at {end}")

    def isr(self, topic: str) -> list[int]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (answer,) = self._leader.ask(request, 9, MetadataResponse).topics
        if answer.error_code or answer.partitions[0].leader_id != LEADER:
            return []
        return sorted(answer.partitions[0].isr_nodes)

    def wait_for_isr(self, topic: str, *members: int) -> None:
        wait_until(
            lambda: self.isr(topic) == sorted(members), 180, lambda: f"{topic} {self.isr(topic)}"
        )

    def wait_until_led(self, topic: str) -> None:
        """Wait until the broker itself has become the leader, not only knows of it."""
        self.wait_for_isr(topic, LEADER, FOLLOWER)

        def is_led() -> bool:
            self.fetch(topic, 0)
            return "'error_code': 0, 'high_watermark': 0" in str(self.said.pop())

        wait_until(is_led, 180, f"{topic} is led")


def play(side: Side) -> None:
    brokers = side.brokers
    brokers.register(FOLLOWER)
    brokers.beat(FOLLOWER)
    for topic, min_isr in (("one", "1"), ("two", "2")):
        # Just now, so that the follower has the whole lag to fetch first.
        brokers.create_topic(topic, [LEADER, FOLLOWER], min_isr=min_isr)
        side.wait_until_led(topic)
        # A record is not for consumers before the follower has it.
        side.produce(topic, 1)
        side.fetch(topic, 0)
        side.fetch(topic, 0, FOLLOWER)
        side.fetch(topic, 0)
        side.fetch(topic, 1, FOLLOWER)
        side.fetch(topic, 0)
        side.produce(topic, -1, follow_from=1)
        refuse(side, topic)

    # Who does not fetch falls out of sync, and holds nothing back any more.
    for topic in ("one", "two"):
        side.produce(topic, 1)
    for topic in ("one", "two"):
        side.wait_for_isr(topic, LEADER)
        side.produce(topic, 1)
        side.fetch(topic, 2)
        assert side.produce(topic, -1) == (ErrorCode.NOT_ENOUGH_REPLICAS if topic == "two" else 0)

    # It is in sync again once it has what the leader has.
    for topic, end in (("one", 5), ("two", 4)):
        side.fetch(topic, 2, FOLLOWER)
        side.fetch(topic, end, FOLLOWER)
        side.wait_for_isr(topic, LEADER, FOLLOWER)
        side.fetch(topic, end, FOLLOWER)
        side.fetch(topic, 2)

    # A broker that is fenced cannot be in sync, however much it has.
    brokers.beat(FOLLOWER, fence=True)
    for topic, end in (("one", 5), ("two", 4)):
        side.wait_for_isr(topic, LEADER)
        side.fetch(topic, end, FOLLOWER)
        side.produce(topic, -1)
        side.fetch(topic, end)
    brokers.beat(FOLLOWER)
    for topic, end in (("one", 6), ("two", 4)):
        side.fetch(topic, end, FOLLOWER)
        wait_until(partial(_joins, side, topic, end), 120, f"{topic} {side.isr(topic)}")


def _joins(side: Side, topic: str, end: int, leader_epoch: int = OF_EPOCH_0) -> bool:
    """The leader may hear later than the controller that the broker is unfenced."""
    side.fetch(topic, end, FOLLOWER, leader_epoch=leader_epoch)
    side.said.pop()
    return side.isr(topic) == [LEADER, FOLLOWER]


def refuse(side: Side, topic: str) -> None:
    """What a leader refuses of those who say that they are replicas, and of others."""
    epoch = side.brokers.epochs[FOLLOWER]
    for broker_epoch in (epoch - 1, epoch + 1, -1, 0):
        side.fetch(topic, 2, FOLLOWER, broker_epoch=broker_epoch)
    for version in (11, 12, 14, 15, 17):
        side.fetch(topic, 1, FOLLOWER, version=version)
        side.fetch(topic, 1, STRANGER, version=version, broker_epoch=5)
    for reader in (CONSUMER, FOLLOWER, STRANGER):
        for leader_epoch in (-1, 1):
            side.fetch(topic, 1, reader, leader_epoch=leader_epoch)
        for offset in (3, 100):
            side.fetch(topic, offset, reader)
        for last_epoch in (0, 3):
            side.fetch(topic, 2, reader, last_epoch=last_epoch)
    side.fetch(topic, 2, FOLLOWER)


def elect_uncleanly(side: Side) -> None:
    """A replica that has missed records leads, and says so no more once another has joined it."""
    brokers, topic = side.brokers, "unclean"
    brokers.register(FOLLOWER)
    brokers.beat(FOLLOWER)
    brokers.create_topic(topic, [FOLLOWER, LEADER])
    setting = AlterableConfig(name="unclean.leader.election.enable", value="true")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[setting])
    brokers.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    epoch = brokers.epochs[FOLLOWER]
    alone = PartitionData(
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=[BrokerState(broker_id=FOLLOWER, broker_epoch=epoch)],
    )
    changed = TopicData(topic_id=brokers.topic_ids[topic], partitions=[alone])
    request = AlterPartitionRequest(broker_id=FOLLOWER, broker_epoch=epoch, topics=[changed])
    brokers.ask(request, 3)
    brokers.beat(FOLLOWER, fence=True)
    side.wait_for_isr(topic, LEADER)
    wait_until(lambda: side.produce(topic, 1) == 0, 180, f"{topic} is led")
    del side.said[:-1]
    side.fetch(topic, 0, leader_epoch=1)
    brokers.beat(FOLLOWER)
    side.fetch(topic, 0, FOLLOWER)
    side.fetch(topic, 0, FOLLOWER, leader_epoch=1)
    wait_until(partial(_joins, side, topic, 1, 1), 120, f"{topic} {side.isr(topic)}")
    side.fetch(topic, 0, leader_epoch=1)
    # In no order: Kafka's other records fall between them where ours do not.
    changes = sorted(line for line in brokers.records() if line.startswith("PartitionChange"))
    assert any("'isr': [11], 'leader': 11" in each for each in changes)
    assert any("'leader_recovery_state': 0" in each for each in changes)
    side.said += changes


@pytest.mark.parametrize("story", [play, elect_uncleanly], ids=["in sync", "unclean"])
def test_leaders_answer_a_follower_alike(tmp_path: Path, story: Callable[[Side], None]) -> None:
    said: list[list[object]] = []
    for kind in ("kafka", "tierlog"):
        with Side(tmp_path / kind, kind) as side:
            story(side)
            said.append(side.said)
    kafka, ours = said
    different = [pair for pair in zip(kafka, ours, strict=True) if pair[0] != pair[1]]
    assert not different, "".join(f"\nKafka {their}\nours  {our}" for their, our in different)

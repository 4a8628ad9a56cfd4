"""The same life of a consumer group leaves the same records in `__consumer_offsets` as in Kafka.

Read with Kafka's dump tool. Where Kafka's order is that of its hash maps, as among the targets that
one assignment gives, the order does not count.
"""

import re
from collections.abc import Iterator

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.messages.delete_groups import DeleteGroupsRequest
from tierlog.coordinator.consumer.metadata_hash import MetadataHashes
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)

from ..broker_process import BrokerProcess
from .consumer_members import ConsumerMembers, assigned
from .dumped_groups import comparable, dumped
from .twins import TOPIC, Side, Twins, prepare, topic_ids

pytestmark = pytest.mark.requires("java", "mvn")

SETTINGS = {
    "node.id": "1",
    "broker.rack": "shelf",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
HASH = re.compile(r'"metadataHash":(-?\d+)')


class Lives:
    """What both wrote of the same story, and the topic's id in Kafka."""

    def __init__(self, kafka: list[str], ours: list[str], sides: tuple[Side, Side]) -> None:
        self.kafka = kafka
        self.ours = ours
        self.sides = sides


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    directory = tmp_path_factory.mktemp("ours")
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS, heap="512m")
    with kafka, BrokerProcess.on(directory, SETTINGS) as ours:
        for port in (kafka.port, ours.port):
            prepare(port)
        twins = Twins(kafka.port, ours.port)
        topic_ids(twins)
        live(twins)
        twins.close()
        yield Lives(dumped(kafka.directory / "logs"), dumped(directory / "data"), twins.sides)


def live(twins: Twins) -> None:
    """Members come, share, change their minds, and go; the group is deleted."""
    story = ConsumerMembers(twins, "short")
    story.join("anna", rack_id="shelf")
    story.join("bert", instance_id="one", server_assignor="range")
    kept = assigned(story.beat("anna", owned=[0, 1]))
    story.beat("anna", owned=kept)
    story.beat("bert", instance_id="one", owned=[])
    story.beat("bert", instance_id="one", subscribed_topic_names=["nowhere", TOPIC])
    story.beat("bert", -2, instance_id="one")
    story.join("cleo", instance_id="one")
    story.beat("anna", owned=kept)
    story.beat("anna", -1)
    story.beat("cleo", instance_id="one")
    story.beat("cleo", -1, instance_id="one")
    twins.same(lambda _: DeleteGroupsRequest(groups_names=["short"]), 2)
    ConsumerMembers(twins, "pattern").join(
        "dora", subscribed_topic_names=None, subscribed_topic_regex="nothing.*"
    )


def test_the_same_records_are_written(lives: Lives) -> None:
    assert comparable(lives.ours) == comparable(lives.kafka)
    assert len(lives.ours) >= 30


def test_the_hash_of_the_topics_is_the_number_that_kafka_writes(lives: Lives) -> None:
    written = {int(each) for line in lives.kafka for each in HASH.findall(line)}
    topic_id = lives.sides[0].topic_id
    partition = PartitionImage((1,), (1,), 1, 0, 0)
    topic = TopicImage(TOPIC, topic_id, {0: partition, 1: partition})
    broker = BrokerImage(1, 0, ZERO_UUID, {}, "shelf", False)
    image = ClusterImage(
        "", brokers={1: broker}, topics_by_name={TOPIC: topic}, topics_by_id={topic_id: topic}
    )
    assert written == {MetadataHashes().group_hash([TOPIC, "nowhere"], image)}

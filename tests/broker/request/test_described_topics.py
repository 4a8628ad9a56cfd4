"""What Metadata says of a topic is made anew exactly when something about it has changed."""

from dataclasses import replace

from tierlog.broker.request.described_topics import DescribedTopics, describe_topic
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.messages.metadata import MetadataResponseTopic
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
BROKER = BrokerImage(1, 5, ZERO_UUID, {INSIDE: Endpoint(INSIDE, "b", 9092, 0)}, None, fenced=False)


def topic(name: str, number: int, partitions: int = 3) -> TopicImage:
    one = PartitionImage((1,), (1,), 1, 0, 0)
    return TopicImage(name, Uuid(bytes([number] * 16)), dict.fromkeys(range(partitions), one))


def image_of(*topics: TopicImage) -> ClusterImage:
    return ClusterImage(
        "cluster",
        brokers={1: BROKER},
        topics_by_name={each.name: each for each in topics},
        topics_by_id={each.topic_id: each for each in topics},
    )


def codes(answer: MetadataResponseTopic) -> set[int]:
    return {partition.error_code for partition in answer.partitions}


def test_what_has_not_changed_is_not_described_again() -> None:
    orders, described = topic("orders", 1), DescribedTopics()
    image = image_of(orders)
    first = described.describe(image, INSIDE, orders)
    later = replace(image, offset=7, next_producer_id=1_000)
    assert described.describe(later, INSIDE, orders) is first
    assert first == describe_topic(image, INSIDE, orders)


def test_each_listener_has_a_description_of_its_own() -> None:
    orders, described = topic("orders", 1), DescribedTopics()
    image = image_of(orders)
    assert codes(described.describe(image, INSIDE, orders)) == {ErrorCode.NONE}
    assert codes(described.describe(image, OUTSIDE, orders)) == {ErrorCode.LISTENER_NOT_FOUND}
    assert codes(described.describe(image, INSIDE, orders)) == {ErrorCode.NONE}


def test_a_topic_that_grows_and_a_broker_that_goes_are_seen() -> None:
    orders, others, described = topic("orders", 1), topic("others", 2), DescribedTopics()
    image = image_of(orders, others)
    kept = described.describe(image, INSIDE, others)
    described.describe(image, INSIDE, orders)
    grown = topic("orders", 1, partitions=4)
    image = replace(
        image,
        topics_by_name={"orders": grown, "others": others},
        topics_by_id={grown.topic_id: grown, others.topic_id: others},
    )
    assert len(described.describe(image, INSIDE, grown).partitions) == 4
    assert described.describe(image, INSIDE, others) is kept
    image = replace(image, brokers={1: replace(BROKER, fenced=True)})
    assert codes(described.describe(image, INSIDE, others)) == {ErrorCode.LEADER_NOT_AVAILABLE}


def test_a_topic_that_is_gone_is_forgotten() -> None:
    described = DescribedTopics()
    topics = [topic(f"t{number}", number) for number in range(20)]
    for each in topics:
        described.describe(image_of(*topics), INSIDE, each)
        described.describe(image_of(*topics), OUTSIDE, each)
    assert len(described) == 40
    described.describe(image_of(topics[0]), INSIDE, topics[0])
    assert len(described) == 2

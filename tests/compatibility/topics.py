"""The topics that the groups of the tests read, and what is written to them."""

from collections.abc import Iterable

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 6
TOPIC = "topic"


def create_topic(bootstrap: str, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    for created in admin.create_topics([asked]).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # published without types
        created.result(30)


def produce(
    bootstrap: str, per_partition: int, topic: str = TOPIC, partitions: int = PARTITIONS
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(per_partition):
        for partition in range(partitions):
            producer.produce(topic, f"{number}", partition=partition)
    assert producer.flush(60) == 0


def partitions_of(topic: str, partitions: int = PARTITIONS) -> set[str]:
    """The names of a topic's partitions."""
    return {f"{topic}-{partition}" for partition in range(partitions)}


def records(partitions: Iterable[str], offsets: range) -> set[tuple[str, int]]:
    """The places of records: those offsets in each of the partitions."""
    return {(partition, offset) for partition in partitions for offset in offsets}

"""Requests about topics and records that several comparisons with Kafka are made of."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import RawClient
from .side_by_side import SideBySide, both_brokers

WORDS = frozenset({"error_message", "batch_index_error_message"})
"""Ours are our own."""


@contextmanager
def both_with_known_topic(directory: Path) -> Generator[tuple[int, int], None, None]:
    """Apache Kafka and ours with a topic "known" of two partitions; their ports."""
    with both_brokers(directory) as ports:
        with SideBySide(*ports) as both:
            both.same(creation("known", 2), 7)
            for client in (both.kafka, both.ours):
                wait_for_leader(client, "known")
        yield ports


def wait_for_leader(client: RawClient, topic: str) -> None:
    """Kafka answers a creation before its broker has heard of it, and before it leads."""
    asked = [ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=-1)])]
    for _ in range(1_000):
        request = ListOffsetsRequest(replica_id=-1, topics=asked)
        found = client.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0]
        if not found.error_code:
            return
    raise AssertionError(f"{topic} never got a leader")


def creation(
    name: str, partitions: int = 1, factor: int = 1, **configs: str | None
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=10_000,
    )


def batch(count: int = 1, value: bytes = b"value", timestamp: int = 1_700_000_000_000) -> bytearray:
    return build_batch(
        [Record(offset, timestamp + offset, b"key", value, ()) for offset in range(count)]
    )


def production(
    records: bytearray | None,
    *,
    topic: str = "known",
    partition: int = 0,
    acks: int = 1,
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)

"""Which producer wrote a record: the id and the epoch of its batch, as its leader has it.

A record that is there twice is the broker's fault only if both batches are of one producer epoch:
sequence numbers restart in the next, and no broker can know the batch again. librdkafka begins a
new epoch over a batch whose answer it does not have: the batch was replicated, but its leader died;
the next leader refuses it and the batch behind it with NOT_ENOUGH_REPLICAS, and the third, once the
replicas are in sync, with OUT_OF_ORDER_SEQUENCE_NUMBER. All three are then sent in a new epoch
(`rd_kafka_handle_idempotent_Produce_error`), and the first is there twice. Kafka's Java producer
keeps its epoch in that case.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, cast

from ....clients.errors import KafkaError
from ....clients.network.metadata import Metadata
from ....clients.network.network import NetworkClient
from ....clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ....clients.record.batch import batches
from ....clients.runtime.environment import SystemEnvironment
from ....clients.topic_partition import TopicPartition
from ..checker.acknowledged import Twice, Violation, Wrong
from ..measurement_error import MeasurementError

_FETCH_BYTES = 1 << 20


class BatchProducer(NamedTuple):
    """Who wrote a batch."""

    producer_id: int
    epoch: int


def blame_clients(bootstrap: str, topic: str, wrong: Sequence[Violation]) -> list[Violation]:
    """The same violations; those that a client's new epoch explains are said to be the client's.

    Raises MeasurementError if the batches cannot be read.
    """
    doubled = [violation.twice for violation in wrong if violation.twice is not None]
    if not doubled:
        return list(wrong)
    try:
        written = asyncio.run(_read_producers(bootstrap, topic, _places(doubled)))
    except KafkaError as error:
        raise MeasurementError(f"The batches of {topic} cannot be read: {error}") from None
    return [_blamed(violation, written) for violation in wrong]


def _places(doubled: Iterable[Twice]) -> set[tuple[int, int]]:
    return {(each.partition, at) for each in doubled for at in (each.offset, each.again)}


def _blamed(violation: Violation, written: dict[tuple[int, int], BatchProducer]) -> Violation:
    if violation.twice is None:
        return violation
    partition, offset, again = violation.twice
    first, second = written.get((partition, offset)), written.get((partition, again))
    if first is None or second is None:
        return violation
    text = (
        f"{violation.text} Producer {first.producer_id} wrote it in its epoch {first.epoch}, "
        f"producer {second.producer_id} in its epoch {second.epoch}."
    )
    is_new_epoch = first.producer_id == second.producer_id and first.epoch < second.epoch
    return Violation(Wrong.DOUBLED_BY_CLIENT if is_new_epoch else violation.wrong, text)


async def _read_producers(
    bootstrap: str, topic: str, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], BatchProducer]:
    environment = SystemEnvironment()
    network = NetworkClient(bootstrap, environment)
    try:
        metadata = Metadata(network, environment)
        await metadata.ensure([topic])
        return {
            (partition, offset): await _read_producer(
                network, metadata, TopicPartition(topic, partition), offset
            )
            for partition, offset in sorted(places)
        }
    finally:
        await network.close()


async def _read_producer(
    network: NetworkClient, metadata: Metadata, partition: TopicPartition, offset: int
) -> BatchProducer:
    leader = metadata.leader(partition)
    if leader is None:
        raise MeasurementError(f"No leader of {partition} is known.")
    place = FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
    )
    named = FetchTopic(
        topic=partition.topic, topic_id=metadata.topic_id(partition.topic), partitions=[place]
    )
    answer = await network.request(
        leader.leader_id, FetchRequest(max_wait_ms=0, min_bytes=1, topics=[named]), FetchResponse
    )
    records = [data.records for response in answer.responses for data in response.partitions]
    for batch in batches(memoryview(cast("bytes", (records and records[0]) or b""))):
        if batch.base_offset <= offset < batch.next_offset:
            return BatchProducer(batch.producer_id, batch.producer_epoch)
    raise MeasurementError(f"{partition} has no batch with offset {offset}.")

"""Decides whether a batch may open a transaction in a partition (KIP-890).

A late batch could open a hanging transaction, which no marker would ever end. So the first batch of
a transaction in a partition is appended only after a call to the coordinator: from Produce 12 and
TxnOffsetCommit 5 on, the coordinator adds the partition to the transaction; older clients have
added the partition themselves, and the coordinator verifies that. While the log has an open
transaction of the same producer and epoch, the coordinator is not called.

If the coordinator answers at once, as it does when it is on this broker and its log has one
replica, the append follows in the same call, and nothing can happen in between. Otherwise only the
epoch protects against late batches, which is enough from Produce 12 on, because each transaction
has its own epoch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.topic_partition import TopicPartition
from ...replication.partition.append_data import AppendEntry
from ..coordinator.transaction.transaction_metadata import EPOCH_BUMP_VERSION
from ..coordinator.transaction.transaction_shard import Addition
from .context import BrokerContext


class Refusal(NamedTuple):
    """The reason why a partition may not be appended to."""

    code: ErrorCode
    message: str | None = None
    # -1 unless the log itself refused the batch.
    log_start_offset: int = -1


class Support(NamedTuple):
    """What a transactional client supports, according to the version of its request."""

    adds_partitions: bool
    knows_abortable: bool


Refusals: TypeAlias = Mapping[TopicPartition, Refusal]

_NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class TransactionProducer(NamedTuple):
    """A producer and its transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def refusals(
    broker: BrokerContext, transactional_id: str, entries: Sequence[AppendEntry], support: Support
) -> Refusals | asyncio.Future[Refusals]:
    """The partitions whose batches may not be appended. Raises KafkaError to refuse all."""
    batches = [(entry.topic_partition, RecordBatch(entry.records)) for entry in entries]
    producers = {(batch.producer_id, batch.producer_epoch) for _, batch in batches}
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    refused: dict[TopicPartition, Refusal] = {}
    opening: list[TopicPartition] = []
    for partition, batch in batches:
        producer = TransactionProducer(transactional_id, batch.producer_id, batch.producer_epoch)
        if not opens_transaction(broker, partition, producer):
            continue
        opening.append(partition)
        if support.adds_partitions:
            refusal = _sequence_refusal(broker, partition, batch)
            if refusal is not None:
                refused[partition] = refusal
    if not opening:
        return refused
    producer_id, epoch = next(iter(producers))
    producer = TransactionProducer(transactional_id, producer_id, epoch)
    answer = join_transaction(broker, producer, opening, support)
    if not isinstance(answer, asyncio.Future):
        return {**refused, **answer}
    later: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()

    def done(joined: asyncio.Future[Refusals]) -> None:
        if not later.done():
            later.set_result({**refused, **joined.result()})

    answer.add_done_callback(done)
    return later


def join_transaction(
    broker: BrokerContext,
    producer: TransactionProducer,
    partitions: Sequence[TopicPartition],
    support: Support,
) -> Refusals | asyncio.Future[Refusals]:
    """Add the partitions to the transaction, or verify them; returns those refused."""
    coordinator = broker.transaction_coordinator
    if not support.adds_partitions:
        if not coordinator.config.partition_verification_enable:
            return {}
        verified = coordinator.verify_partitions(Addition(*producer, frozenset(partitions)))
        return _refused(verified, support)
    answer = coordinator.add_partitions(
        Addition(*producer, frozenset(partitions), EPOCH_BUMP_VERSION)
    )
    if not isinstance(answer, asyncio.Future):
        return _refused(dict.fromkeys(partitions, answer), support)
    later: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()

    def done(added: asyncio.Future[ErrorCode]) -> None:
        if not later.done():
            later.set_result(_refused(dict.fromkeys(partitions, added.result()), support))

    answer.add_done_callback(done)
    return later


def _refused(errors: Mapping[TopicPartition, ErrorCode], support: Support) -> Refusals:
    return {
        partition: refusal_for_client(error, support)
        for partition, error in errors.items()
        if error
    }


def refusal_for_client(error: ErrorCode, support: Support) -> Refusal:
    """Convert the coordinator's error to one that a producer of this version handles correctly.

    The coordinator's retriable errors become NOT_ENOUGH_REPLICAS, on which producers retry the
    batch, except that newer producers get CONCURRENT_TRANSACTIONS unchanged.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and not support.knows_abortable:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    is_own_answer = error is ErrorCode.CONCURRENT_TRANSACTIONS and support.adds_partitions
    if error in _NOT_NOW and not is_own_answer:
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}",
        )
    return Refusal(error)


def opens_transaction(
    broker: BrokerContext, partition: TopicPartition, producer: TransactionProducer
) -> bool:
    """Whether the producer's next batch would be the first of its transaction in the partition."""
    replica = broker.replica_manager.partitions.get(partition)
    entry = None if replica is None else replica.log.producers.get(producer.producer_id)
    return (
        entry is None
        or entry.current_txn_first_offset is None
        or entry.producer_epoch != producer.producer_epoch
    )


def _sequence_refusal(
    broker: BrokerContext, partition: TopicPartition, batch: RecordBatch
) -> Refusal | None:
    """Why the batch cannot start a transaction in the log (see ProducerEntry); None if it can."""
    replica = broker.replica_manager.partitions.get(partition)
    if replica is None:
        return None
    try:
        replica.log.producers.get_or_new(batch.producer_id).check_transaction_start(batch)
    except KafkaError as error:
        return Refusal(error.code, error.message, replica.log.log_start_offset)
    return None

"""Decides whether a batch may open a transaction in a partition (KIP-890).

A late batch could open a hanging transaction, which no marker would ever end. So the first batch of
a transaction in a partition is appended only after a call to the coordinator: from Produce 12 and
TxnOffsetCommit 5 on, the coordinator adds the partition to the transaction; older clients have
added the partition themselves, and the coordinator verifies that. While the log has an open
transaction of the same producer and epoch, the coordinator is not called.

The coordinator may be on another broker. If it answers at once, as it does when it is on this
broker and its log has one replica, the append follows in the same call, and nothing can happen in
between. Otherwise each attempt has a guard in the partition's producer state. A marker removes it:
so an answer that was overtaken by an abort does not open a transaction (KAFKA-14884). The guards
are looked at in the same call as the append.

While the producer's previous transaction is ending, a batch that adds its partition is tried again
(`addition_retry.py`).
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.topic_partition import TopicPartition
from ...coordinator.result_or_future import settled_by
from ...coordinator.transaction.addition_retry import AdditionRetry, with_retries
from ...coordinator.transaction.transaction_metadata import EPOCH_BUMP_VERSION
from ...coordinator.transaction.transaction_shard import Addition
from ...replication.partition.append_data import AppendEntry
from ...storage.log.unified_log import UnifiedLog
from .context import BrokerContext

if TYPE_CHECKING:
    from ...storage.producer.producer_state import AppendGuard, ProducerStateManager


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
        ErrorCode.NETWORK_EXCEPTION,
    }
)


_OVERTAKEN = Refusal(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
_ASK_AGAIN = Refusal(
    ErrorCode.CONCURRENT_TRANSACTIONS, "A transaction of the producer has ended meanwhile"
)
"""Where a batch adds its partition to the transaction, the marker may be that of the transaction
before, and INVALID_TXN_STATE would end the producer for nothing. If it is that of the batch's own,
the next attempt finds the epoch too old."""


class TransactionProducer(NamedTuple):
    """A producer and its transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Attempt:
    """Waits for the coordinator's answer, with a guard in each partition."""

    def __init__(
        self,
        broker: BrokerContext,
        producer: TransactionProducer,
        partitions: Iterable[TopicPartition],
        opening: Iterable[TopicPartition],
        overtaken: Refusal = _OVERTAKEN,
    ) -> None:
        """`partitions` are all that are to be appended to; the producer is new in `opening`.

        `overtaken` is for those to which a marker has come before the answer.
        """
        self._broker = broker
        self._producer = producer
        self._partitions = tuple(partitions)
        self._overtaken = overtaken
        self._guards: dict[TopicPartition, tuple[ProducerStateManager, AppendGuard]] = {}
        for partition in opening:
            log = led_log(broker, partition)
            if log is not None:
                producers = log.producers
                self._guards[partition] = producers, producers.guards.set(producer.producer_id)

    async def refusals(self, answer: asyncio.Future[Refusals]) -> Refusals:
        """The partitions that must not be appended to. Append to the others before a pause."""
        try:
            refused = dict(await answer)
            for partition in self._partitions:
                if partition not in refused and self._is_overtaken(partition):
                    refused[partition] = self._overtaken
            return refused
        finally:
            for producers, guard in self._guards.values():
                producers.guards.release(self._producer.producer_id, guard)

    def _is_overtaken(self, partition: TopicPartition) -> bool:
        log = led_log(self._broker, partition)
        if log is None:
            return False  # The append is refused.
        producer_id, epoch = self._producer.producer_id, self._producer.producer_epoch
        entry = log.producers.get(producer_id)
        # The log itself refuses an old epoch, and that is the error which clients can handle.
        is_fenced = entry is not None and entry.producer_epoch > epoch
        if is_fenced or not opens_transaction(self._broker, partition, self._producer):
            return False
        guarded = self._guards.get(partition)
        if guarded is None:
            return True
        producers, guard = guarded
        return producers is not log.producers or not producers.guards.holds(producer_id, guard)


def refusals(
    broker: BrokerContext, transactional_id: str, entries: Sequence[AppendEntry], support: Support
) -> Refusals | Coroutine[object, object, Refusals]:
    """The partitions whose batches may not be appended. Raises KafkaError to refuse all.

    Await a coroutine, and append in the same call. It rereads the entries' records, so they must
    last as long as it does.
    """
    attempt = partial(_attempt, broker, transactional_id, entries, support)
    if not support.adds_partitions:
        return attempt()
    config = broker.transaction_coordinator.config
    max_ms = min(config.add_retry_max_ms, config.request_timeout_ms)
    return with_retries(attempt, _errors, AdditionRetry(config.add_retry_backoff_ms, max_ms))


def _errors(refused: Refusals) -> list[ErrorCode]:
    return [refusal.code for refusal in refused.values()]


def _attempt(
    broker: BrokerContext, transactional_id: str, entries: Sequence[AppendEntry], support: Support
) -> Refusals | Coroutine[object, object, Refusals]:
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
        stale = _epoch_refusal(broker, partition, producer)
        if stale is not None:
            refused[partition] = stale
            continue
        if not opens_transaction(broker, partition, producer):
            continue
        opening.append(partition)
        if support.adds_partitions:
            refusal = _sequence_refusal(broker, partition, batch)
            if refusal is not None:
                refused[partition] = refusal
    # Only the leader asks; the append refuses the others.
    opening = [each for each in opening if led_log(broker, each) is not None]
    if not opening:
        return refused
    producer_id, epoch = next(iter(producers))
    producer = TransactionProducer(transactional_id, producer_id, epoch)
    answer = join_transaction(broker, producer, opening, support)
    if not isinstance(answer, asyncio.Future):
        return {**refused, **answer}
    overtaken = _ASK_AGAIN if support.adds_partitions else _OVERTAKEN
    attempt = Attempt(broker, producer, (each for each, _ in batches), opening, overtaken)
    return _with_refused(refused, attempt.refusals(answer))


async def _with_refused(
    refused: Refusals, joining: Coroutine[object, object, Refusals]
) -> Refusals:
    return {**refused, **await joining}


def join_transaction(
    broker: BrokerContext,
    producer: TransactionProducer,
    partitions: Sequence[TopicPartition],
    support: Support,
) -> Refusals | asyncio.Future[Refusals]:
    """Add the partitions to the transaction, or verify them; returns those refused.

    The answer of a future is put later than this call returns: the guards can be set after it.
    """
    coordinator = broker.transaction_coordinator
    if not support.adds_partitions and not coordinator.config.partition_verification_enable:
        return {}
    addition = Addition(*producer, frozenset(partitions))
    elsewhere = broker.transactions.coordinator_elsewhere(producer.transactional_id)
    links = broker.transactions.links
    if elsewhere is not None and links is not None:
        is_verification = not support.adds_partitions
        if not is_verification:
            addition = addition._replace(client_version=EPOCH_BUMP_VERSION)
        joined = links.verification.join(elsewhere, addition, verify_only=is_verification)
        return settled_by(joined, lambda done: _refusals(done.result(), support))
    if not support.adds_partitions:
        return _refusals(coordinator.verify_partitions(addition), support)
    answer = coordinator.add_partitions(addition._replace(client_version=EPOCH_BUMP_VERSION))
    if not isinstance(answer, asyncio.Future):
        return _refusals(dict.fromkeys(partitions, answer), support)
    return settled_by(
        answer, lambda done: _refusals(dict.fromkeys(partitions, done.result()), support)
    )


def _refusals(errors: Mapping[TopicPartition, ErrorCode], support: Support) -> Refusals:
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


def led_log(broker: BrokerContext, partition: TopicPartition) -> UnifiedLog | None:
    """The log of a partition that this broker leads; None of any other."""
    replica = broker.replica_manager.partitions.get(partition)
    try:
        return None if replica is None else replica.leader_log()
    except KafkaError:
        return None


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


def _epoch_refusal(
    broker: BrokerContext, partition: TopicPartition, producer: TransactionProducer
) -> Refusal | None:
    """Why the batch is older than the log knows; None if it is not.

    The coordinator is not asked: it may know the transactional id by another producer id by now.
    """
    log = led_log(broker, partition)
    entry = None if log is None else log.producers.get(producer.producer_id)
    if entry is None or entry.producer_epoch <= producer.producer_epoch:
        return None
    return Refusal(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {producer.producer_id} is {producer.producer_epoch}, "
        f"which is smaller than the last seen epoch {entry.producer_epoch}",
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

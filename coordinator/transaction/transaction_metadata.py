"""The metadata of one transactional id, and its transitions.

Immutable: a transition returns a new value, which takes effect once it is in `__transaction_state`.
All arithmetic of producer ids and epochs is here (Kafka's TransactionMetadata):

- a producer that initializes its id gets the next epoch, which fences the previous producer;
- with KIP-890 the decision of a transaction also bumps the epoch, so that none of its late writes
  or requests can count towards the next transaction;
- a producer's last epoch is 32766, which leaves one epoch to fence it with. After that, the
  producer gets a new producer id with epoch 0.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ...clients.topic_partition import TopicPartition
from .transaction_state import NEXT_STATES, TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
EPOCH_MAX = 32_767
LAST_EPOCH_OF_A_PRODUCER = EPOCH_MAX - 1
EPOCH_BUMP_VERSION = 2
"""From this `transaction.version` on, every transaction has its own epoch."""


class Transaction(NamedTuple):
    """The state of a transactional id in one record. Times in milliseconds since the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    # When the first partition was added; -1 outside a transaction.
    start_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    # The producer id for the next transaction, when the current one's epochs are used up.
    next_producer_id: int = NO_PRODUCER_ID
    # Not in the log; identifies a retried InitProducerId.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether ending this transaction bumps the epoch."""
        return self.client_version >= EPOCH_BUMP_VERSION

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_OF_A_PRODUCER

    def apply(self, state: TransactionState, now_ms: int) -> "Transaction":
        """Change the state; a transition missing from `NEXT_STATES` is a programming error."""
        assert state in NEXT_STATES[self.state], f"{self.state} -> {state}"
        return self._replace(
            state=state, last_update_ms=now_ms, previous_producer_id=self.producer_id
        )

    def initialized(self, timeout_ms: int, now_ms: int) -> "Transaction":
        """Change to Empty for a producer that initializes the id; the caller sets the epoch."""
        return self.apply(TransactionState.EMPTY, now_ms)._replace(
            timeout_ms=timeout_ms, partitions=frozenset(), start_ms=-1
        )

    def with_partitions(
        self, partitions: Iterable[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        """Add partitions; the first ones begin the transaction."""
        is_first = self.state is not TransactionState.ONGOING
        return self.apply(TransactionState.ONGOING, now_ms)._replace(
            partitions=self.partitions.union(partitions),
            start_ms=now_ms if is_first else self.start_ms,
            client_version=client_version,
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int
    ) -> "Transaction":
        """Decide the transaction; from version 2 on, this also bumps the epoch."""
        is_empty = self.state is not TransactionState.ONGOING
        decided = self.apply(state, now_ms)._replace(
            next_producer_id=next_producer_id,
            start_ms=now_ms if is_empty else self.start_ms,
            client_version=client_version,
        )
        if client_version < EPOCH_BUMP_VERSION:
            return decided
        return decided._replace(
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=self.producer_epoch,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Complete the transaction: every partition has its marker."""
        state = (
            TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )
        done = self.apply(state, now_ms)._replace(
            partitions=frozenset(), next_producer_id=NO_PRODUCER_ID
        )
        if self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID:
            return done._replace(producer_id=self.next_producer_id, producer_epoch=0)
        return done


def new_transaction(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """A new transactional id: its producer has no epoch yet."""
    return Transaction(
        transactional_id,
        producer_id,
        NO_PRODUCER_EPOCH,
        timeout_ms,
        TransactionState.EMPTY,
        frozenset(),
        now_ms,
    )

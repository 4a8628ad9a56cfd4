"""The transactional ids of one partition of `__transaction_state`.

Sans-IO: a request returns its answer and the state to write before answering. An id has one
transition in progress at a time; other requests meanwhile get CONCURRENT_TRANSACTIONS. A transition
takes effect once it is in the log (`written`). After a decision, markers are sent until every
partition has one, across leader changes and broker restarts: `resume` continues from the log.
Invariant: in every interleaving, all partitions of a transaction get the same marker, and no epoch
is reused.

The producer id and epoch of a request are checked here, before the reaction is looked up (Kafka's
TransactionCoordinator, TransactionStateManager).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.record.batch import Record, RecordBatch
from ...clients.topic_partition import TopicPartition
from ..led_shards import CoordinatorShard
from .transaction_metadata import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    LAST_EPOCH_OF_A_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    new_transaction,
)
from .transaction_records import read_transaction, read_transactional_id
from .transaction_state import REACTIONS, TransactionEvent, TransactionReaction, TransactionState


class Initialization(NamedTuple):
    """An InitProducerId with a transactional id.

    `identity` is the producer id and epoch in the request, if any.
    """

    transactional_id: str
    timeout_ms: int
    identity: tuple[int, int] | None


class Addition(NamedTuple):
    """Partitions of one transaction, to be added or verified."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class Ending(NamedTuple):
    """An EndTxn. From `client_version` 2 on, its epoch identifies the transaction to end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0


class Transition(NamedTuple):
    """The error to answer with, and the state to write before answering, if any."""

    error: ErrorCode
    target: Transaction | None = None


class SendMarkers(NamedTuple):
    """Send markers to the partitions of a decided transaction."""

    transaction: Transaction


TakeProducerId = Callable[[], int | None]
"""Returns an unused producer id, or None: retry once a new block of ids has been allocated."""

_FORGETTABLE = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
_DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})

_REFUSALS = {
    TransactionReaction.REFUSE_CONCURRENT: ErrorCode.CONCURRENT_TRANSACTIONS,
    TransactionReaction.REFUSE_STATE: ErrorCode.INVALID_TXN_STATE,
    TransactionReaction.ANSWER_DONE: ErrorCode.NONE,
}
_DONE = Transition(ErrorCode.NONE)
_FENCED = Transition(ErrorCode.PRODUCER_FENCED)
_CONCURRENT = Transition(ErrorCode.CONCURRENT_TRANSACTIONS)
_UNKNOWN = Transition(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class _Entry:
    __slots__ = ("current", "has_failed_fence", "pending")

    def __init__(self, current: Transaction) -> None:
        self.current = current
        # The state that is being written or is waiting for markers.
        self.pending: TransactionState | None = None
        # Whether a fence has bumped the epoch but isn't written, so that the next one need not
        # bump the epoch again.
        self.has_failed_fence = False

    def move(self, target: Transaction, error: ErrorCode = ErrorCode.NONE) -> Transition:
        self.pending = target.state
        return Transition(error, target)

    def react(self, event: TransactionEvent) -> TransactionReaction:
        is_dying = self.pending is TransactionState.DEAD
        return REACTIONS[TransactionState.DEAD if is_dying else self.current.state, event]


class TransactionShard(CoordinatorShard):
    """One partition's transactional ids."""

    def __init__(self, partition: int, leader_epoch: int) -> None:
        super().__init__(partition, leader_epoch)
        self.transaction_version = EPOCH_BUMP_VERSION
        """The finalized `transaction.version`; it applies to the coordinator's own aborts."""
        self._entries: dict[str, _Entry] = {}

    @property
    def transactions(self) -> Iterable[Transaction]:
        """Every id that is not about to be deleted."""
        return (
            entry.current
            for entry in self._entries.values()
            if entry.pending is not TransactionState.DEAD
        )

    def get(self, transactional_id: str) -> Transaction | None:
        """The state of the id in the log."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.current

    # Requests.

    def initialize(
        self, request: Initialization, take: TakeProducerId, now_ms: int
    ) -> Transition | None:
        """Choose the target's producer id and epoch. None if a producer id is needed first."""
        entry = self._entries.get(request.transactional_id)
        if entry is None:
            producer_id = take()
            if producer_id is None:
                return None
            transactional_id, timeout_ms, _ = request
            entry = _Entry(new_transaction(transactional_id, producer_id, timeout_ms, now_ms))
            self._entries[transactional_id] = entry
        if entry.pending is not None:
            return _CONCURRENT
        current = entry.current
        if request.identity is not None and not _may_go_on(current, *request.identity):
            return _FENCED
        match entry.react(TransactionEvent.INITIALIZE):
            case TransactionReaction.NEXT_EPOCH:
                return self._next_epoch(entry, request, take, now_ms)
            case TransactionReaction.FENCE_AND_ABORT:
                return self._fence(entry, ErrorCode.CONCURRENT_TRANSACTIONS, take, now_ms)
            case refusal:
                return Transition(_REFUSALS[refusal])

    def _next_epoch(
        self, entry: _Entry, request: Initialization, take: TakeProducerId, now_ms: int
    ) -> Transition | None:
        current = entry.current
        epoch = None if request.identity is None else request.identity[1]
        target = current.initialized(request.timeout_ms, now_ms)
        is_retry = (
            epoch == current.last_producer_epoch != NO_PRODUCER_EPOCH
            and current.producer_epoch != EPOCH_MAX
        )
        if epoch not in (None, current.producer_epoch) and current.producer_epoch >= 0:
            # A retry after a lost answer. Another producer would have reset the last epoch.
            return entry.move(target) if is_retry else _FENCED
        last = NO_PRODUCER_EPOCH if epoch is None else current.producer_epoch
        if not current.is_epoch_exhausted:
            return entry.move(
                target._replace(producer_epoch=current.producer_epoch + 1, last_producer_epoch=last)
            )
        producer_id = take()
        if producer_id is None:
            return None
        return entry.move(
            target._replace(producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)
        )

    def add_partitions(self, request: Addition, now_ms: int) -> Transition:
        """Begin a transaction with the partitions, or add them to the one in progress."""
        entry = self._entries.get(request.transactional_id)
        if entry is None:
            return _UNKNOWN
        if entry.pending is not None:
            # Before id and epoch: EndTxn may have sent the producer its next ones already.
            return _CONCURRENT
        current = entry.current
        if current.producer_id != request.producer_id:
            return _UNKNOWN
        if current.producer_epoch != request.producer_epoch:
            return _FENCED
        reaction = entry.react(TransactionEvent.ADD_PARTITIONS)
        if reaction in _REFUSALS:
            return Transition(_REFUSALS[reaction])
        if reaction is TransactionReaction.ADD and request.partitions <= current.partitions:
            return _DONE
        target = current.with_partitions(request.partitions, request.client_version, now_ms)
        return entry.move(target)

    def verify_partitions(self, request: Addition) -> dict[TopicPartition, ErrorCode]:
        """Check each partition: TRANSACTION_ABORTABLE if it is not in the transaction."""
        entry = self._entries.get(request.transactional_id)
        error = ErrorCode.NONE
        if entry is None or entry.current.producer_id != request.producer_id:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        elif entry.current.producer_epoch != request.producer_epoch:
            error = ErrorCode.PRODUCER_FENCED
        else:
            reaction = entry.react(TransactionEvent.VERIFY_PARTITIONS)
            error = _REFUSALS.get(reaction, ErrorCode.NONE)
        if error or entry is None:
            return dict.fromkeys(request.partitions, error)
        added = entry.current.partitions
        absent = ErrorCode.TRANSACTION_ABORTABLE
        return {
            partition: ErrorCode.NONE if partition in added else absent
            for partition in request.partitions
        }

    def end(self, request: Ending, take: TakeProducerId, now_ms: int) -> Transition | None:
        """Commit or abort the transaction. None if a producer id is needed first."""
        entry = self._entries.get(request.transactional_id)
        if entry is None:
            return _UNKNOWN
        current = entry.current
        bumps = request.client_version >= EPOCH_BUMP_VERSION
        if bumps and entry.pending is not None:
            # Before id and epoch: the producer may be in its next epoch already, and a refusal of
            # either would be its end.
            return _CONCURRENT
        is_of_previous_id = bumps and _is_of_previous_id(current, request)
        if current.producer_id != request.producer_id and not is_of_previous_id:
            return _UNKNOWN
        is_again = bumps and _ends_again(current, request)
        if not is_again and request.producer_epoch != current.producer_epoch:
            return _FENCED
        if entry.pending is not None:
            return _CONCURRENT
        event = _ending_event(request.is_commit, bumps, is_again)
        reaction = entry.react(event)
        if reaction in _REFUSALS:
            return Transition(_REFUSALS[reaction])
        is_exhausted = bumps and current.is_epoch_exhausted
        next_id = take() if is_exhausted else NO_PRODUCER_ID
        if next_id is None:
            return None
        is_commit = reaction is TransactionReaction.PREPARE_COMMIT
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        version = request.client_version
        return entry.move(current.prepared(state, version, next_id, now_ms))

    def _fence(
        self, entry: _Entry, answer: ErrorCode, take: TakeProducerId, now_ms: int
    ) -> Transition | None:
        """Bump the epoch and abort: the producer's later requests are fenced."""
        current = entry.current
        state = TransactionState.PREPARE_ABORT
        if self.transaction_version >= EPOCH_BUMP_VERSION:
            # The decision itself bumps the epoch.
            next_id = take() if current.is_epoch_exhausted else NO_PRODUCER_ID
            if next_id is None:
                return None
            version = self.transaction_version
            return entry.move(current.prepared(state, version, next_id, now_ms), answer)
        epoch = current.producer_epoch
        if not entry.has_failed_fence and epoch < EPOCH_MAX:
            epoch += 1
        entry.current = current._replace(
            producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH
        )
        entry.has_failed_fence = True
        return entry.move(entry.current.prepared(state, 0, NO_PRODUCER_ID, now_ms), answer)

    # Timeouts and expiry.

    def timed_out(self, now_ms: int, take: TakeProducerId) -> list[Transaction]:
        """Transactions to abort because they exceeded their timeout."""

        def take_if_there() -> int:
            producer_id = take()
            # It may go without: then `EPOCH_MAX` fences the producer, which no producer ever gets.
            return NO_PRODUCER_ID if producer_id is None else producer_id

        targets: list[Transaction] = []
        for entry in self._entries.values():
            current = entry.current
            is_late = current.start_ms + current.timeout_ms < now_ms
            reaction = entry.react(TransactionEvent.TIME_OUT)
            if entry.pending is not None or not is_late or reaction is TransactionReaction.IGNORE:
                continue
            transition = self._fence(entry, ErrorCode.NONE, take_if_there, now_ms)
            assert transition is not None, "It has an id."
            assert transition.target is not None, "A fence is written."
            targets.append(transition.target)
        return targets

    def expired(self, unused_ms: int, now_ms: int) -> list[str]:
        """Ids unused for `unused_ms`, to be deleted with tombstones."""
        expired: list[str] = []
        for transactional_id, entry in self._entries.items():
            is_old = entry.current.last_update_ms <= now_ms - unused_ms
            reaction = entry.react(TransactionEvent.EXPIRE)
            if entry.pending is None and is_old and reaction is TransactionReaction.DELETE:
                entry.pending = TransactionState.DEAD
                expired.append(transactional_id)
        return expired

    def forget(self, transactional_ids: Iterable[str], error: ErrorCode) -> None:
        """Delete the ids once their tombstones are in the log; keep them if the write failed."""
        for transactional_id in transactional_ids:
            if error:
                self._entries[transactional_id].pending = None
            else:
                del self._entries[transactional_id]

    # The log, and the markers.

    def written(self, target: Transaction, error: ErrorCode, now_ms: int) -> list[SendMarkers]:
        """Apply a written transition, or drop it on an error. The caller retries a completion."""
        entry = self._entries[target.transactional_id]
        if error:
            if entry.current.state not in _DECIDED:
                entry.pending = None
            return []
        entry.current, entry.pending = target, None
        entry.has_failed_fence = False
        return self._on_marked(entry, now_ms)

    def _on_marked(self, entry: _Entry, now_ms: int) -> list[SendMarkers]:
        if entry.current.state not in _DECIDED:
            return []
        entry.pending = entry.current.completed(now_ms).state
        return [SendMarkers(entry.current)]

    def markers_written(
        self, transactional_id: str, partitions: Iterable[TopicPartition], now_ms: int
    ) -> Transaction | None:
        """Record that these partitions have their markers. Returns the target once all have."""
        entry = self._entries[transactional_id]
        entry.current = entry.current._replace(
            partitions=entry.current.partitions.difference(partitions)
        )
        if entry.current.partitions:
            return None
        assert entry.react(TransactionEvent.MARKERS_WRITTEN) in {
            TransactionReaction.COMPLETE_COMMIT,
            TransactionReaction.COMPLETE_ABORT,
        }
        return entry.current.completed(now_ms)

    def replay_marker(self, batch: RecordBatch) -> None:
        """Ignore the marker: this log has no transactional records."""

    def replay_record(self, batch: RecordBatch, record: Record) -> None:
        """Apply one record of the log. Raises KafkaError(CORRUPT_MESSAGE).

        An invalid record also drops the id's earlier state: acting on it could both commit and
        abort the same transaction.
        """
        key = record.key or b""
        transactional_id = read_transactional_id(key)
        if transactional_id is None:
            return
        self._entries.pop(transactional_id, None)
        entry = read_transaction(key, record.value)
        if entry is not None and entry.transaction is not None:
            self._entries[transactional_id] = _Entry(entry.transaction)

    def resume(self, now_ms: int) -> list[SendMarkers]:
        """Send the markers of decided transactions, once the log has been read.

        Future timestamps are set to now, or a transaction or an id might never time out.
        """
        for entry in self._entries.values():
            current = entry.current
            if max(current.start_ms, current.last_update_ms) > now_ms:
                entry.current = current._replace(
                    start_ms=min(current.start_ms, now_ms),
                    last_update_ms=min(current.last_update_ms, now_ms),
                )
        return [send for entry in self._entries.values() for send in self._on_marked(entry, now_ms)]


def _may_go_on(current: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the producer with this id may get the next epoch; the epoch is checked later.

    The previous id is accepted if its epochs were used up: the answer with the current id may have
    been lost.
    """
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == current.producer_id
        or (producer_id == current.previous_producer_id and epoch >= LAST_EPOCH_OF_A_PRODUCER)
    )


def _is_of_previous_id(current: Transaction, request: Ending) -> bool:
    """Whether it has the last epoch of the producer id before the current one."""
    return (
        current.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_EPOCH_OF_A_PRODUCER
        and current.producer_epoch == 0
    )


def _ends_again(current: Transaction, request: Ending) -> bool:
    """Whether the request ends the previous transaction, which is already decided.

    No producer gets `EPOCH_MAX`, which fences one in its last epoch.
    """
    is_bumped = (
        current.producer_id == request.producer_id
        and current.producer_epoch == request.producer_epoch + 1 < EPOCH_MAX
        and current.state in (_DECIDED | _FORGETTABLE) - {TransactionState.EMPTY}
    )
    is_rotated = _is_of_previous_id(current, request) and current.state in _FORGETTABLE - {
        TransactionState.EMPTY
    }
    return is_bumped or is_rotated


def _ending_event(is_commit: bool, bumps: bool, is_again: bool) -> TransactionEvent:
    if not bumps:
        return (
            TransactionEvent.COMMIT_UNVERSIONED if is_commit else TransactionEvent.ABORT_UNVERSIONED
        )
    if is_again:
        return TransactionEvent.COMMIT_AGAIN if is_commit else TransactionEvent.ABORT_AGAIN
    return TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT

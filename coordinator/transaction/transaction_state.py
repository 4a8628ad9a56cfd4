"""The states of a transactional id, its events, and the reaction to each event in each state.

A transactional id is Empty when a producer has initialized it but not written yet. Adding the first
partition begins a transaction (Ongoing). One record, PrepareCommit or PrepareAbort, decides it: the
decision is final, and markers are sent to every partition. When all are written, the state is
CompleteCommit or CompleteAbort, and the next transaction may begin. An unused id is deleted (Dead).

           ┌─> Ongoing ──commit──> PrepareCommit ──markers written──> CompleteCommit ─┐
    Empty ─┤      │                                                                   ├─> ...
           └──────┴─────abort────> PrepareAbort ───markers written──> CompleteAbort ──┘

Two tables define the state machine, as in Kafka's TransactionState and TransactionCoordinator:
`REACTIONS` has the reaction to every event in every state, `NEXT_STATES` the valid transitions.
With KIP-890 (EndTxn 5) the epoch of a request identifies its transaction: the current one, or the
previous one if its answer may have been lost. Older requests do not identify it, so a late request
applies to the current transaction.
"""

from enum import Enum


class TransactionState(Enum):
    """A transactional id's state. The value is the name that Kafka's tools print."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


class TransactionEvent(Enum):
    """An event of a transactional id. The producer id and epoch have already been checked."""

    INITIALIZE = "a producer asks for its id and epoch"
    ADD_PARTITIONS = "partitions are added"
    VERIFY_PARTITIONS = "a partition's leader asks whether it was added"
    COMMIT_UNVERSIONED = "a request from before KIP-890 commits"
    ABORT_UNVERSIONED = "a request from before KIP-890 aborts"
    COMMIT = "the transaction of this epoch is committed"
    ABORT = "the transaction of this epoch is aborted"
    COMMIT_AGAIN = "the transaction of the previous epoch is committed again"
    ABORT_AGAIN = "the transaction of the previous epoch is aborted again"
    TIME_OUT = "the transaction has been open for too long"
    MARKERS_WRITTEN = "every partition has its marker"
    EXPIRE = "the transactional id has not been used for long"


class TransactionReaction(Enum):
    """The reaction to an event."""

    NEXT_EPOCH = "give the producer the next epoch"
    FENCE_AND_ABORT = "bump the epoch, write PrepareAbort, answer CONCURRENT_TRANSACTIONS"
    TIME_OUT_AND_ABORT = "bump the epoch and write PrepareAbort"
    BEGIN = "write Ongoing with the partitions; the transaction timeout starts"
    ADD = "write Ongoing with more partitions, unless they are already in it"
    LOOK_UP = "answer for each partition whether it was added"
    PREPARE_COMMIT = "write PrepareCommit, answer, send markers"
    PREPARE_ABORT = "write PrepareAbort, answer, send markers"
    ABORT_NOTHING = "write PrepareAbort for no partitions: the epoch ends"
    ANSWER_DONE = "answer that it is done"
    COMPLETE_COMMIT = "write CompleteCommit"
    COMPLETE_ABORT = "write CompleteAbort"
    DELETE = "write a tombstone"
    IGNORE = "nothing"
    REFUSE_CONCURRENT = "answer CONCURRENT_TRANSACTIONS"
    REFUSE_STATE = "answer INVALID_TXN_STATE"


_E = TransactionEvent
_R = TransactionReaction
_S = TransactionState

# One row per event: the reactions in Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit,
# CompleteAbort. A Dead id is about to be deleted, so the client must retry.
_ROWS: dict[TransactionEvent, tuple[TransactionReaction, ...]] = {
    _E.INITIALIZE: (
        _R.NEXT_EPOCH,
        _R.FENCE_AND_ABORT,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_CONCURRENT,
        _R.NEXT_EPOCH,
        _R.NEXT_EPOCH,
    ),
    _E.ADD_PARTITIONS: (
        _R.BEGIN,
        _R.ADD,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_CONCURRENT,
        _R.BEGIN,
        _R.BEGIN,
    ),
    _E.VERIFY_PARTITIONS: (
        _R.LOOK_UP,
        _R.LOOK_UP,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_CONCURRENT,
        _R.LOOK_UP,
        _R.LOOK_UP,
    ),
    _E.COMMIT_UNVERSIONED: (
        _R.REFUSE_STATE,
        _R.PREPARE_COMMIT,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_STATE,
        _R.ANSWER_DONE,
        _R.REFUSE_STATE,
    ),
    _E.ABORT_UNVERSIONED: (
        _R.REFUSE_STATE,
        _R.PREPARE_ABORT,
        _R.REFUSE_STATE,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_STATE,
        _R.ANSWER_DONE,
    ),
    # An epoch has one transaction, so a decided one cannot be ended again (KIP-890).
    _E.COMMIT: (
        _R.REFUSE_STATE,
        _R.PREPARE_COMMIT,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_STATE,
        _R.REFUSE_STATE,
        _R.REFUSE_STATE,
    ),
    # The client may abort an empty transaction: it may not know that its requests never arrived.
    _E.ABORT: (
        _R.ABORT_NOTHING,
        _R.PREPARE_ABORT,
        _R.REFUSE_STATE,
        _R.REFUSE_CONCURRENT,
        _R.ABORT_NOTHING,
        _R.ABORT_NOTHING,
    ),
    _E.COMMIT_AGAIN: (
        _R.REFUSE_STATE,
        _R.REFUSE_STATE,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_STATE,
        _R.ANSWER_DONE,
        _R.REFUSE_STATE,
    ),
    _E.ABORT_AGAIN: (
        _R.REFUSE_STATE,
        _R.REFUSE_STATE,
        _R.REFUSE_STATE,
        _R.REFUSE_CONCURRENT,
        _R.REFUSE_STATE,
        _R.ANSWER_DONE,
    ),
    _E.TIME_OUT: (
        _R.IGNORE,
        _R.TIME_OUT_AND_ABORT,
        _R.IGNORE,
        _R.IGNORE,
        _R.IGNORE,
        _R.IGNORE,
    ),
    _E.MARKERS_WRITTEN: (
        _R.IGNORE,
        _R.IGNORE,
        _R.COMPLETE_COMMIT,
        _R.COMPLETE_ABORT,
        _R.IGNORE,
        _R.IGNORE,
    ),
    _E.EXPIRE: (_R.DELETE, _R.IGNORE, _R.IGNORE, _R.IGNORE, _R.DELETE, _R.DELETE),
}

_WHEN_DEAD = {
    _E.TIME_OUT: _R.IGNORE,
    _E.MARKERS_WRITTEN: _R.IGNORE,
    _E.EXPIRE: _R.IGNORE,
}

REACTIONS: dict[tuple[TransactionState, TransactionEvent], TransactionReaction] = {
    (state, event): reaction
    for event, row in _ROWS.items()
    for state, reaction in zip(
        TransactionState, (*row, _WHEN_DEAD.get(event, _R.REFUSE_CONCURRENT)), strict=True
    )
}

# The inverse of Kafka's validPreviousStates. There is no PrepareEpochFence: the bumped epoch and
# PrepareAbort are one record.
NEXT_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
}

"""A transactional id in any of its states, and every request that may come to it then.

An id is taken into its state by requests. Where a state is of a producer's last epoch, the id
begins in the log of its coordinator: nobody wants to come 32,766 times for one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from tierlog.clients.protocol.messages.end_txn import EndTxnResponse
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_state import TransactionState

from ..broker_process import RawClient
from .coordinator_requests import (
    HELD,
    KNOWN,
    LONG_MS,
    REQUESTS,
    SHORT_MS,
    Identity,
    adding,
    ending,
)
from .side_by_side import plain
from .transaction_twins import error_of

LAST_EPOCH = 32_766
FIRST_ID_OF_LAST_EPOCHS = 1_000_000_000
_FAR = 500_000_000
_NEW, _OLD = 5, 4


class Producer(Protocol):
    """Whoever uses a transactional id, and what it has been told."""

    identity: Identity
    first: Identity
    recorded: Identity
    """What the coordinator describes, once the id is in its state."""

    def come(self, timeout_ms: int = LONG_MS, *, goes_on: bool = False) -> ErrorCode:
        """Ask for an identity; with `goes_on` as the producer that has one."""
        ...

    def add(self, topic: str, version: int) -> None:
        """Add a partition of the topic to the transaction."""
        ...

    def end(self, version: int, *, commit: bool) -> None:
        """End the transaction."""
        ...


@dataclass
class WireProducer:
    """A producer at one cluster."""

    client: RawClient
    transactional_id: str
    identity: Identity = (-1, -1)
    first: Identity = (-1, -1)
    recorded: Identity = (-1, -1)

    def come(self, timeout_ms: int = LONG_MS, *, goes_on: bool = False) -> ErrorCode:
        producer_id, epoch = self.identity if goes_on else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = self.client.ask(request, _NEW, InitProducerIdResponse)
        if not answer.error_code:
            self.identity = (answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    def add(self, topic: str, version: int) -> None:
        answer = self.client.ask(
            adding(self.transactional_id, self.identity, version, topic),
            version,
            AddPartitionsToTxnResponse,
        )
        assert error_of(plain(answer)) is ErrorCode.NONE

    def end(self, version: int, *, commit: bool) -> None:
        request = ending(self.transactional_id, self.identity, commit)
        answer = self.client.ask(request, version, EndTxnResponse)
        assert answer.error_code == ErrorCode.NONE
        if version >= _NEW:
            self.identity = (answer.producer_id, answer.producer_epoch)


Step: TypeAlias = Callable[[Producer], None]


class State(NamedTuple):
    """How an id comes into a state, and its name there."""

    name: str
    steps: Sequence[Step]
    is_of_last_epoch: bool = False
    timeout_ms: int = LONG_MS


def _comes_thrice(producer: Producer) -> None:
    for _ in range(3):
        assert producer.come() is ErrorCode.NONE


def _comes(producer: Producer) -> None:
    assert producer.come() is ErrorCode.NONE


def _goes_on(producer: Producer) -> None:
    assert producer.come(goes_on=True) is ErrorCode.NONE


def _is_slow(producer: Producer) -> None:
    """Its transaction will be open for too long."""
    assert producer.come(SHORT_MS) is ErrorCode.NONE


def _is_replaced(producer: Producer) -> None:
    """Another comes for the id, and has to wait for the end of this one's transaction."""
    assert producer.come() is ErrorCode.CONCURRENT_TRANSACTIONS


def _adds(topic: str, version: int = _NEW) -> Step:
    return lambda producer: producer.add(topic, version)


def _commits(version: int = _NEW) -> Step:
    return lambda producer: producer.end(version, commit=True)


def _aborts(version: int = _NEW) -> Step:
    return lambda producer: producer.end(version, commit=False)


_OLD_ADDING = 3
_COMMIT, _ABORT = "CompleteCommit", "CompleteAbort"

STATES: Mapping[str, State] = {
    "no such id": State("", ()),
    "Empty": State("Empty", (_comes_thrice,)),
    "Ongoing": State("Ongoing", (_comes_thrice, _adds(KNOWN))),
    "PrepareCommit": State("PrepareCommit", (_comes_thrice, _adds(HELD), _commits())),
    "PrepareAbort": State("PrepareAbort", (_comes_thrice, _adds(HELD), _aborts())),
    "PrepareCommit of an old client": State(
        "PrepareCommit", (_comes_thrice, _adds(HELD, _OLD_ADDING), _commits(_OLD))
    ),
    "PrepareAbort of an old client": State(
        "PrepareAbort", (_comes_thrice, _adds(HELD, _OLD_ADDING), _aborts(_OLD))
    ),
    "PrepareAbort of a replaced producer": State(
        "PrepareAbort", (_comes_thrice, _adds(HELD), _is_replaced)
    ),
    "CompleteCommit": State(_COMMIT, (_comes_thrice, _adds(KNOWN), _commits())),
    "CompleteAbort": State(_ABORT, (_comes_thrice, _adds(KNOWN), _aborts())),
    "CompleteAbort of nothing": State(_ABORT, (_comes_thrice, _aborts())),
    "CompleteCommit of an old client": State(
        _COMMIT, (_comes_thrice, _adds(KNOWN, _OLD_ADDING), _commits(_OLD))
    ),
    "CompleteAbort of an old client": State(
        _ABORT, (_comes_thrice, _adds(KNOWN, _OLD_ADDING), _aborts(_OLD))
    ),
    "CompleteAbort of a replaced producer": State(
        _ABORT, (_comes_thrice, _adds(KNOWN), _is_replaced)
    ),
    "CompleteAbort of a slow producer": State(
        _ABORT, (_comes, _comes, _is_slow, _adds(KNOWN)), timeout_ms=SHORT_MS
    ),
    "Empty, last epoch": State("Empty", (), True),
    "Empty, next id": State("Empty", (_comes,), True),
    "Empty, next id of the same producer": State("Empty", (_goes_on,), True),
    "Ongoing, last epoch": State("Ongoing", (_adds(KNOWN),), True),
    "PrepareCommit, last epoch": State("PrepareCommit", (_adds(HELD), _commits()), True),
    "PrepareAbort, last epoch": State("PrepareAbort", (_adds(HELD), _aborts()), True),
    "PrepareAbort of a replaced producer, last epoch": State(
        "PrepareAbort", (_adds(HELD), _is_replaced), True
    ),
    "CompleteCommit, last epoch": State(_COMMIT, (_adds(KNOWN), _commits()), True),
    "CompleteAbort, last epoch": State(_ABORT, (_adds(KNOWN), _aborts()), True),
    "CompleteCommit of an old client, last epoch": State(
        _COMMIT, (_adds(KNOWN, _OLD_ADDING), _commits(_OLD)), True
    ),
    "CompleteAbort of a slow producer, last epoch": State(_ABORT, (_adds(KNOWN),), True, SHORT_MS),
}


# -- Whose requests they are ------------------------------------------------------------------


def _epochs_on(count: int) -> Callable[[Producer], Identity | None]:
    def identity(producer: Producer) -> Identity | None:
        producer_id, epoch = producer.recorded
        return (producer_id, epoch + count) if 0 <= epoch + count <= LAST_EPOCH + 1 else None

    return identity


_RELATIONS: Mapping[str, Callable[[Producer], Identity | None]] = {
    "two epochs before": _epochs_on(-2),
    "the epoch before": _epochs_on(-1),
    "this epoch": _epochs_on(0),
    "next epoch": _epochs_on(1),
    "another id": lambda producer: (producer.recorded[0] + _FAR, producer.recorded[1]),
}
_RELATIONS_OF_LAST_EPOCH: Mapping[str, Callable[[Producer], Identity | None]] = {
    **_RELATIONS,
    "as told": lambda producer: producer.identity,
    "first id in its last epoch": lambda producer: producer.first,
    "first id in the epoch before": lambda producer: (producer.first[0], LAST_EPOCH - 1),
}
_RELATIONS_TO_NOBODY: Mapping[str, Callable[[Producer], Identity | None]] = {
    "unknown": lambda _: (_FAR, 0)
}
_ANONYMOUS: Mapping[str, Callable[[Producer], Identity | None]] = {
    "without an identity": lambda _: (-1, -1)
}


class Cell(NamedTuple):
    """A request of an identity to an id in a state."""

    number: int
    state: str
    request: str
    relation: str

    @property
    def transactional_id(self) -> str:
        return f"cell-{self.number}"

    @property
    def first_identity(self) -> Identity:
        """With which an id begins that is in its last epoch."""
        return (FIRST_ID_OF_LAST_EPOCHS + self.number, LAST_EPOCH)

    @property
    def coordinates(self) -> str:
        return f"{self.state} | {self.request} | {self.relation}"

    def identity(self, producer: Producer) -> Identity | None:
        """Whose request it is; None if there is no such epoch."""
        return _relations(self.state, self.request)[self.relation](producer)


def _relations(state: str, request: str) -> Mapping[str, Callable[[Producer], Identity | None]]:
    if REQUESTS[request].is_anonymous:
        return _ANONYMOUS
    if not STATES[state].name:
        return _RELATIONS_TO_NOBODY
    return _RELATIONS_OF_LAST_EPOCH if STATES[state].is_of_last_epoch else _RELATIONS


def all_cells(*, of_the_coordinator: bool = False) -> list[Cell]:
    """The whole table, or the requests that only the coordinator of transactional ids answers."""
    coordinates = [
        (state, request, relation)
        for state in STATES
        for request in REQUESTS
        for relation in _relations(state, request)
    ]
    cells = [Cell(number, *each) for number, each in enumerate(coordinates)]
    kinds = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
    return [each for each in cells if not of_the_coordinator or each.request.startswith(kinds)]


def first_transaction(cell: Cell) -> Transaction:
    """How an id that is in its last epoch begins in the log."""
    return Transaction(
        cell.transactional_id,
        *cell.first_identity,
        timeout_ms=STATES[cell.state].timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        last_update_ms=SystemEnvironment().wall_clock_ms(),
    )


def named(producer: Producer, identity: Identity) -> str:
    """An identity with a name in place of the producer id, which each cluster draws."""
    producer_id, epoch = identity
    names = {
        producer.first[0]: "the first id",
        producer.identity[0]: "the id told",
        producer.recorded[0]: "the id",
    }
    return f"{names.get(producer_id, 'a new id')}/{epoch}"


NO_EPOCH = "no such epoch"
"""The text of a cell of which there is no request."""


def said(answer: str, before: str, after: str) -> str:
    """A cell's text: what is answered, and how the id is then, if it is not as before."""
    return answer if after == before else f"{answer}; then {after}"


def lines(cells: Sequence[Cell], texts: Sequence[str]) -> list[str]:
    """A column of the table, with what is the same of several relations in one line."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell, text in zip(cells, texts, strict=True):
        if text == NO_EPOCH:
            continue
        row = rows.setdefault((cell.state, cell.request), {})
        row.setdefault(text, []).append(cell.relation)
    return [
        f"{state} | {request} | {', '.join(relations)}: {text}"
        for (state, request), row in rows.items()
        for text, relations in row.items()
    ]


DIFFERENT: Mapping[str, tuple[str, str]] = {
    **{
        f"{state} | InitProducerId 5 of a producer | {relation}": (
            "UNKNOWN_SERVER_ERROR",
            "PRODUCER_FENCED",
        )
        for state in ("Empty, last epoch", "CompleteCommit of an old client, last epoch")
        for relation in (
            "two epochs before",
            "the epoch before",
            "next epoch",
            "first id in the epoch before",
        )
    },
    **{
        f"{state} | TxnOffsetCommit 4 | this epoch": (
            "CONCURRENT_TRANSACTIONS",
            "COORDINATOR_NOT_AVAILABLE",
        )
        for state in STATES
        if STATES[state].name in {"PrepareCommit", "PrepareAbort"}
    },
}
"""Cells, by their coordinates, in which Kafka's answer and ours differ: docs/differences.md."""

ANSWERS = Path(__file__).parent / "coordinator_answers.txt"
"""Kafka's answers in the cells that only the coordinator of transactional ids decides."""

"""Every request to a transactional id, in every state of it, as Apache Kafka answers it.

The table has a row for each state, request, and relation of the producer's epoch to that of the
coordinator. A cell is the answer, and what DescribeTransactions and ListTransactions say of the id
afterwards. Where the two differ, `DIFFERENT` has both, and docs/differences.md the reason.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.describe_transactions import TransactionState
from tierlog.clients.protocol.messages.end_txn import EndTxnResponse
from tierlog.clients.protocol.messages.init_producer_id import InitProducerIdResponse
from tierlog.clients.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from ..waiting import wait_until
from .coordinator_cells import (
    ANSWERS,
    DIFFERENT,
    NO_EPOCH,
    STATES,
    Cell,
    WireProducer,
    all_cells,
    first_transaction,
    lines,
    named,
    said,
)
from .coordinator_requests import HELD, REQUESTS, SHORT_MS, Identity
from .held_markers import FIRST, HeldMarkers, described
from .side_by_side import plain
from .transaction_twins import error_of

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

_CELLS = all_cells()
_WITHIN_S = 120
_PREPARED = ("PrepareCommit", "PrepareAbort")
_NO_STATE = ""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HeldMarkers, HeldMarkers]]:
    """Kafka's and ours."""
    directory = tmp_path_factory.mktemp("held")
    both = HeldMarkers(directory / "kafka", "kafka"), HeldMarkers(directory / "ours", "tierlog")
    of_last_epoch = [cell for cell in _CELLS if STATES[cell.state].is_of_last_epoch]
    try:
        for each in both:
            each.start(list(map(first_transaction, of_last_epoch)))
        yield both
    finally:
        for each in both:
            each.cluster.kill()
    assert "Traceback" not in both[1].cluster.nodes[FIRST].output


class Side:
    """One of the two, and the ids that are in its cells."""

    def __init__(self, port: int, cells: Sequence[Cell]) -> None:
        self.client = RawClient(port, timeout_s=60)
        self.cells = cells
        self.producers = [self._producer(cell) for cell in cells]
        self.before: list[str] = []

    def _producer(self, cell: Cell) -> WireProducer:
        first = cell.first_identity if STATES[cell.state].is_of_last_epoch else (-1, -1)
        return WireProducer(self.client, cell.transactional_id, first, first)

    def describe(self) -> list[TransactionState]:
        return described(self.client, [cell.transactional_id for cell in self.cells])

    def take_into_states(self) -> None:
        for cell, producer in zip(self.cells, self.producers, strict=True):
            for step in STATES[cell.state].steps:
                step(producer)
        self._settle()
        for cell, producer, found in zip(self.cells, self.producers, self.describe(), strict=True):
            assert found.transaction_state == STATES[cell.state].name, cell
            producer.recorded = (found.producer_id, found.producer_epoch)
        self.before = self._states()

    def texts(self) -> list[str]:
        """What each cell's request is answered, and how its id is afterwards."""
        answers = [
            self._answer(cell, producer)
            for cell, producer in zip(self.cells, self.producers, strict=True)
        ]
        self._settle()
        return list(map(said, answers, self.before, self._states()))

    def _states(self) -> list[str]:
        """How each id is."""
        listed = self._listed()
        return [
            f"{self._named(producer, state)}{listed[state.transactional_id]}"
            for producer, state in zip(self.producers, self.describe(), strict=True)
        ]

    def _answer(self, cell: Cell, producer: WireProducer) -> str:
        identity = cell.identity(producer)
        if identity is None:
            return NO_EPOCH
        request = REQUESTS[cell.request]
        asked = request.make(cell.transactional_id, identity)
        answer = self.client.receive(self.client.send(asked, request.version))
        error = error_of(plain(answer)).name
        new_identity = _identity_in(answer)
        return (
            error
            if new_identity is None or new_identity[0] < 0
            else f"{error} {named(producer, new_identity)}"
        )

    def _settle(self) -> None:
        """Wait until nothing is on its way, but for markers that are held."""
        wait_until(self._is_settled, _WITHIN_S, lambda: f"not settled: {self.describe()}")

    def _is_settled(self) -> bool:
        return all(
            _is_settled(state, is_slow=STATES[cell.state].timeout_ms == SHORT_MS)
            for cell, state in zip(self.cells, self.describe(), strict=True)
        )

    def _named(self, producer: WireProducer, state: TransactionState) -> str:
        if state.error_code:
            return ErrorCode(state.error_code).name
        topics = sorted((each.topic, each.partitions) for each in state.topics)
        who = named(producer, (state.producer_id, state.producer_epoch))
        return f"{state.transaction_state} {who} {topics}"

    def _listed(self) -> dict[str, str]:
        """How ListTransactions has each id; empty where it says the same as the description."""
        answer = self.client.ask(ListTransactionsRequest(), 0, ListTransactionsResponse)
        found = {
            each.transactional_id: (each.transaction_state, each.producer_id)
            for each in answer.transaction_states
        }
        listed: dict[str, str] = {}
        for state in self.describe():
            expected = (state.transaction_state, state.producer_id)
            is_listed = state.transactional_id in found
            is_same = found.get(state.transactional_id) == expected
            is_right = not is_listed if state.error_code else is_same
            listed[state.transactional_id] = "" if is_right else " (listed otherwise)"
        return listed


def _is_settled(state: TransactionState, *, is_slow: bool) -> bool:
    if state.transaction_state in _PREPARED:
        return [each.topic for each in state.topics] == [HELD]
    return not is_slow or state.transaction_state != "Ongoing"


def _identity_in(answer: Message) -> Identity | None:
    if isinstance(answer, InitProducerIdResponse | EndTxnResponse):
        return answer.producer_id, answer.producer_epoch
    return None


@pytest.mark.parametrize("state", STATES)
def test_a_request_is_answered_as_by_kafka(
    clusters: tuple[HeldMarkers, HeldMarkers], state: str, tmp_path: Path
) -> None:
    cells = [cell for cell in _CELLS if cell.state == state]
    columns: list[list[str]] = []
    for each in clusters:
        side = Side(each.port, cells)
        with side.client:
            side.take_into_states()
            columns.append(side.texts())
    rows = zip(cells, *columns, strict=True)
    different = {cell.coordinates: (kafka, ours) for cell, kafka, ours in rows if kafka != ours}
    expected = {name: pair for name, pair in DIFFERENT.items() if name.startswith(f"{state} | ")}
    assert different == expected, "\n" + "\n".join(
        f"{name}\n    Kafka  {kafka}\n    ours   {ours}"
        for name, (kafka, ours) in different.items()
        if expected.get(name) != (kafka, ours)
    )
    _check_file(state, cells, columns[0], tmp_path)


def _check_file(state: str, cells: Sequence[Cell], kafka: Sequence[str], directory: Path) -> None:
    """The file from which the tests without Kafka know Kafka's answers is right."""
    own = {cell.coordinates for cell in all_cells(of_the_coordinator=True)}
    answers = [
        (cell, text) for cell, text in zip(cells, kafka, strict=True) if cell.coordinates in own
    ]
    found = lines(*zip(*answers, strict=True))
    expected = [line for line in ANSWERS.read_text().splitlines() if line.startswith(f"{state} | ")]
    (directory / "found.txt").write_text("".join(f"{line}\n" for line in found))
    assert found == expected, f"{ANSWERS} has something else than {directory / 'found.txt'}"


def test_all_complete_when_the_broker_is_back(
    clusters: tuple[HeldMarkers, HeldMarkers],
) -> None:
    for each in clusters:
        each.let_go()
        with RawClient(each.port, timeout_s=60) as client:
            wait_until(lambda: not _prepared(client), _WITHIN_S, lambda: str(_prepared(client)))


def _prepared(client: RawClient) -> list[str]:
    request = ListTransactionsRequest(state_filters=list(_PREPARED))
    answer = client.ask(request, 0, ListTransactionsResponse)
    assert not answer.error_code
    return [each.transactional_id for each in answer.transaction_states]

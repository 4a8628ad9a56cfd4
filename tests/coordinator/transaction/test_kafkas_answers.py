"""What Apache Kafka's coordinator answers in each state of an id, asked of ours.

`tests/conformance/test_coordinator_table.py` asks Kafka itself, and keeps its answers; here are the
requests that need no more than the coordinator of transactional ids.
"""

import asyncio
from dataclasses import dataclass
from itertools import count

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.transaction_config import TransactionConfig
from tierlog.coordinator.transaction.transaction_coordinator import (
    ProducerIdentity,
    TransactionCoordinator,
)
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_records import transaction_record
from tierlog.coordinator.transaction.transaction_shard import Addition, Ending, Initialization
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from ...conformance.coordinator_cells import (
    ANSWERS,
    DIFFERENT,
    NO_EPOCH,
    STATES,
    Cell,
    all_cells,
    first_transaction,
    lines,
    named,
    said,
)
from ...conformance.coordinator_requests import HELD, KNOWN, LONG_MS, Identity
from ..memory_offsets_log import MemoryOffsetsLog
from .transaction_partitions import Partitions

_CELLS = all_cells(of_the_coordinator=True)
_FIRST_BATCHED, _FIRST_BUMPING = 4, 5
_UNTIL_SETTLED_S = 60


class Coordinator:
    """Of all ids; the markers of one topic are never accepted."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.log = MemoryOffsetsLog()
        partitions = Partitions()
        partitions.refuse[TopicPartition(HELD, 0)] = ErrorCode.NOT_ENOUGH_REPLICAS
        config = TransactionConfig(num_partitions=1)
        environment = SimulatedEnvironment(loop)
        self._ids = count(1)
        self._coordinator = TransactionCoordinator(
            config, environment, self.log, partitions, take_producer_id=self.take
        )
        image = ClusterImage("cluster", features={"transaction.version": 2})
        self._coordinator.publish(image, ClusterDelta.between(ClusterImage("cluster"), image))

    async def start(self, cells: list[Cell]) -> None:
        self._coordinator.start()
        states = [
            transaction_record(first_transaction(cell), 2)
            for cell in cells
            if STATES[cell.state].is_of_last_epoch
        ]
        if states:
            records = [Record(0, 0, each.key, each.value, ()) for each in states]
            self.log.append(0, build_batch(records))
        self._coordinator.on_elected(0, 0)
        await asyncio.sleep(1)
        assert self._coordinator.transactions() is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def take(self) -> int | None:
        return next(self._ids)

    def initialize(self, name: str, identity: Identity, timeout_ms: int) -> ProducerIdentity:
        known = None if identity[0] < 0 else identity
        request = Initialization(name, timeout_ms, known)
        answer = self._coordinator.initialize(request, self.take)
        assert isinstance(answer, ProducerIdentity)
        return answer

    def add(self, name: str, identity: Identity, topic: str, version: int) -> ErrorCode:
        partitions = frozenset({TopicPartition(topic, 0)})
        addition = Addition(name, *identity, partitions, 2 if version >= _FIRST_BATCHED else 0)
        answer = self._coordinator.add_partitions(addition)
        assert isinstance(answer, ErrorCode)
        return answer

    def verify(self, name: str, identity: Identity) -> ErrorCode:
        addition = Addition(name, *identity, frozenset({TopicPartition(KNOWN, 0)}))
        (error,) = self._coordinator.verify_partitions(addition).values()
        return error

    def end(self, name: str, identity: Identity, version: int, *, commit: bool) -> ProducerIdentity:
        ending = Ending(name, *identity, commit, 2 if version >= _FIRST_BUMPING else 0)
        answer = self._coordinator.end(ending, self.take)
        assert isinstance(answer, ProducerIdentity)
        return (
            answer if answer.error or version >= _FIRST_BUMPING else ProducerIdentity(answer.error)
        )

    def describe(self, name: str) -> Transaction | ErrorCode:
        return self._coordinator.describe(name)


@dataclass
class Producer:
    """The producer of a cell's id."""

    coordinator: Coordinator
    name: str
    identity: Identity = (-1, -1)
    first: Identity = (-1, -1)
    recorded: Identity = (-1, -1)

    def come(self, timeout_ms: int = LONG_MS, *, goes_on: bool = False) -> ErrorCode:
        identity = self.identity if goes_on else (-1, -1)
        error, *identity_after = self.coordinator.initialize(self.name, identity, timeout_ms)
        if not error:
            self.identity = (identity_after[0], identity_after[1])
        return error

    def add(self, topic: str, version: int) -> None:
        assert self.coordinator.add(self.name, self.identity, topic, version) is ErrorCode.NONE

    def end(self, version: int, *, commit: bool) -> None:
        error, *identity_after = self.coordinator.end(
            self.name, self.identity, version, commit=commit
        )
        assert error is ErrorCode.NONE
        if version >= _FIRST_BUMPING:
            self.identity = (identity_after[0], identity_after[1])

    def answer(self, request: str, identity: Identity) -> str:
        """What the request of this name is answered."""
        kind, version, *rest = request.replace(",", "").split()
        coordinator, name = self.coordinator, self.name
        if kind == "AddPartitionsToTxn":
            if "verify" in rest:
                return coordinator.verify(name, identity).name
            return coordinator.add(name, identity, KNOWN, int(version)).name
        if kind == "InitProducerId":
            answer = coordinator.initialize(name, identity, LONG_MS)
        else:
            answer = coordinator.end(name, identity, int(version), commit="commit" in rest)
        if answer.producer_id < 0:
            return answer.error.name
        return f"{answer.error.name} {named(self, (answer.producer_id, answer.producer_epoch))}"


def described(producer: Producer) -> str:
    """How the id is, as DescribeTransactions says it."""
    found = producer.coordinator.describe(producer.name)
    if isinstance(found, ErrorCode):
        return found.name
    who = named(producer, (found.producer_id, found.producer_epoch))
    topics = sorted((each.topic, [each.partition]) for each in found.partitions)
    return f"{found.state.value} {who} {topics}"


async def column(loop: SimulatedLoop, cells: list[Cell]) -> list[str]:
    """Our column of the table, for the cells of a state."""
    coordinator = Coordinator(loop)
    await coordinator.start(cells)
    producers: list[Producer] = []
    for cell in cells:
        state = STATES[cell.state]
        first = cell.first_identity if state.is_of_last_epoch else (-1, -1)
        producer = Producer(coordinator, cell.transactional_id, first, first)
        for step in state.steps:
            step(producer)
        producers.append(producer)
    await asyncio.sleep(_UNTIL_SETTLED_S)
    before = [_recorded(producer) for producer in producers]
    answers: list[str] = []
    for cell, producer in zip(cells, producers, strict=True):
        who = cell.identity(producer)
        answers.append(NO_EPOCH if who is None else producer.answer(cell.request, who))
    await asyncio.sleep(_UNTIL_SETTLED_S)
    after = map(described, producers)
    return list(map(said, answers, before, after))


def _recorded(producer: Producer) -> str:
    found = producer.coordinator.describe(producer.name)
    if isinstance(found, Transaction):
        producer.recorded = (found.producer_id, found.producer_epoch)
    return described(producer)


@pytest.mark.parametrize("state", STATES)
def test_the_coordinator_answers_as_kafkas(state: str) -> None:
    cells = [cell for cell in _CELLS if cell.state == state]
    ours = simulate(lambda loop: column(loop, cells))
    agreed = [
        DIFFERENT[cell.coordinates][0] if cell.coordinates in DIFFERENT else text
        for cell, text in zip(cells, ours, strict=True)
    ]
    expected = [line for line in ANSWERS.read_text().splitlines() if line.startswith(f"{state} | ")]
    assert lines(cells, agreed) == expected

"""Questions to coordinators on other brokers: who joins, who is replaced, who waits."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.transaction_markers import MarkerErrors
from tierlog.coordinator.transaction.transaction_shard import Addition
from tierlog.coordinator.transaction.verification_queue import (
    ENTRIES_MAX,
    Question,
    VerificationQueue,
)

pytestmark = pytest.mark.usefixtures("loop")

E = ErrorCode
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def question(
    *partitions: TopicPartition, epoch: int = 1, verify: bool = False, name: str = "an-id"
) -> Question:
    return Question(Addition(name, 7, epoch, frozenset(partitions), 2), verify)


def new() -> "asyncio.Future[MarkerErrors]":
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("later", "of_earlier", "of_later"),
    [
        (question(P0, epoch=2), E.INVALID_PRODUCER_EPOCH, None),
        (question(P0, epoch=0), None, E.INVALID_PRODUCER_EPOCH),
        (question(P0, verify=True), E.NETWORK_EXCEPTION, None),
    ],
)
async def test_a_transactional_id_has_one_entry(
    later: Question, of_earlier: ErrorCode | None, of_later: ErrorCode | None
) -> None:
    queue = VerificationQueue()
    answers = [queue.add(1, question(P0), new()), queue.add(1, later, new())]
    for answer, error in zip(answers, (of_earlier, of_later), strict=True):
        assert (answer.result()[P0] if answer.done() else None) is error
    assert len(queue.take(1)) == 1


async def test_partitions_of_one_transaction_join_until_it_is_sent() -> None:
    queue = VerificationQueue()
    first = queue.add(1, question(P0), new())
    assert queue.add(1, question(P1), new()) is first
    (sent,) = queue.take(1)
    assert sent.question.addition.partitions == {P0, P1}
    # What is asked after this is asked anew.
    assert queue.add(1, question(P0), new()) is not first
    assert queue.ready() == []
    sent.settle({P0: E.NONE})
    assert first.result() == {P0: E.NONE, P1: E.NETWORK_EXCEPTION}
    queue.answered(1)
    assert queue.ready() == [1]


async def test_the_queue_is_bounded() -> None:
    queue = VerificationQueue()
    for number in range(ENTRIES_MAX):
        queue.add(1, question(P0, name=str(number)), new())
    answer = queue.add(1, question(P0), new())
    assert answer.result() == {P0: E.COORDINATOR_NOT_AVAILABLE}
    queue.refuse_all(E.NETWORK_EXCEPTION)
    assert len(queue) == 0

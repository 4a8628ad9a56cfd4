"""A leader's proposals of ISRs reach the controller one request at a time, and are never lost.

The controller answers when the story lets it; followers are their fetches.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.leader.isr_sender import Answers, IsrSender
from tierlog.replication.leader.replica_manager import PartitionsHere, ReplicaParts, ReplicaPeers
from tierlog.replication.partition.isr import IsrAnswer, IsrProposal
from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.loop import SimulatedLoop

from ..three_replicas import LEADER, SECOND, T0, THIRD, Leader, one_leader

_LAG_MS = 30_000

Proposals = Mapping[TopicIdPartition, IsrProposal]


class HeldController:
    """Keeps each request until the story answers it."""

    def __init__(self) -> None:
        self.requests: list[tuple[Proposals, asyncio.Future[Answers]]] = []
        self._has_come = asyncio.Event()

    async def alter(self, proposals: Proposals) -> Answers:
        answer: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self.requests.append((proposals, answer))
        self._has_come.set()
        return await answer

    async def request(self, number: int) -> IsrProposal:
        """The only proposal of the request with this number, once it has come."""
        while len(self.requests) <= number:
            self._has_come.clear()
            await asyncio.wait_for(self._has_come.wait(), _LAG_MS)
        (proposal,) = self.requests[number][0].values()
        return proposal

    def accept(self, number: int) -> None:
        proposals, answer = self.requests[number]
        answer.set_result({name: accepted(each) for name, each in proposals.items()})

    def refuse(self, number: int, error: ErrorCode) -> None:
        proposals, answer = self.requests[number]
        answer.set_result(dict.fromkeys(proposals, error))


def accepted(proposal: IsrProposal) -> IsrAnswer:
    members = tuple(member.broker_id for member in proposal.isr)
    return IsrAnswer(proposal.leader_epoch, proposal.partition_epoch + 1, members)


def ids(proposal: IsrProposal) -> list[int]:
    return [member.broker_id for member in proposal.isr]


@asynccontextmanager
async def sending_leader(loop: SimulatedLoop, controller: HeldController) -> AsyncGenerator[Leader]:
    def peers_of(leader: Leader, here: PartitionsHere) -> ReplicaPeers:
        return ReplicaPeers(
            isr_sender=IsrSender(
                controller,
                here.all,
                here.complete_replicated,
                leader.environment,
                Supervisor(leader.environment.random),
                _LAG_MS,
            )
        )

    def parts(leader: Leader) -> ReplicaParts:
        return ReplicaParts(peers=partial(peers_of, leader))

    async with one_leader(loop, parts) as leader:
        peers = leader.replicas.peers
        assert peers is not None
        sender = peers.isr_sender
        assert sender is not None
        sender.start()
        yield leader
        await sender.stop()


@pytest.fixture
def controller() -> HeldController:
    return HeldController()


@pytest.fixture
def leader(loop: SimulatedLoop, controller: HeldController) -> Leader:
    return entered(sending_leader(loop, controller))


async def lose_third(leader: Leader, controller: HeldController) -> None:
    """The third replica lags, and the controller takes it out of the ISR by the first request."""
    leader.append(b"a", acks=1)
    leader.follow(THIRD, 0, broker_epoch=30)
    while not controller.requests:
        leader.follow(SECOND, 1, broker_epoch=20)
        await asyncio.sleep(1)
    assert ids(await controller.request(0)) == [LEADER, SECOND]
    controller.accept(0)
    await asyncio.sleep(0.1)
    # The metadata says the same, later than the answer.
    leader.change(isr=[LEADER, SECOND])


async def test_a_silent_follower_leaves_and_the_waiting_producer_is_answered(
    leader: Leader, controller: HeldController
) -> None:
    outcome = leader.append(b"a", timeout_ms=4 * _LAG_MS)
    assert isinstance(outcome, asyncio.Future)
    while not controller.requests:
        leader.follow(SECOND, 1, broker_epoch=20)
        await asyncio.sleep(1)
    assert not outcome.done()
    controller.accept(0)
    (result,) = await asyncio.wait_for(outcome, 1)
    assert result.error is ErrorCode.NONE
    assert leader.replicas.partition(T0).isr_state.isr == (LEADER, SECOND)


async def test_a_follower_that_has_caught_up_joins_by_its_fetch(
    leader: Leader, controller: HeldController
) -> None:
    await lose_third(leader, controller)
    leader.follow(THIRD, 1, broker_epoch=30)
    assert ids(await controller.request(1)) == [LEADER, SECOND, THIRD]
    controller.accept(1)
    await asyncio.sleep(0.1)
    assert leader.replicas.partition(T0).isr_state.isr == (LEADER, SECOND, THIRD)


async def test_a_request_that_fails_is_sent_again_until_it_is_answered(
    leader: Leader, controller: HeldController
) -> None:
    await lose_third(leader, controller)
    leader.follow(THIRD, 1, broker_epoch=30)
    first = await controller.request(1)
    controller.requests[1][1].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
    assert await controller.request(2) == first
    # An error that the leader does not know is tried again as well.
    controller.refuse(2, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert await controller.request(3) == first
    controller.accept(3)
    await asyncio.sleep(0.1)
    assert leader.replicas.partition(T0).isr_state.isr == (LEADER, SECOND, THIRD)


async def test_a_refused_follower_is_proposed_again_by_its_next_fetch(
    leader: Leader, controller: HeldController
) -> None:
    await lose_third(leader, controller)
    leader.follow(THIRD, 1, broker_epoch=30)
    await controller.request(1)
    controller.refuse(1, ErrorCode.INELIGIBLE_REPLICA)
    await asyncio.sleep(1)
    assert len(controller.requests) == 2
    leader.follow(THIRD, 1, broker_epoch=30)
    assert ids(await controller.request(2)) == [LEADER, SECOND, THIRD]


async def test_what_metadata_has_overtaken_is_not_sent_again(
    loop: SimulatedLoop, controller: HeldController, caplog: pytest.LogCaptureFixture
) -> None:
    """And nobody has refused it: one line says that the request had no answer."""
    caplog.set_level(logging.INFO, "tierlog.replication.leader.isr_sender")
    async with sending_leader(loop, controller) as leader:
        await lose_third(leader, controller)
        leader.follow(THIRD, 1, broker_epoch=30)
        await controller.request(1)
        leader.change(isr=[LEADER, SECOND, THIRD])
        controller.requests[1][1].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
        await asyncio.sleep(1)
        assert len(controller.requests) == 2
        assert leader.replicas.partition(T0).isr_state.isr == (LEADER, SECOND, THIRD)
    messages = [each.getMessage() for each in caplog.records]
    assert not [each for each in messages if "refused" in each]
    assert len([each for each in messages if each.startswith("Could not ask for changes of")]) == 1

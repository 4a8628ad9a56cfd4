"""A leader takes followers into the ISR and asks for others to leave it.

The controller is played by its answers, the followers by their fetches.
"""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.replication.partition.isr import ErrorReaction, IsrAnswer, IsrPhase, IsrProposal
from tierlog.replication.partition.partition import Partition

from .three_replicas import LEADER, SECOND, T0, THIRD, Leader

_LAG_MS = 30_000


def led(leader: Leader) -> Partition:
    return leader.replicas.partition(T0)


def phase(leader: Leader) -> IsrPhase:
    return led(leader).isr_state.phase


def answer(proposal: IsrProposal) -> IsrAnswer:
    """The controller has made the change."""
    members = tuple(member.broker_id for member in proposal.isr)
    return IsrAnswer(proposal.leader_epoch, proposal.partition_epoch + 1, members)


async def without_third(leader: Leader) -> None:
    """The third replica is out of the ISR, and lags behind ten records."""
    leader.change(isr=[LEADER, SECOND])
    await asyncio.sleep(_LAG_MS / 1000 + 1)
    leader.append(b"a", b"b", acks=1)
    leader.follow(SECOND, 2, broker_epoch=20)
    assert leader.high_watermark == 2


async def test_a_follower_that_has_caught_up_holds_the_high_watermark_while_it_joins(
    leader: Leader,
) -> None:
    await without_third(leader)
    partition = led(leader)
    leader.follow(THIRD, 1, broker_epoch=30)
    assert partition.propose_expansion(THIRD) is None
    leader.follow(THIRD, 2, broker_epoch=30)
    proposal = partition.propose_expansion(THIRD)
    assert proposal is not None
    members = (ReplicaEpoch(LEADER, 10), ReplicaEpoch(SECOND, 20), ReplicaEpoch(THIRD, 30))
    assert proposal == IsrProposal(0, 1, members)
    # One request at a time.
    assert partition.propose_expansion(THIRD) is None
    leader.append(b"c", acks=1)
    leader.follow(SECOND, 3)
    await asyncio.sleep(_LAG_MS / 1000 + 1)
    leader.follow(SECOND, 3)
    assert leader.high_watermark == 2
    partition.take_isr_answer(answer(proposal), 0)
    assert (phase(leader), partition.isr_state.isr) == (IsrPhase.COMMITTED, (1, 2, 3))
    leader.follow(THIRD, 3)
    assert leader.high_watermark == 3


async def test_nothing_is_committed_by_members_that_the_controller_has_not_taken_in(
    leader: Leader,
) -> None:
    """The replicas that left below min ISR may still be elected (KIP-966), and lack the records."""
    partition = led(leader)
    leader.change(isr=[LEADER])
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1, broker_epoch=20)
    proposal = partition.propose_expansion(SECOND)
    assert proposal is not None
    leader.follow(SECOND, 1, broker_epoch=20)
    leader.append(b"b", acks=1)
    leader.follow(SECOND, 2, broker_epoch=20)
    assert leader.high_watermark == 0
    assert partition.take_isr_answer(answer(proposal), 0)
    assert leader.high_watermark == 2


async def test_a_follower_that_lags_holds_the_high_watermark_until_it_has_left(
    leader: Leader,
) -> None:
    partition = led(leader)
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1)
    leader.follow(THIRD, 0)
    await asyncio.sleep(_LAG_MS / 1000 + 1)
    leader.follow(SECOND, 1)
    now_ms = leader.environment.wall_clock_ms()
    proposal = partition.propose_shrink(now_ms)
    assert proposal is not None
    assert [member.broker_id for member in proposal.isr] == [LEADER, SECOND]
    assert leader.high_watermark == 0
    assert partition.take_isr_answer(answer(proposal), now_ms)
    assert leader.high_watermark == 1


async def test_acks_all_is_answered_when_the_last_that_lacks_the_records_leaves_the_isr(
    leader: Leader,
) -> None:
    outcome = leader.append(b"a", timeout_ms=2 * _LAG_MS)
    assert isinstance(outcome, asyncio.Future)
    leader.follow(SECOND, 1)
    await asyncio.sleep(_LAG_MS / 1000 + 1)
    leader.change(isr=[LEADER, SECOND])
    (result,) = await asyncio.wait_for(outcome, 1)
    assert result.error is ErrorCode.NONE


async def test_metadata_settles_what_no_answer_came_for(leader: Leader) -> None:
    await without_third(leader)
    partition = led(leader)
    leader.follow(THIRD, 2)
    proposal = partition.propose_expansion(THIRD)
    assert proposal is not None
    leader.change(isr=[LEADER, SECOND, THIRD])
    assert (phase(leader), partition.isr_state.isr) == (IsrPhase.COMMITTED, (1, 2, 3))
    leader.change(isr=[LEADER, SECOND])
    # The answer comes late: metadata knows better.
    partition.take_isr_answer(answer(proposal), 0)
    assert partition.isr_state.isr == (1, 2)
    assert partition.take_isr_error(proposal, ErrorCode.STALE_BROKER_EPOCH) is (ErrorReaction.WAIT)


async def test_an_answer_that_comes_before_the_metadata_is_not_taken_back_by_it(
    leader: Leader,
) -> None:
    await without_third(leader)
    partition, before = led(leader), led(leader).image
    leader.follow(THIRD, 2)
    proposal = partition.propose_expansion(THIRD)
    assert proposal is not None
    partition.take_isr_answer(answer(proposal), 0)
    partition.update(before)
    assert partition.isr_state.isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("error", "reaction", "after"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, ErrorReaction.DECIDE_AGAIN, IsrPhase.COMMITTED),
        (ErrorCode.INVALID_UPDATE_VERSION, ErrorReaction.WAIT, IsrPhase.PENDING_EXPAND),
        (ErrorCode.NOT_CONTROLLER, ErrorReaction.RETRY, IsrPhase.PENDING_EXPAND),
    ],
)
async def test_a_refusal_ends_the_request_only_if_nothing_was_changed(
    leader: Leader, error: ErrorCode, reaction: ErrorReaction, after: IsrPhase
) -> None:
    await without_third(leader)
    leader.follow(THIRD, 2)
    proposal = led(leader).propose_expansion(THIRD)
    assert proposal is not None
    assert led(leader).take_isr_error(proposal, error) is reaction
    assert phase(leader) is after


async def test_a_follower_that_stops_cannot_join_and_holds_nothing_back(leader: Leader) -> None:
    """KAFKA-15021: acks=all would wait for a replica that can never join."""
    await without_third(leader)
    leader.follow(THIRD, 2)
    stopping = BrokerRegistrationChangeRecord(
        broker_id=THIRD, broker_epoch=30, in_controlled_shutdown=1
    )
    leader.publish(stopping)
    assert led(leader).propose_expansion(THIRD) is None
    leader.append(b"c", acks=1)
    leader.follow(SECOND, 3)
    assert leader.high_watermark == 3


async def test_what_a_follower_fetched_before_it_restarted_does_not_count(leader: Leader) -> None:
    """KIP-903: a replica may have lost in a crash what it told the leader before."""
    await without_third(leader)
    leader.follow(THIRD, 2, broker_epoch=30)
    leader.publish(RegisterBrokerRecord(broker_id=THIRD, broker_epoch=31, fenced=False))
    assert led(leader).propose_expansion(THIRD) is None
    late = leader.follow(THIRD, 2, broker_epoch=30)
    assert late.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.follow(THIRD, 2, broker_epoch=31)
    assert led(leader).propose_expansion(THIRD) is not None


async def test_a_request_in_flight_ends_with_the_leaders_term(leader: Leader) -> None:
    await without_third(leader)
    leader.follow(THIRD, 2)
    proposal = led(leader).propose_expansion(THIRD)
    assert proposal is not None
    leader.change(leader=LEADER)
    assert phase(leader) is IsrPhase.COMMITTED
    leader.change(leader=SECOND)
    assert not led(leader).take_isr_answer(answer(proposal), 0)
    assert led(leader).propose_shrink(0) is None
    with pytest.raises(KafkaError):
        led(leader).leader_log()


async def test_the_dead_do_not_hold_back_deletions(leader: Leader) -> None:
    leader.append(b"a", acks=1)
    leader.follow(SECOND, 1, log_start=1)
    leader.follow(THIRD, 1)
    partition = led(leader)
    partition.log.maybe_increment_log_start_offset(1)
    assert partition.low_watermark == 0
    fenced = BrokerRegistrationChangeRecord(broker_id=THIRD, broker_epoch=30, fenced=1)
    leader.publish(fenced)
    assert partition.low_watermark == 1


@pytest.mark.parametrize("epoch", [-5, 0, 19])
async def test_a_fetch_of_a_broker_that_has_restarted_since_moves_nothing(
    leader: Leader, epoch: int
) -> None:
    leader.append(b"a", acks=1)
    leader.follow(THIRD, 1, broker_epoch=30)
    refused = leader.follow(SECOND, 1, broker_epoch=epoch)
    assert (refused.error_code, refused.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    assert leader.high_watermark == 0
    leader.follow(SECOND, 1, broker_epoch=20)
    assert leader.high_watermark == 1

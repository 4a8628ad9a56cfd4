"""A broker that stops waits for its controllers, but not for ones that have ended."""

import pytest

from tierlog.broker.cluster.lost_majority import (
    GONE_FOR_S,
    is_majority_gone,
    until_majority_is_gone,
)
from tierlog.replication.raft.raft_actions import Destination
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from tierlog.tests.simulation.loop import SimulatedLoop


def voters(*ids: int) -> VoterSet:
    return VoterSet(Voter(VoterKey(each), {"C": Address("127.0.0.1", each)}) for each in ids)


@pytest.mark.parametrize(
    ("own_id", "ids", "gone", "expected"),
    [
        (1, (1, 2, 3), (), False),
        (1, (1, 2, 3), (2,), False),
        (1, (1, 2, 3), (2, 3), True),
        (9, (1, 2, 3), (2,), False),
        (9, (1, 2, 3), (1, 2), True),
        (9, (1,), (1,), True),
        (1, (1, 2), (2,), True),
        (1, (1, 2, 3, 4, 5), (4, 5), False),
        (1, (1, 2, 3, 4, 5), (3, 4, 5), True),
        (1, (), (), False),
    ],
)
def test_a_majority_is_gone(
    own_id: int, ids: tuple[int, ...], gone: tuple[int, ...], expected: bool
) -> None:
    assert is_majority_gone(own_id, voters(*ids), lambda at: at[1] in gone) is expected


async def test_only_a_lasting_loss_that_is_newer_than_the_stop_counts(loop: SimulatedLoop) -> None:
    # Voter 2 ended long ago, and voter 3 is away for a moment, and later for good.
    away = [(3.0, 3.5), (5.0, 100.0)]
    began = loop.time()

    def failed_since(at: tuple[str, int], since: float) -> bool:
        now = loop.time() - began
        if at[1] == 2:
            return now >= 1.0
        assert since >= began
        return at[1] == 3 and any(first <= now < last for first, last in away)

    async def refuses(_: Destination) -> bool:
        return True

    await until_majority_is_gone(1, lambda: voters(1, 2, 3), failed_since, refuses)
    assert 5.0 + GONE_FOR_S <= loop.time() - began < 5.3 + GONE_FOR_S


async def test_a_controller_that_has_lost_a_connection_and_lives_is_waited_for(
    loop: SimulatedLoop,
) -> None:
    """Voter 2 has ended. Voter 3 was reset once, and nothing was sent to it since."""
    ends_at = loop.time() + 7.0

    async def refuses(destination: Destination) -> bool:
        assert destination.node_id in (2, 3)
        return destination.node_id == 2 or loop.time() >= ends_at

    await until_majority_is_gone(1, lambda: voters(1, 2, 3), lambda _, __: True, refuses)
    assert ends_at <= loop.time() < ends_at + 2 * GONE_FOR_S

"""Three replicas, a tier, crashes and elections: each log ends up as its leader's."""

import pytest

from tierlog.tests.replication.replica_walk import ReplicaWalk

STEPS = 150
FOUND_SOMETHING = (72, 155, 264, 324, 1680, 2393, 2882, 5331, 20658)
"""Seeds of walks that once ended in a log unlike its leader's."""


@pytest.mark.scenario("3.5")
@pytest.mark.parametrize("seed", [*range(30), *FOUND_SOMETHING])
def test_replicas_become_like_the_leader_after_unclean_elections(seed: int) -> None:
    ReplicaWalk(seed, is_clean=False).run(STEPS)


@pytest.mark.scenario("3.6")
@pytest.mark.parametrize("seed", range(30))
def test_nothing_committed_is_lost_while_leaders_come_from_the_isr(seed: int) -> None:
    walk = ReplicaWalk(seed, is_clean=True)
    walk.run(STEPS)
    assert walk.committed

"""Where the replicas of a broker that leaves go."""

import pytest

from tierlog.testing.local_cluster.control_messages import RefusedError
from tierlog.testing.local_cluster.replica_moves import Partition, moves_away_from


def partition(index: int, *replicas: int) -> Partition:
    return Partition("t", index, replicas[0], replicas, frozenset(replicas))


def test_the_place_in_the_list_stays_and_the_emptiest_broker_is_chosen() -> None:
    partitions = [partition(0, 4, 1, 2), partition(1, 1, 2, 3), partition(2, 3, 4, 1)]
    moves = moves_away_from(4, partitions, [1, 2, 3, 4])
    assert moves == {("t", 0): (3, 1, 2), ("t", 2): (3, 2, 1)}


def test_replicas_are_spread_over_those_that_are_free() -> None:
    partitions = [partition(index, 3) for index in range(10)]
    moves = moves_away_from(3, partitions, [1, 2, 3])
    targets = [replicas[0] for replicas in moves.values()]
    assert (targets.count(1), targets.count(2)) == (5, 5)


def test_nobody_free_is_a_sentence_that_says_how() -> None:
    with pytest.raises(RefusedError, match=r"t-0 has 3 replicas.*tierlog cluster add"):
        moves_away_from(3, [partition(0, 1, 2, 3)], [1, 2, 3])


def test_a_broker_without_replicas_leaves_at_once() -> None:
    assert moves_away_from(3, [partition(0, 1, 2)], [1, 2, 3]) == {}

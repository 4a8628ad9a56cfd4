"""The replica that a consumer should read from: the rules of Kafka's `RackAwareReplicaSelector`."""

import pytest

from tierlog.replication.leader.replica_selection import ReplicaView, nearest_replica


@pytest.mark.parametrize(
    ("rack", "leader_rack", "followers", "chosen"),
    [
        # The leader: the client has no rack, its rack is the leader's, or nobody else's.
        ("", "a", [(2, "b", 5, 0)], None),
        ("a", "a", [(2, "a", 5, 0)], None),
        ("c", "a", [(2, "b", 5, 0)], None),
        ("b", "a", [], None),
        ("b", None, [(2, None, 5, 0)], None),
        # A follower of the rack, the most caught-up: by offset, then by time, then by id.
        ("b", "a", [(2, "b", 5, 0)], 2),
        ("b", None, [(2, "b", 5, 0)], 2),
        ("b", "a", [(2, "b", 5, 9), (3, "b", 6, 1), (4, "c", 7, 1)], 3),
        ("b", "a", [(2, "b", 5, 9), (3, "b", 5, 1)], 2),
        ("b", "a", [(2, "b", 5, 1), (3, "b", 5, 1)], 3),
    ],
)
def test_the_nearest_replica(
    rack: str,
    leader_rack: str | None,
    followers: list[tuple[int, str | None, int, int]],
    chosen: int | None,
) -> None:
    views = [ReplicaView(*each) for each in followers]
    assert nearest_replica(rack, leader_rack, views) == chosen
    assert nearest_replica(rack, leader_rack, reversed(views)) == chosen

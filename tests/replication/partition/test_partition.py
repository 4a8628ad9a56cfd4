"""The role of this broker in a partition, as a table, and the follower's progress behind it."""

import pytest
from hypothesis import given, strategies as st

from tierlog.replication.partition.high_watermark import (
    IsrView,
    effective_min_isr,
    next_high_watermark,
)
from tierlog.replication.partition.partition import TRANSITIONS, PartitionEvent, PartitionRole
from tierlog.replication.partition.replica import Replica

ROLE_AFTER = {
    PartitionEvent.LEAD: PartitionRole.LEADER,
    PartitionEvent.FOLLOW: PartitionRole.FOLLOWER,
    PartitionEvent.FAIL: PartitionRole.OFFLINE,
    PartitionEvent.REMOVE: PartitionRole.REMOVED,
}


@pytest.mark.parametrize("role", PartitionRole)
@pytest.mark.parametrize("event", PartitionEvent)
def test_every_role_and_event(role: PartitionRole, event: PartitionEvent) -> None:
    after = TRANSITIONS.get((role, event))
    if role is PartitionRole.REMOVED:
        assert after is None
    elif role is PartitionRole.OFFLINE and event is not PartitionEvent.REMOVE:
        assert after is PartitionRole.OFFLINE
    else:
        assert after is ROLE_AFTER[event]


def test_min_isr_cannot_ask_for_more_replicas_than_there_are() -> None:
    assert effective_min_isr(2, 1) == 1
    assert effective_min_isr(2, 3) == 2


replicas = st.dictionaries(st.sampled_from([2, 3, 4]), st.integers(-1, 50))


@given(
    ends=replicas,
    isr=st.sets(st.sampled_from([1, 2, 3, 4])).map(lambda isr: isr | {1}),
    current=st.integers(0, 50),
    leader_end=st.integers(0, 50),
    min_isr=st.integers(1, 3),
)
def test_the_high_watermark_never_falls_and_never_passes_an_in_sync_replica(
    ends: dict[int, int], isr: set[int], current: int, leader_end: int, min_isr: int
) -> None:
    followers: list[Replica] = []
    for broker_id, end in ends.items():
        follower = Replica(broker_id)
        follower.log_end_offset = end
        followers.append(follower)
    view = IsrView(1, isr, len(isr) < min_isr, 30_000)
    after = next_high_watermark(current, leader_end, followers, view, now_ms=1_000_000)
    assert after >= current
    if after > current:
        assert len(isr) >= min_isr
        assert after <= leader_end
        for follower in followers:
            if follower.broker_id in isr:
                assert after <= follower.log_end_offset


def test_a_replica_is_caught_up_while_it_reaches_what_was_the_end_at_its_last_fetch() -> None:
    replica = Replica(2)
    replica.on_fetch(10, 0, leader_end_offset=10, now_ms=1_000)
    assert replica.last_caught_up_ms == 1_000
    replica.on_fetch(10, 0, leader_end_offset=30, now_ms=2_000)
    # It holds all that there was at 1,000, but that is known already.
    assert replica.last_caught_up_ms == 1_000
    replica.on_fetch(30, 0, leader_end_offset=50, now_ms=3_000)
    # It holds what was the end at 2,000.
    assert replica.last_caught_up_ms == 2_000
    assert replica.is_caught_up(50, 32_000, 30_000)
    assert not replica.is_caught_up(50, 32_001, 30_000)
    assert replica.is_caught_up(30, 99_000, 30_000)


def test_a_replica_that_never_fetched_is_not_caught_up() -> None:
    assert not Replica(2).is_caught_up(0, 1_000_000, 30_000)

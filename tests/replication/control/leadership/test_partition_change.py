"""The one builder of partition changes, rule by rule (`PartitionChangeBuilderTest` in Kafka)."""

from typing import NamedTuple

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.leadership.partition_change import (
    RECOVERED,
    RECOVERING,
    Assignment,
    Candidates,
    ElectedLeader,
    Election,
    LiveBrokers,
    PartitionRules,
    PartitionTarget,
    build_change,
    choose_leader,
    complete,
)
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    PartitionImage,
    changed_partition,
)
from tierlog.replication.metadata.metadata_records import NO_LEADER, NO_LEADER_CHANGE

ALL = frozenset({1, 2, 3, 4})
WITHOUT_ELR = PartitionRules(effective_min_isr=1, has_elr=False)
ELR_OF_TWO = PartitionRules(effective_min_isr=2, has_elr=True)
EPOCH = 5


def directory(broker_id: int) -> Uuid:
    return Uuid(bytes([broker_id]) * 16)


def live(*active: int) -> LiveBrokers:
    """All brokers are registered; those that are not active are fenced."""
    brokers = {
        each: BrokerImage(
            each, 10, Uuid(bytes(16)), {}, None, each not in active, directories=(directory(each),)
        )
        for each in ALL
    }
    return LiveBrokers(brokers)


BEFORE = PartitionImage(
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=EPOCH,
    partition_epoch=EPOCH,
    directories=(directory(1), directory(2), directory(3)),
)


def changed(
    before: PartitionImage,
    target: PartitionTarget,
    active: LiveBrokers,
    rules: PartitionRules = WITHOUT_ELR,
    election: Election = Election.ONLINE,
) -> PartitionImage:
    """The partition after the change; itself if nothing changes."""
    record = build_change(before, target, election, rules, active)
    return before if record is None else changed_partition(before, record)


class Choice(NamedTuple):
    """An election among the replicas 2, 1 and 3, of which 1 has led."""

    election: Election
    isr: set[int]
    active: set[int]
    expected: int
    elr: frozenset[int] = frozenset()
    last_known: tuple[int, ...] = ()
    is_unclean: bool = False


ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN


@pytest.mark.parametrize(
    "choice",
    [
        Choice(ONLINE, {1, 2, 3}, {1, 2, 3}, expected=1),
        Choice(ONLINE, {1, 2, 3}, {2, 3}, expected=2),
        Choice(ONLINE, {1, 3}, {2, 3}, expected=3),
        Choice(ONLINE, {1}, {2, 3}, expected=NO_LEADER),
        Choice(PREFERRED, {1, 2, 3}, {1, 2, 3}, expected=2),
        Choice(PREFERRED, {1, 3}, {1, 2, 3}, expected=1),
        Choice(PREFERRED, {2, 3}, {1, 3}, expected=3),
        Choice(PREFERRED, {1}, {2, 3}, expected=NO_LEADER),
        Choice(UNCLEAN, {1, 3}, {2, 3}, expected=3),
        Choice(UNCLEAN, {1}, {2, 3}, expected=2, is_unclean=True),
        Choice(UNCLEAN, {1}, set(), expected=NO_LEADER),
        # The ELR counts only if the ISR is empty.
        Choice(ONLINE, set(), {2, 3}, expected=3, elr=frozenset({1, 3})),
        Choice(ONLINE, {1}, {2, 3}, expected=NO_LEADER, elr=frozenset({3})),
        Choice(ONLINE, set(), {1, 2}, expected=NO_LEADER, elr=frozenset({3})),
        # The last known leader, if there is exactly one, and nobody else to wait for.
        Choice(ONLINE, set(), {3}, expected=3, last_known=(3,), is_unclean=True),
        Choice(PREFERRED, set(), {3}, expected=3, last_known=(3,), is_unclean=True),
        Choice(ONLINE, set(), {1}, expected=NO_LEADER, last_known=(3,)),
        Choice(ONLINE, set(), {3}, NO_LEADER, elr=frozenset({1}), last_known=(3,)),
        Choice(ONLINE, set(), {2, 3}, expected=NO_LEADER, last_known=(2, 3)),
    ],
)
def test_who_is_elected(choice: Choice) -> None:
    candidates = Candidates(
        1, [2, 1, 3], choice.isr, choice.elr, choice.last_known, choice.active.__contains__
    )
    expected = ElectedLeader(choice.expected, choice.is_unclean)
    assert choose_leader(choice.election, candidates) == expected


def test_what_is_there_already_needs_no_record() -> None:
    target = PartitionTarget(isr=[1, 2, 3], replicas=[1, 2, 3], recovery_state=RECOVERED)
    assert build_change(BEFORE, target, ONLINE, WITHOUT_ELR, live(1, 2, 3)) is None


def test_a_smaller_isr_needs_no_new_leader_epoch() -> None:
    """KAFKA-15021: it would cost all clients a refresh of their metadata."""
    after = changed(BEFORE, PartitionTarget(isr=[1, 2]), live(1, 2, 3))
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2), EPOCH, EPOCH + 1)


def test_a_removed_replica_forces_a_new_leader_epoch() -> None:
    target = PartitionTarget(isr=[1, 2], replicas=[1, 2])
    after = changed(BEFORE, target, live(1, 2, 3))
    assert (after.leader, after.leader_epoch) == (1, EPOCH + 1)
    assert after.directories == (directory(1), directory(2))


def test_an_added_replica_does_not() -> None:
    target = PartitionTarget(replicas=[1, 2, 3, 4], adding=[4])
    record = build_change(BEFORE, target, ONLINE, WITHOUT_ELR, live(1, 2, 3))
    assert record is not None
    assert record.leader == NO_LEADER_CHANGE
    assert record.directories == [directory(each) for each in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("before", "isr_after"),
    [
        # All that are added are in sync.
        (Assignment([3, 4, 1, 2], [3, 4], [1, 2], [1, 2, 3, 4]), [3, 4]),
        (Assignment([3, 4, 1, 2], [3, 4], [1, 2], [1, 2, 3]), None),
        (Assignment([1, 3, 2], [3], [2], [3]), [3]),
        # More are removed than added: whoever stays must be in sync.
        (Assignment([3, 4, 1, 2], [4], [1, 2], [1, 4]), None),
        (Assignment([3, 4, 1, 2], [4], [1, 2], [1, 3, 4]), [3, 4]),
        (Assignment([1, 2], [], [2], [2]), None),
        (Assignment([1, 2], [], [], [1]), None),
    ],
)
def test_when_a_reassignment_ends(before: Assignment, isr_after: list[int] | None) -> None:
    after = complete(before)
    if isr_after is None:
        assert after == before
    else:
        replicas = [each for each in before.replicas if each not in before.removing]
        assert after == Assignment(replicas, [], [], isr_after)


def test_the_last_replica_stays_in_the_isr_without_elr() -> None:
    alone = changed(BEFORE, PartitionTarget(isr=[1]), live(1))
    after = changed(alone, PartitionTarget(isr=[]), live(2, 3))
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, alone.isr, ())


def test_replicas_that_leave_a_small_isr_become_eligible_leaders() -> None:
    two = changed(BEFORE, PartitionTarget(isr=[1, 2]), live(1, 2), ELR_OF_TWO)
    assert (two.isr, two.elr) == ((1, 2), ())
    one = changed(two, PartitionTarget(isr=[1]), live(1), ELR_OF_TWO)
    assert (one.isr, one.elr) == ((1,), (2,))
    none = changed(one, PartitionTarget(isr=[]), live(), ELR_OF_TWO)
    assert (none.leader, none.isr, none.elr) == (NO_LEADER, (), (2, 1))
    assert none.last_known_elr == (1,)
    back = changed(none, PartitionTarget(), live(2), ELR_OF_TWO)
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (2, (2,), (1,), ())
    assert back.leader_recovery_state == RECOVERED
    whole = changed(back, PartitionTarget(isr=[2, 1]), live(1, 2), ELR_OF_TWO)
    assert (whole.isr, whole.elr) == ((2, 1), ())


def test_a_replica_that_may_have_lost_records_is_not_eligible() -> None:
    target = PartitionTarget(isr=[], unclean_shutdown=[1])
    alone = changed(BEFORE, PartitionTarget(isr=[1]), live(1), ELR_OF_TWO)
    after = changed(alone, target, live(), ELR_OF_TWO)
    assert (after.isr, after.elr, after.last_known_elr) == ((), (2, 3), (1,))


def test_no_eligible_leaders_are_kept_beside_a_large_enough_isr() -> None:
    """min.insync.replicas was 2 when both left, and is 1 now that one comes back."""
    one = changed(BEFORE, PartitionTarget(isr=[1]), live(1), ELR_OF_TWO)
    none = changed(one, PartitionTarget(isr=[]), live(), ELR_OF_TWO)
    assert none.elr == (2, 3, 1)
    rules = ELR_OF_TWO._replace(effective_min_isr=1)
    back = changed(none, PartitionTarget(), live(3), rules)
    assert (back.leader, back.isr, back.elr) == (3, (3,), ())


def test_an_unclean_leader_is_the_whole_isr_and_recovering() -> None:
    one = changed(BEFORE, PartitionTarget(isr=[1]), live(1))
    after = changed(one, PartitionTarget(), live(2, 3), election=UNCLEAN)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), EPOCH + 1)
    assert after.leader_recovery_state == RECOVERING
    done = changed(after, PartitionTarget(isr=[2], recovery_state=RECOVERED), live(2, 3))
    assert (done.leader_recovery_state, done.leader_epoch) == (RECOVERED, EPOCH + 1)


def test_a_replica_without_its_directory_is_not_elected() -> None:
    moved = PartitionTarget(directories={2: directory(9)})
    offline = changed(BEFORE, moved, live(1, 2, 3))
    after = changed(offline, PartitionTarget(isr=[2, 3]), live(2, 3))
    assert after.leader == 3


def test_a_broker_that_comes_leads_before_its_record_is_replayed() -> None:
    leaderless = changed(BEFORE, PartitionTarget(), live())
    assert leaderless.leader == NO_LEADER
    coming = LiveBrokers(live().brokers, arriving=2)
    assert changed(leaderless, PartitionTarget(), coming).leader == 2
    going = LiveBrokers(live(1, 2, 3).brokers, leaving=1)
    assert changed(BEFORE, PartitionTarget(isr=[2, 3]), going).leader == 2

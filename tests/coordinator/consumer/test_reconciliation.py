"""A partition is never held by two members, whatever they say and whenever they say it."""

from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.coordinator.consumer.reconciliation import (
    REACTIONS,
    CurrentAssignment,
    HeartbeatTarget,
    MemberEvent,
    MemberReaction,
    MemberState,
    reconcile,
)
from tierlog.coordinator.consumer.topic_partitions import NOTHING, Partition, Partitions

RED = Uuid(b"r" * 16)
BLUE = Uuid(b"b" * 16)
ALL = [(RED, 0), (RED, 1), (RED, 2), (BLUE, 0), (BLUE, 1)]
BOTH_TOPICS = frozenset({RED, BLUE})
MEMBERS = ["anna", "bert", "cleo"]


def some(*partitions: Partition) -> Partitions:
    return frozenset(partitions)


def assignment(
    target: Partitions,
    owned: Partitions | None,
    *,
    epoch: int = 2,
    subscribed: frozenset[Uuid] = BOTH_TOPICS,
    subscription_changed: bool = False,
) -> HeartbeatTarget:
    return HeartbeatTarget(epoch, target, subscribed, subscription_changed, owned)


def free(_: Partition) -> bool:
    return False


def taken(_: Partition) -> bool:
    return True


def test_every_state_and_event_is_in_the_table() -> None:
    assert set(REACTIONS) == set(product(MemberState, MemberEvent))
    assert REACTIONS[MemberState.STABLE, MemberEvent.TARGET_SAME] is MemberReaction.STAY
    assert (
        REACTIONS[MemberState.UNREVOKED_PARTITIONS, MemberEvent.STILL_OWNS] is MemberReaction.STAY
    )


def test_a_new_member_gets_what_is_free_at_the_target_s_epoch() -> None:
    current = reconcile(CurrentAssignment(), assignment(some(ALL[0], ALL[1]), NOTHING), free)
    assert current == CurrentAssignment(2, 0, MemberState.STABLE, {ALL[0]: 2, ALL[1]: 2}, {})


def test_what_another_member_holds_is_waited_for() -> None:
    current = reconcile(
        CurrentAssignment(), assignment(some(ALL[0], ALL[1]), NOTHING), lambda each: each == ALL[0]
    )
    assert current.state is MemberState.UNRELEASED_PARTITIONS
    assert current.assigned == {ALL[1]: 2}
    later = reconcile(current, assignment(some(ALL[0], ALL[1]), None), free)
    assert later == CurrentAssignment(2, 2, MemberState.STABLE, {ALL[0]: 2, ALL[1]: 2}, {})


def test_what_is_to_be_given_up_keeps_the_member_at_its_epoch_until_it_is() -> None:
    stable = CurrentAssignment(1, 0, MemberState.STABLE, {ALL[0]: 1, ALL[1]: 1})
    target = some(ALL[0], ALL[2])
    waiting = reconcile(stable, assignment(target, None), free)
    expected = CurrentAssignment(1, 1, MemberState.UNREVOKED_PARTITIONS, {ALL[0]: 1}, {ALL[1]: 1})
    assert waiting == expected
    assert reconcile(waiting, assignment(target, None), free) == waiting
    assert reconcile(waiting, assignment(target, some(ALL[1])), free) == waiting
    moved = reconcile(waiting, assignment(target, some(ALL[0])), free)
    assert moved == CurrentAssignment(2, 1, MemberState.STABLE, {ALL[0]: 1, ALL[2]: 2}, {})


def test_what_was_to_be_given_up_may_be_had_back() -> None:
    waiting = CurrentAssignment(1, 1, MemberState.UNREVOKED_PARTITIONS, {ALL[0]: 1}, {ALL[1]: 1})
    back = reconcile(waiting, assignment(some(ALL[0], ALL[1]), some(ALL[0]), epoch=3), taken)
    assert back == CurrentAssignment(3, 1, MemberState.STABLE, {ALL[0]: 1, ALL[1]: 3}, {})


def test_who_drops_a_topic_gives_it_up_before_a_target_says_so() -> None:
    stable = CurrentAssignment(2, 1, MemberState.STABLE, {ALL[0]: 1, ALL[3]: 1})
    dropped = assignment(
        some(ALL[0], ALL[3]), None, subscribed=frozenset({RED}), subscription_changed=True
    )
    waiting = reconcile(stable, dropped, free)
    expected = CurrentAssignment(2, 2, MemberState.UNREVOKED_PARTITIONS, {ALL[0]: 1}, {ALL[3]: 1})
    assert waiting == expected
    already_gone = reconcile(stable, dropped._replace(owned=some(ALL[0])), free)
    assert already_gone == CurrentAssignment(2, 2, MemberState.STABLE, {ALL[0]: 1}, {})


def test_a_topic_that_is_no_longer_subscribed_is_not_taken_whatever_the_target_says() -> None:
    current = reconcile(
        CurrentAssignment(), assignment(some(*ALL), NOTHING, subscribed=frozenset({BLUE})), free
    )
    assert set(current.assigned) == {ALL[3], ALL[4]}


def test_a_state_of_a_newer_kafka_starts_over_with_nothing() -> None:
    unknown = CurrentAssignment(1, 0, MemberState.UNKNOWN)
    with pytest.raises(KafkaError) as refused:
        reconcile(unknown, assignment(some(ALL[0]), None), free)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    current = reconcile(unknown, assignment(some(ALL[0]), NOTHING), free)
    assert (current.epoch, current.state) == (2, MemberState.STABLE)


class Group:
    """Members, their clients, and a target that moves."""

    def __init__(self) -> None:
        self.epoch = 0
        self.target = dict.fromkeys(MEMBERS, NOTHING)
        self.subscribed = dict.fromkeys(MEMBERS, BOTH_TOPICS)
        self.current = {member: CurrentAssignment() for member in MEMBERS}
        # What each client really reads.
        self.client = dict.fromkeys(MEMBERS, NOTHING)

    def is_held(self, partition: Partition) -> bool:
        return any(
            partition in current.assigned or partition in current.revoking
            for current in self.current.values()
        )

    def retarget(self, owners: list[str | None]) -> None:
        self.epoch += 1
        for member in MEMBERS:
            self.target[member] = some(
                *(each for each, owner in zip(ALL, owners, strict=True) if owner == member)
            )

    def beat(self, member: str, speaks: bool, changed: bool = False) -> None:
        owned = self.client[member] if speaks else None
        target = HeartbeatTarget(
            self.epoch, self.target[member], self.subscribed[member], changed, owned
        )
        self.current[member] = reconcile(self.current[member], target, self.is_held)
        self.check()

    def obey(self, member: str) -> None:
        """The client takes over what it was told."""
        self.client[member] = frozenset(self.current[member].assigned)
        self.check()

    def check(self) -> None:
        holders: dict[Partition, str] = {}
        readers: dict[Partition, str] = {}
        for member, current in self.current.items():
            assert not current.assigned.keys() & current.revoking.keys()
            for each in (*current.assigned, *current.revoking):
                assert holders.setdefault(each, member) == member
            for each in self.client[member]:
                assert readers.setdefault(each, member) == member, "two clients read one partition"


Operation: TypeAlias = tuple[str, str, bool, list[str | None]]

operations = st.tuples(
    st.sampled_from(["target", "beat", "beat", "obey", "leave", "drop", "want"]),
    st.sampled_from(MEMBERS),
    st.booleans(),
    st.lists(st.sampled_from([*MEMBERS, None]), min_size=len(ALL), max_size=len(ALL)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(operations, max_size=60))
def test_a_walk_keeps_the_invariant_and_ends_at_the_target(walk: list[Operation]) -> None:
    group = Group()
    for kind, member, speaks, owners in walk:
        match kind:
            case "target":
                group.retarget(owners)
            case "beat":
                group.beat(member, speaks)
            case "obey":
                group.obey(member)
            case "leave":
                group.current[member] = CurrentAssignment()
                group.client[member] = NOTHING
            case _:
                group.subscribed[member] = frozenset({RED}) if kind == "drop" else BOTH_TOPICS
                group.beat(member, speaks, changed=True)
    group.epoch += 1
    for _ in range(6):
        for member in MEMBERS:
            group.obey(member)
            group.beat(member, speaks=True)
    for member in MEMBERS:
        wanted = {each for each in group.target[member] if each[0] in group.subscribed[member]}
        assert set(group.current[member].assigned) == wanted
        assert group.current[member].is_reconciled_to(group.epoch)

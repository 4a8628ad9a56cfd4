"""A group changes its protocol and keeps its members; what may not change is refused."""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.coordinator.classic.classic_group import ClassicGroup
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.consumer.consumer_embedded import read_assignment, read_subscription
from tierlog.coordinator.consumer.consumer_group import ConsumerGroupState
from tierlog.coordinator.consumer.consumer_group_update import GroupChange
from tierlog.coordinator.consumer.topic_partitions import NOTHING, Partitions
from tierlog.coordinator.group import classic_members
from tierlog.coordinator.group_actions import (
    GroupProtocol,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig

from ..consumer_group_driver import GROUP, ConsumerGroupDriver, parts, topic_id
from .folded_group import folded, state_of
from .member_wishes import topic_list, wish

SESSION_MS = 10_000
REBALANCE_MS = 20_000


def gift(given: Iterable[int], user_data: bytes = b"") -> bytes:
    return struct.pack(">h", 1) + topic_list(given) + struct.pack(">i", len(user_data)) + user_data


class MixedDriver(ConsumerGroupDriver):
    """A group whose members may speak either protocol."""

    def __init__(self, config: GroupCoordinatorConfig | None = None) -> None:
        super().__init__({"red": 2}, config=config or GroupCoordinatorConfig())
        self._waiter = 0

    @property
    def classic(self) -> ClassicGroup:
        return self.shard.groups[GROUP]

    def classic_is(self, state: GroupState) -> bool:
        return self.classic.state is state

    def join_request(
        self, name: str, owned: Iterable[int] = (), instance_id: str | None = None
    ) -> JoinRequest:
        return JoinRequest(
            GROUP,
            name,
            instance_id,
            name,
            "/127.0.0.1",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (GroupProtocol("range", wish(owned)),),
            f"new {name}",
            True,
            True,
        )

    def join_classic(self, request: JoinRequest) -> JoinResult | None:
        """A JoinGroup to whichever group is there."""
        self._waiter += 1
        waiter = self._waiter
        if GROUP in self.shard.consumer_groups and not self.group.members:
            self.carry_out(GROUP, GroupChange(tuple(self.group.tombstones())))
        if GROUP in self.shard.consumer_groups:
            change, result = classic_members.join(self.group, request, self.context())
            self.carry_out(GROUP, change)
            return result
        self.carry_out_actions(self.shard.join(request, waiter, self.now_ms))
        return self.joins.get(waiter)

    def sync_classic(self, name: str, generation: int, given: Iterable[int] = ()) -> Partitions:
        """A SyncGroup; what it was given."""
        self._waiter += 1
        waiter = self._waiter
        request = SyncRequest(
            GROUP, name, None, generation, "consumer", "range", {name: gift(given)}
        )
        if GROUP in self.shard.consumer_groups:
            change, result = classic_members.sync(self.group, request, self.context())
            self.carry_out(GROUP, change)
        else:
            self.carry_out_actions(self.shard.sync(request, waiter, self.now_ms))
            result = self.syncs.get(waiter, SyncResult())
        return read_assignment(result.assignment, self.image)[0]

    def heartbeat_classic(self, name: str, generation: int) -> ErrorCode:
        identity = MemberIdentity(name, None)
        if GROUP not in self.shard.consumer_groups:
            error, actions = self.shard.heartbeat(GROUP, identity, generation, self.now_ms)
            self.carry_out_actions(actions)
            return error
        error, change = classic_members.heartbeat(self.group, identity, generation)
        self.carry_out(GROUP, change)
        return error

    def found_classic(self, name: str = "carl") -> None:
        """A stable classic group of one member, who has all of the topic."""
        first = self.join_classic(self.join_request("")._replace(new_member_id=name))
        assert first == JoinResult(name, ErrorCode.MEMBER_ID_REQUIRED)
        self.join_classic(self.join_request(name))
        self.pass_time(self.config.group_initial_rebalance_delay_ms)
        self.sync_classic(name, 1, [0, 1])
        assert self.classic_is(GroupState.STABLE)


def test_the_first_consumer_turns_the_group_and_everyone_keeps_what_they_had() -> None:
    groups = MixedDriver()
    groups.found_classic()
    answer = groups.join("anna")
    assert GROUP not in groups.shard.groups
    carl = groups.group.members["carl"]
    assert set(carl.current.assigned) == parts("red", 0, 1)
    assert carl.is_classic
    assert answer.assigned == {}
    assert groups.group.epoch == answer.member_epoch == 2
    key = TimerKey(GROUP, TimerKind.SESSION, "carl")
    assert groups.timers[key] == groups.now_ms + SESSION_MS


def test_a_parked_request_has_to_retry() -> None:
    groups = MixedDriver()
    groups.found_classic()
    other = groups.join_request("dave", instance_id="fourth")._replace(member_id="")
    assert groups.join_classic(other) is None
    assert groups.classic_is(GroupState.PREPARING_REBALANCE)
    groups.join("anna")
    errors = [result.error for result in groups.joins.values()]
    assert ErrorCode.REBALANCE_IN_PROGRESS in errors
    assert set(groups.group.members) == {"carl", "new dave", "anna"}


def test_a_classic_member_gives_up_and_takes_by_joining_again() -> None:
    groups = MixedDriver()
    groups.found_classic()
    groups.join("anna")
    assert groups.heartbeat_classic("carl", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = groups.join_classic(groups.join_request("carl", owned=[0, 1]))
    assert again is not None
    assert again.generation == 1, "it is to give up one first"
    kept = groups.sync_classic("carl", 1)
    assert len(kept) == 1
    assert groups.heartbeat_classic("carl", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    once_more = groups.join_classic(groups.join_request("carl", owned=[n for _, n in kept]))
    assert once_more is not None
    assert once_more.generation == 2
    assert groups.sync_classic("carl", 2) == kept
    assert groups.heartbeat_classic("carl", 2) is ErrorCode.NONE
    groups.settle("anna")
    assert groups.owned["anna"] | kept == parts("red", 0, 1)
    assert groups.is_in(ConsumerGroupState.STABLE)


@pytest.mark.parametrize("kind", [TimerKind.JOIN, TimerKind.SYNC])
def test_who_does_not_come_when_called_is_out(kind: TimerKind) -> None:
    groups = MixedDriver()
    groups.found_classic()
    groups.join("anna")
    assert groups.heartbeat_classic("carl", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    if kind is TimerKind.SYNC:
        groups.join_classic(groups.join_request("carl", owned=[0, 1]))
        assert groups.heartbeat_classic("carl", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first_due = groups.timers[TimerKey(GROUP, kind, "carl")]
    for _ in range(REBALANCE_MS // 5_000 - 1):
        groups.pass_time(5_000)
        groups.beat("anna")
        groups.heartbeat_classic("carl", 1)
    assert groups.timers[TimerKey(GROUP, kind, "carl")] == first_due, "calls do not add up"
    groups.pass_time(5_000)
    assert list(groups.group.members) == ["anna"]


def test_without_consumers_the_group_is_a_classic_one_again() -> None:
    groups = MixedDriver()
    groups.found_classic()
    groups.join("anna")
    since = len(groups.log)
    groups.leave("anna")
    assert GROUP not in groups.shard.consumer_groups
    assert groups.classic_is(GroupState.PREPARING_REBALANCE)
    assert groups.written(since)[-3:] == ["PartitionMetadata-", "GroupMetadata-", "Group"]
    (carl,) = groups.classic.members.by_id.values()
    given, _ = read_assignment(carl.assignment, groups.image)
    assert given in (parts("red", 0), parts("red", 1))
    assert {key.kind for key in groups.timers if key.member_id} == {TimerKind.SESSION}
    assert groups.heartbeat_classic("carl", 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_consumer_takes_the_group_down_too() -> None:
    groups = MixedDriver()
    groups.found_classic()
    groups.join("anna")
    for _ in range(9):
        groups.pass_time(5_000)
        if GROUP in groups.shard.consumer_groups:
            groups.heartbeat_classic("carl", 1)
            groups.join_classic(groups.join_request("carl", owned=[0, 1]))
    assert groups.classic.members.by_id.keys() == {"carl"}


@pytest.mark.parametrize(
    ("policy", "goes_up", "goes_down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy_says_which_way_is_open(policy: str, goes_up: bool, goes_down: bool) -> None:
    config = GroupCoordinatorConfig(consumer_migration_policy=policy)
    groups = MixedDriver(config)
    groups.found_classic()
    if goes_up:
        groups.join("anna")
    else:
        with pytest.raises(KafkaError) as refused:
            groups.join("anna")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    mixed = MixedDriver(config)
    mixed.join("anna")
    if policy == "disabled":
        with pytest.raises(KafkaError) as apart:
            mixed.join_classic(mixed.join_request("carl"))
        assert apart.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    mixed.join_classic(mixed.join_request("carl"))
    mixed.leave("anna")
    assert (GROUP in mixed.shard.groups) == goes_down


@pytest.mark.parametrize("assignment", [b"\0", gift([0], user_data=b"mine"), b"\0\1\xff"])
def test_what_a_leader_said_in_its_own_words_cannot_be_taken_over(assignment: bytes) -> None:
    groups = MixedDriver()
    groups.found_classic()
    groups.classic.members.by_id["carl"].assignment = assignment
    with pytest.raises(KafkaError) as refused:
        groups.join("anna")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.classic_is(GroupState.STABLE)


def test_who_has_never_synced_has_nothing() -> None:
    groups = MixedDriver()
    assert read_assignment(b"", groups.image) == (NOTHING, b"")
    subscription = read_subscription(wish([1]), groups.image)
    assert subscription.topics == ("red",)
    assert subscription.owned == {(topic_id("red"), 1)}


class Deed(NamedTuple):
    """What somebody does."""

    kind: str
    name: str
    number: int


CONSUMERS, CLASSICS = ["anna", "bert"], ["carl", "dave"]
deeds = st.one_of(
    st.builds(
        Deed,
        st.sampled_from(["join", "beat", "beat", "leave"]),
        st.sampled_from(CONSUMERS),
        st.integers(0, 3),
    ),
    st.builds(
        Deed,
        st.sampled_from(["join", "sync", "sync", "heartbeat", "leave"]),
        st.sampled_from(CLASSICS),
        st.integers(0, 3),
    ),
    st.builds(Deed, st.just("time"), st.just(""), st.integers(0, 3)),
)


class Walk:
    """Members of both protocols in one group; the classic ones say what they were told last."""

    def __init__(self) -> None:
        self.groups = MixedDriver()
        self.generations: dict[str, int] = {}

    def do(self, deed: Deed) -> None:
        groups, name = self.groups, deed.name
        try:
            if deed.kind == "time":
                groups.pass_time([500, 3_000, 9_000, 46_000][deed.number])
            elif name in CONSUMERS:
                self._consumer(deed)
            else:
                self._classic(deed)
        except KafkaError:
            groups.owned.pop(name, None)
            groups.epochs.pop(name, None)
        self.check()

    def _consumer(self, deed: Deed) -> None:
        if deed.kind == "join":
            self.groups.owned.pop(deed.name, None)
            self.groups.join(deed.name)
        elif GROUP in self.groups.shard.consumer_groups:
            if deed.kind == "beat":
                self.groups.beat(deed.name)
            else:
                self.groups.leave(deed.name)

    def _classic(self, deed: Deed) -> None:
        groups, name = self.groups, deed.name
        generation = self.generations.get(name, 0)
        match deed.kind:
            case "join":
                owned = [number for _, number in groups.owned.get(name, NOTHING)]
                known = self._knows(name)
                request = groups.join_request(name if known else "", owned)
                request = request._replace(new_member_id=name, requires_known_member_id=False)
                result = groups.join_classic(request)
                if result is not None and not result.error:
                    self.generations[name] = result.generation
            case "sync":
                groups.owned[name] = groups.sync_classic(name, generation, [0, 1])
            case "heartbeat":
                groups.heartbeat_classic(name, generation)
            case _ if GROUP in groups.shard.consumer_groups:
                identity = [MemberIdentity(name, None)]
                change, _ = classic_members.leave(groups.group, identity, groups.context())
                groups.carry_out(GROUP, change)
            case _:
                identity = [MemberIdentity(name, None)]
                _, actions = groups.shard.leave(GROUP, identity, groups.now_ms)
                groups.carry_out_actions(actions)

    def _knows(self, name: str) -> bool:
        consumers = self.groups.shard.consumer_groups.get(GROUP)
        if consumers is not None:
            return name in consumers.members
        classic = self.groups.shard.groups.get(GROUP)
        return classic is not None and name in classic.members

    def check(self) -> None:
        shard = self.groups.shard
        assert not (GROUP in shard.groups and GROUP in shard.consumer_groups)
        if GROUP in shard.consumer_groups:
            self.groups.holders()
            assert all(
                member.epoch <= self.groups.group.epoch
                for member in self.groups.group.members.values()
            )


@settings(max_examples=250, deadline=None)
@given(st.lists(deeds, max_size=40))
def test_a_walk_of_both_protocols_keeps_one_group_and_its_log_tells_it(walk: list[Deed]) -> None:
    context = Walk()
    for deed in walk:
        context.do(deed)
    shard = context.groups.shard
    again = folded(context.groups.log)
    found = again.consumer_groups.get(GROUP)
    assert state_of(found) == state_of(shard.consumer_groups.get(GROUP))
    if GROUP in shard.groups:
        assert GROUP in again.groups

"""Whatever members do, in whatever order, a group stays consistent and nobody is forgotten."""

from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group_actions import (
    GroupProtocol,
    JoinRequest,
    MemberIdentity,
    TimerKind,
    Waiter,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig

from ..group_driver import GroupDriver, join_request, static_request

NAMES = ["anna", "lena", "mona", "nina"]
INSTANCES = ["sam", "tom"]
CONFIG = GroupCoordinatorConfig(group_max_size=4)

name = st.sampled_from(NAMES)
instance = st.sampled_from(INSTANCES)
step = st.one_of(
    st.tuples(st.just("ask for an id"), name),
    st.tuples(st.just("join"), name),
    st.tuples(st.just("join otherwise"), name),
    st.tuples(st.just("join as static"), instance),
    st.tuples(st.just("sync"), st.integers(0, 5)),
    st.tuples(st.just("heartbeat"), st.integers(0, 5)),
    st.tuples(st.just("commit"), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("pass time"), st.sampled_from([1, 1_000, 3_000, 10_000, 60_000])),
    st.tuples(st.just("hold writes"), st.booleans()),
    st.tuples(st.just("settle"), st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])),
)


class Crowd:
    """Members that do things to one group; knows which of their requests are still parked."""

    def __init__(self) -> None:
        self.driver = GroupDriver(CONFIG)
        self.joins: set[Waiter] = set()
        self.syncs: set[Waiter] = set()
        self.generation = 0
        self._static_number = 0

    def act(self, what: str, detail: object) -> None:
        """Do one thing."""
        match what, detail:
            case "ask for an id", str(who):
                # A real coordinator never draws the same id twice.
                known = self.driver.group.members
                if who not in known and who not in known.pending_joins:
                    self._join(join_request(name=who))
            case "join", str(who):
                self._join(join_request(who, who))
            case "join otherwise", str(who):
                protocols = (GroupProtocol("range", b"new"), GroupProtocol("sticky", b""))
                self._join(join_request(who, who)._replace(protocols=protocols))
            case "join as static", str(who):
                self._static_number += 1
                self._join(static_request(who, f"{who}-{self._static_number}"))
            case "pass time", int(duration_ms):
                self.driver.pass_time(duration_ms)
            case "hold writes", bool(hold):
                self.driver.hold_writes = hold
            case "settle", ErrorCode() as error:
                self.driver.settle_writes(error)
            case _, int(number):
                self._as_member(what, number)
            case _:
                raise AssertionError((what, detail))

    def _join(self, request: JoinRequest) -> None:
        self.joins.add(self.driver.send_join(request))

    def _as_member(self, what: str, number: int) -> None:
        members = list(self.driver.group.members.by_id.values())
        if number >= len(members):
            return
        member = members[number]
        identity = MemberIdentity(member.member_id, member.instance_id)
        group, generation = self.driver.group, self.driver.group.generation
        match what:
            case "sync":
                request = self.driver.sync_request(member.member_id, {member.member_id: b"all"})
                request = request._replace(instance_id=member.instance_id)
                self.syncs.add(self.driver.send_sync(request))
            case "heartbeat":
                self.driver.carry_out(group.heartbeat(identity, generation, 0)[1])
            case "commit":
                self.driver.carry_out(group.check_offset_commit(identity, generation, 0)[1])
            case _:
                assert what == "leave"
                self.driver.carry_out(group.leave([identity], 0)[1])

    def check(self) -> None:
        """Everything that must hold between two events."""
        group, members = self.driver.group, self.driver.group.members
        assert group.generation >= self.generation
        self.generation = group.generation
        assert (members.leader_id is None) == (not len(members))
        assert members.leader_id is None or members.leader_id in members
        for instance_id, member_id in members.static_ids.items():
            assert members.by_id[member_id].instance_id == instance_id
        assert not members.pending_joins & set(members.by_id)
        assert members.pending_syncs <= set(members.by_id)
        assert len(members) <= CONFIG.group_max_size
        self._check_parked()
        self._check_timers()

    def _check_parked(self) -> None:
        """Every request is either answered or parked with a member; never both, never neither."""
        driver = self.driver
        members = list(driver.group.members.by_id.values())
        parked_joins = {each.join_waiter for each in members} - {None}
        parked_syncs = {each.sync_waiter for each in members} - {None}
        assert parked_joins == self.joins - set(driver.joins)
        assert parked_syncs == self.syncs - set(driver.syncs)
        if driver.state in {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE}:
            assert not parked_joins
        if driver.state is GroupState.EMPTY:
            assert not members
        if driver.state is not GroupState.COMPLETING_REBALANCE:
            assert not parked_syncs

    def _check_timers(self) -> None:
        """Nobody is in the group without a limit, and no rebalance waits without one."""
        group, timers = self.driver.group, self.driver.timers
        timed = {key.member_id for key in timers if key.kind is TimerKind.SESSION}
        assert timed <= {*group.members.by_id, *group.members.pending_joins}
        for member in group.members.by_id.values():
            assert member.member_id in timed or member.outlives_session
        assert group.members.pending_joins <= timed
        kinds = {key.kind for key in timers}
        waits = {TimerKind.REBALANCE, TimerKind.INITIAL_DELAY}
        assert bool(kinds & waits) == (group.state is GroupState.PREPARING_REBALANCE)
        if group.members.pending_syncs and group.state is not GroupState.PREPARING_REBALANCE:
            assert TimerKind.SYNC in kinds


@settings(max_examples=200, deadline=None)
@given(st.lists(step, max_size=40))
def test_a_group_stays_consistent_and_answers_everyone(steps: list[tuple[str, object]]) -> None:
    crowd = Crowd()
    for what, detail in steps:
        crowd.act(what, detail)
        crowd.check()
    crowd.driver.settle_writes()
    crowd.driver.hold_writes = False
    # Left alone, every member's time runs out, and with it whatever was parked.
    crowd.driver.pass_time(1_000_000)
    crowd.check()
    assert crowd.driver.is_in(GroupState.EMPTY)
    assert crowd.joins == set(crowd.driver.joins)
    assert crowd.syncs == set(crowd.driver.syncs)

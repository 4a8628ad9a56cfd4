"""Joining, syncing, heartbeating, leaving and committing in a classic group (G1-G11)."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group_actions import (
    GroupProtocol,
    JoinedMember,
    JoinResult,
    MemberIdentity,
    SyncResult,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig

from ..group_driver import GroupDriver, join_request


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def test_a_member_without_an_id_is_sent_away_with_one_and_then_admitted(
    driver: GroupDriver,
) -> None:
    first = driver.send_join(join_request(name="anna"))
    assert driver.joins[first] == JoinResult("anna", ErrorCode.MEMBER_ID_REQUIRED)
    assert driver.is_in(GroupState.EMPTY)
    second = driver.send_join(join_request("anna"))
    assert second not in driver.joins, "it is parked until the generation begins"
    driver.pass_time(3_000)
    assert driver.joins[second] == JoinResult(
        "anna",
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="anna",
        members=(JoinedMember("anna", None, b"range metadata"),),
    )


def test_before_kip_394_a_member_without_an_id_is_admitted_at_once(driver: GroupDriver) -> None:
    waiter = driver.send_join(join_request(name="anna")._replace(requires_known_member_id=False))
    driver.pass_time(3_000)
    assert driver.joins[waiter].member_id == "anna"


def test_the_first_to_come_leads_and_only_the_leader_hears_of_the_others(
    driver: GroupDriver,
) -> None:
    anna, lena = driver.join("anna"), driver.join("lena")
    driver.pass_time(6_000)
    assert [member.member_id for member in driver.joins[anna].members] == ["anna", "lena"]
    assert driver.joins[lena].members == ()
    assert driver.joins[anna].leader == driver.joins[lena].leader == "anna"


def test_followers_are_answered_when_the_leaders_assignment_is_in_the_log(
    driver: GroupDriver,
) -> None:
    driver.join("anna")
    driver.join("lena")
    driver.pass_time(6_000)
    driver.hold_writes = True
    lena = driver.sync("lena")
    anna = driver.sync("anna", {"anna": b"0", "lena": b"1"})
    assert driver.syncs == {}
    driver.settle_writes()
    assert driver.syncs[anna] == SyncResult(ErrorCode.NONE, "consumer", "range", b"0")
    assert driver.syncs[lena].assignment == b"1"
    assert {saved.member_id: saved.assignment for saved in driver.log[-1].members} == {
        "anna": b"0",
        "lena": b"1",
    }


def test_whom_the_leader_forgets_gets_an_empty_assignment(driver: GroupDriver) -> None:
    driver.join("anna")
    driver.join("lena")
    driver.pass_time(6_000)
    lena = driver.sync("lena")
    driver.sync("anna", {"anna": b"all", "nobody": b"ignored"})
    assert driver.syncs[lena] == SyncResult(ErrorCode.NONE, "consumer", "range", b"")


def test_an_assignment_that_cannot_be_written_sends_everyone_back_to_join(
    driver: GroupDriver,
) -> None:
    driver.join("anna")
    driver.join("lena")
    driver.pass_time(6_000)
    driver.hold_writes = True
    lena = driver.sync("lena")
    anna = driver.sync("anna", {"anna": b"0"})
    driver.settle_writes(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert driver.syncs[anna].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.syncs[lena].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.is_in(GroupState.PREPARING_REBALANCE)


def test_a_write_that_ends_after_the_next_rebalance_began_changes_nothing(
    driver: GroupDriver,
) -> None:
    driver.join("anna")
    driver.pass_time(3_000)
    driver.hold_writes = True
    anna = driver.sync("anna", {"anna": b"stale"})
    driver.join("lena")
    assert driver.syncs[anna].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.rejoin("anna")
    assert driver.is_in(GroupState.COMPLETING_REBALANCE)
    driver.settle_writes()
    assert driver.is_in(GroupState.COMPLETING_REBALANCE)
    assert driver.group.members.by_id["anna"].assignment == b""


def test_a_newcomer_calls_the_members_to_rejoin(driver: GroupDriver) -> None:
    driver.stable("anna")
    assert driver.heartbeat("anna") is ErrorCode.NONE
    lena = driver.join("lena")
    assert driver.heartbeat("anna") is ErrorCode.REBALANCE_IN_PROGRESS
    anna = driver.rejoin("anna")
    assert driver.joins[anna].generation == driver.joins[lena].generation == 2
    assert driver.joins[anna].leader == "anna"


def test_a_rebalance_waits_for_a_member_that_was_promised_a_place(driver: GroupDriver) -> None:
    driver.stable("anna")
    driver.send_join(join_request(name="lena"))
    anna = driver.rejoin("anna")
    assert anna not in driver.joins
    lena = driver.send_join(join_request("lena", "lena"))
    assert driver.joins[anna].generation == driver.joins[lena].generation == 2


def test_the_protocol_is_the_favourite_of_most_among_those_that_all_support() -> None:
    def protocols(*names: str) -> tuple[GroupProtocol, ...]:
        return tuple(GroupProtocol(name, name.encode()) for name in names)

    driver = GroupDriver()
    favourites = {
        "anna": protocols("sticky", "range", "roundrobin"),
        "lena": protocols("roundrobin", "range"),
        "mona": protocols("roundrobin", "range", "sticky"),
    }
    for name, supported in favourites.items():
        driver.send_join(join_request(name=name))
        driver.send_join(join_request(name, name)._replace(protocols=supported))
    driver.pass_time(6_000)
    assert driver.group.protocol_name == "roundrobin"


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        ("connect", (GroupProtocol("range", b""),)),
        ("consumer", (GroupProtocol("sticky", b""),)),
        ("consumer", ()),
    ],
)
def test_who_shares_no_protocol_with_the_group_is_refused(
    driver: GroupDriver, protocol_type: str, protocols: tuple[GroupProtocol, ...]
) -> None:
    driver.stable("anna")
    request = join_request(name="lena")._replace(protocol_type=protocol_type, protocols=protocols)
    assert driver.joins[driver.send_join(request)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.is_in(GroupState.STABLE)


@pytest.mark.parametrize(("protocol_type", "names"), [("", ("range",)), ("consumer", ())])
def test_an_empty_group_takes_anyone_who_names_a_protocol(
    driver: GroupDriver, protocol_type: str, names: tuple[str, ...]
) -> None:
    protocols = tuple(GroupProtocol(name, b"") for name in names)
    request = join_request()._replace(protocol_type=protocol_type, protocols=protocols)
    assert driver.joins[driver.send_join(request)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_newcomers_and_keeps_its_members() -> None:
    driver = GroupDriver(GroupCoordinatorConfig(group_max_size=2))
    driver.stable("anna", "lena")
    refused = driver.send_join(join_request(name="mona"))
    assert driver.joins[refused] == JoinResult("", ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert driver.rejoin("lena") in driver.joins
    assert driver.heartbeat("anna") is ErrorCode.NONE


def test_while_rebalancing_the_first_to_come_fill_a_full_group() -> None:
    driver = GroupDriver(GroupCoordinatorConfig(group_max_size=2))
    driver.stable("anna")
    mona, nina = driver.join("mona"), driver.join("nina")
    late = driver.rejoin("anna")
    assert driver.joins[late] == JoinResult("", ErrorCode.GROUP_MAX_SIZE_REACHED)
    driver.pass_time(60_000)
    assert driver.joins[mona].generation == driver.joins[nina].generation == 2
    assert set(driver.group.members.by_id) == {"mona", "nina"}


def test_requests_of_another_generation_are_refused(driver: GroupDriver) -> None:
    driver.stable("anna")
    assert driver.heartbeat("anna", generation=7) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit("anna", generation=0) is ErrorCode.ILLEGAL_GENERATION
    late = driver.send_sync(driver.sync_request("anna")._replace(generation=0))
    assert driver.syncs[late].error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_names_the_groups_protocol_or_none(driver: GroupDriver) -> None:
    driver.stable("anna")
    request = driver.sync_request("anna")
    for wrong in (
        request._replace(protocol_type="connect"),
        request._replace(protocol_name="sticky"),
    ):
        answer = driver.syncs[driver.send_sync(wrong)]
        assert answer == SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    unsaid = request._replace(protocol_type=None, protocol_name=None)
    assert driver.syncs[driver.send_sync(unsaid)].assignment == b"anna"


def test_strangers_are_unknown(driver: GroupDriver) -> None:
    driver.stable("anna")
    assert driver.heartbeat("eve") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("eve") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.joins[driver.rejoin("eve")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.syncs[driver.sync("eve")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit("eve") is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_leave_together_and_each_is_answered(driver: GroupDriver) -> None:
    driver.stable("anna", "lena", "mona")
    assert driver.leave("anna", "eve", "lena") == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert driver.group.members.leader_id == "mona"
    assert driver.heartbeat("mona") is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_to_leave_empties_the_group_and_the_log_says_so(driver: GroupDriver) -> None:
    driver.stable("anna")
    driver.leave("anna")
    assert driver.is_in(GroupState.EMPTY)
    written = driver.log[-1]
    assert (written.members, written.generation, written.leader) == ((), 2, None)
    assert written.protocol_name is None
    assert written.protocol_type == "consumer"


def test_a_member_that_leaves_while_parked_gets_unknown_member_id(driver: GroupDriver) -> None:
    anna, lena = driver.join("anna"), driver.join("lena")
    driver.leave("anna")
    assert driver.joins[anna] == JoinResult("", ErrorCode.UNKNOWN_MEMBER_ID)
    driver.pass_time(6_000)
    assert driver.joins[lena].leader == "lena"


def test_a_request_that_is_sent_again_replaces_the_parked_one(driver: GroupDriver) -> None:
    driver.stable("anna", "lena")
    first = driver.rejoin("anna")
    again = driver.rejoin("anna")
    assert driver.joins[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.rejoin("lena")
    assert driver.joins[again].error is ErrorCode.NONE
    sync = driver.sync("lena")
    driver.sync("lena")
    assert driver.syncs[sync].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_between_join_and_sync_no_offsets_are_committed(driver: GroupDriver) -> None:
    driver.stable("anna")
    assert driver.commit("anna") is ErrorCode.NONE
    driver.rejoin("anna")
    assert driver.commit("anna") is ErrorCode.REBALANCE_IN_PROGRESS


def test_outsiders_commit_to_a_group_only_while_it_is_empty(driver: GroupDriver) -> None:
    assert driver.commit("", generation=-1) is ErrorCode.NONE
    driver.stable("anna")
    assert driver.commit("", generation=-1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_moves_away_tells_everyone_who_is_parked(driver: GroupDriver) -> None:
    driver.stable("anna", "lena")
    anna = driver.rejoin("anna")
    driver.carry_out(driver.group.unload(ErrorCode.NOT_COORDINATOR))
    assert driver.joins[anna].error is ErrorCode.NOT_COORDINATOR
    assert driver.timers == {}


def test_a_group_read_from_the_log_goes_on_where_it_was(driver: GroupDriver) -> None:
    driver.stable("anna", "lena")
    other = GroupDriver()
    other.group.restore(driver.log[-1])
    other.carry_out(other.group.resume(other.now_ms))
    assert other.is_in(GroupState.STABLE)
    assert other.heartbeat("anna") is ErrorCode.NONE
    assert other.syncs[other.sync("lena")].assignment == b"lena"
    # Nobody was heard of again: the sessions end, and with them the group.
    other.pass_time(10_000)
    assert other.is_in(GroupState.EMPTY)
    assert other.group.generation == driver.group.generation + 1


def test_a_group_read_from_the_log_that_is_too_large_now_rebalances(driver: GroupDriver) -> None:
    driver.stable("anna", "lena")
    other = GroupDriver(GroupCoordinatorConfig(group_max_size=1))
    other.group.restore(driver.log[-1])
    other.carry_out(other.group.resume(other.now_ms))
    assert other.is_in(GroupState.PREPARING_REBALANCE)


def test_a_pending_member_can_leave(driver: GroupDriver) -> None:
    driver.send_join(join_request(name="anna"))
    errors, actions = driver.group.leave([MemberIdentity("anna", None)], driver.now_ms)
    driver.carry_out(actions)
    assert errors == [ErrorCode.NONE]
    assert driver.timers == {}

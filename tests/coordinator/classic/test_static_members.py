"""Members that keep their place over a restart (group.instance.id: KIP-345, KIP-814)."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group_actions import (
    GroupProtocol,
    JoinResult,
    MemberIdentity,
    TimerKind,
    Waiter,
)

from ..group_driver import GroupDriver, static_request


def two_static_members() -> GroupDriver:
    """sam leads as sam-1, tom follows as tom-1; stable."""
    driver = GroupDriver()
    driver.send_join(static_request("sam", "sam-1"))
    driver.send_join(static_request("tom", "tom-1"))
    driver.pass_time(6_000)
    driver.sync_static("tom", "tom-1")
    driver.sync("sam-1", {"sam-1": b"0", "tom-1": b"1"})
    assert driver.is_in(GroupState.STABLE)
    return driver


def test_a_static_member_is_admitted_without_a_second_join() -> None:
    driver = GroupDriver()
    sam = driver.send_join(static_request("sam", "sam-1"))
    driver.pass_time(3_000)
    assert driver.joins[sam].member_id == "sam-1"
    assert driver.joins[sam].members[0].instance_id == "sam"


def test_a_follower_comes_back_without_a_rebalance_and_keeps_its_assignment() -> None:
    driver = two_static_members()
    tom = driver.send_join(static_request("tom", "tom-2"))
    assert driver.is_in(GroupState.STABLE)
    assert driver.joins[tom] == JoinResult(
        "tom-2", generation=1, protocol_type="consumer", protocol_name="range", leader="sam-1"
    )
    assert driver.syncs[driver.sync_static("tom", "tom-2")].assignment == b"1"
    assert [saved.member_id for saved in driver.log[-1].members] == ["sam-1", "tom-2"]
    assert driver.log[-1].members[1].assignment == b"1"


def test_a_leader_that_comes_back_does_not_assign_again() -> None:
    driver = two_static_members()
    sam = driver.send_join(static_request("sam", "sam-2"))
    answer = driver.joins[sam]
    assert answer.skip_assignment
    assert answer.leader == "sam-2"
    assert {member.member_id for member in answer.members} == {"sam-2", "tom-1"}


def test_an_older_leader_comes_back_as_a_follower_of_its_old_id() -> None:
    driver = two_static_members()
    request = static_request("sam", "sam-2")._replace(supports_skipping_assignment=False)
    answer = driver.joins[driver.send_join(request)]
    assert (answer.leader, answer.members, answer.skip_assignment) == ("sam-1", (), False)


def test_the_old_id_is_fenced_from_then_on() -> None:
    driver = two_static_members()
    driver.send_join(static_request("tom", "tom-2"))
    old = MemberIdentity("tom-1", "tom")
    assert driver.group.heartbeat(old, 1, driver.now_ms)[0] is ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.check_offset_commit(old, 1, driver.now_ms)[0] is (
        ErrorCode.FENCED_INSTANCE_ID
    )
    sync = driver.sync_static("tom", "tom-1")
    assert driver.syncs[sync].error is ErrorCode.FENCED_INSTANCE_ID
    errors, _ = driver.group.leave([old], driver.now_ms)
    assert errors == [ErrorCode.FENCED_INSTANCE_ID]
    rejoin = driver.send_join(static_request("tom", "", member_id="tom-1"))
    assert driver.joins[rejoin].error is ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_that_the_group_does_not_have_is_unknown() -> None:
    driver = two_static_members()
    eve = MemberIdentity("tom-1", "eve")
    assert driver.group.heartbeat(eve, 1, driver.now_ms)[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_twin_that_is_parked_is_fenced_by_the_newer_one() -> None:
    driver = GroupDriver()
    first = driver.send_join(static_request("sam", "sam-1"))
    second = driver.send_join(static_request("sam", "sam-2"))
    assert driver.joins[first] == JoinResult("sam-1", ErrorCode.FENCED_INSTANCE_ID)
    driver.pass_time(6_000)
    assert driver.joins[second].leader == "sam-2"


def test_coming_back_with_another_favourite_protocol_rebalances() -> None:
    driver = GroupDriver()
    both = (GroupProtocol("range", b"r"), GroupProtocol("sticky", b"s"))
    driver.send_join(static_request("sam", "sam-1")._replace(protocols=both))
    driver.pass_time(3_000)
    driver.sync_static("sam", "sam-1")
    assert driver.group.protocol_name == "range"
    turned = static_request("sam", "sam-2")._replace(protocols=both[::-1])
    sam = driver.send_join(turned)
    assert driver.joins[sam].generation == 2
    assert driver.joins[sam].protocol_name == "sticky"


def test_coming_back_between_join_and_sync_rebalances() -> None:
    driver = two_static_members()
    driver.send_join(static_request("sam", "", member_id="sam-1"))
    driver.send_join(static_request("tom", "", member_id="tom-1"))
    assert driver.is_in(GroupState.COMPLETING_REBALANCE)
    tom_sync = driver.sync_static("tom", "tom-1")
    driver.send_join(static_request("tom", "tom-2"))
    assert driver.syncs[tom_sync].error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.is_in(GroupState.PREPARING_REBALANCE)


def test_a_static_member_that_misses_a_rebalance_keeps_its_place() -> None:
    driver = GroupDriver()
    session_ms = 1_000_000
    for name in ("sam", "tom"):
        request = static_request(name, f"{name}-1")._replace(session_timeout_ms=session_ms)
        driver.send_join(request)
    driver.pass_time(6_000)
    driver.sync_static("tom", "tom-1")
    driver.sync("sam-1", {})
    sam = driver.send_join(static_request("sam", "", member_id="sam-1"))
    driver.pass_time(60_000)
    assert driver.joins[sam].generation == 2
    assert "tom-1" in driver.group.members.by_id


def test_when_nobody_rejoins_static_members_wait_for_their_sessions() -> None:
    driver = GroupDriver()
    request = static_request("sam", "sam-1")._replace(session_timeout_ms=100_000)
    driver.send_join(request)
    driver.join("anna")
    driver.pass_time(6_000)
    driver.sync_static("sam", "sam-1")
    driver.leave("anna")
    assert driver.is_in(GroupState.PREPARING_REBALANCE)
    driver.pass_time(60_000)
    assert driver.is_in(GroupState.PREPARING_REBALANCE)
    driver.pass_time(60_000)
    assert driver.is_in(GroupState.EMPTY)


def test_static_members_without_a_rebalance_timeout_are_not_waited_for_in_a_spin() -> None:
    driver = GroupDriver()
    driver.send_join(static_request("sam", "sam-1")._replace(session_timeout_ms=100_000))
    driver.join("anna")
    driver.pass_time(6_000)
    driver.sync_static("sam", "sam-1")
    # As a record may say that it has asked for.
    driver.group.members.by_id["sam-1"].rebalance_timeout_ms = 0
    driver.leave("anna")
    assert driver.is_in(GroupState.PREPARING_REBALANCE)
    (rebalance,) = [key for key in driver.timers if key.kind is TimerKind.REBALANCE]
    driver.carry_out(driver.group.expired(rebalance, driver.now_ms))
    assert driver.timers[rebalance] - driver.now_ms == 1_000


def test_an_administrator_removes_a_static_member_by_its_instance_alone() -> None:
    driver = two_static_members()
    errors, actions = driver.group.leave(
        [MemberIdentity("", "tom"), MemberIdentity("", "eve"), MemberIdentity("", None)],
        driver.now_ms,
    )
    driver.carry_out(actions)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [ErrorCode.NONE, unknown, unknown]
    assert driver.is_in(GroupState.PREPARING_REBALANCE)


def returning_while_the_log_is_slow() -> tuple[GroupDriver, Waiter]:
    driver = two_static_members()
    driver.hold_writes = True
    waiter = driver.send_join(static_request("tom", "tom-2"))
    assert waiter not in driver.joins
    return driver, waiter


def test_a_new_id_that_cannot_be_written_gives_way_to_the_old_one() -> None:
    driver, tom = returning_while_the_log_is_slow()
    driver.settle_writes(ErrorCode.NOT_COORDINATOR)
    assert driver.joins[tom].error is ErrorCode.NOT_COORDINATOR
    assert driver.group.members.static_ids["tom"] == "tom-1"
    assert driver.group.heartbeat(MemberIdentity("tom-1", "tom"), 1, driver.now_ms)[0] is (
        ErrorCode.NONE
    )


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_who_has_left_while_its_new_id_was_written_is_left_alone(error: ErrorCode) -> None:
    driver, tom = returning_while_the_log_is_slow()
    driver.carry_out(driver.group.leave([MemberIdentity("", "tom")], driver.now_ms)[1])
    driver.settle_writes(error)
    assert driver.joins[tom].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(driver.group.members.by_id) == {"sam-1"}

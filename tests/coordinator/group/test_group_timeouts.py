"""The group's clocks: initial delay, session, rebalance and sync timeouts (G4, G9; KIP-134)."""

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group_actions import JoinResult, TimerKey, TimerKind
from tierlog.coordinator.group_config import GroupCoordinatorConfig

from ..group_driver import GroupDriver, join_request


def test_the_first_rebalance_waits_for_company() -> None:
    driver = GroupDriver()
    anna = driver.join("anna")
    driver.pass_time(2_999)
    assert anna not in driver.joins
    driver.pass_time(1)
    assert driver.joins[anna].generation == 1


def test_a_newcomer_prolongs_the_wait_by_the_same_delay_again() -> None:
    driver = GroupDriver()
    anna = driver.join("anna")
    driver.pass_time(2_000)
    lena = driver.join("lena")
    driver.pass_time(1_000)
    assert anna not in driver.joins
    driver.pass_time(2_999)
    assert anna not in driver.joins
    driver.pass_time(1)
    assert driver.joins[anna].generation == driver.joins[lena].generation == 1


def test_the_wait_ends_with_the_rebalance_timeout_however_many_come() -> None:
    driver = GroupDriver()
    driver.send_join(join_request(name="anna"))
    waiter = driver.send_join(join_request("anna")._replace(rebalance_timeout_ms=7_000))
    for number in range(8):
        driver.pass_time(1_000)
        name = f"member-{number}"
        driver.send_join(join_request(name=name))
        driver.send_join(join_request(name, name)._replace(rebalance_timeout_ms=7_000))
        if driver.now_ms - 1_000_000 < 7_000:
            assert waiter not in driver.joins
    assert driver.joins[waiter].generation == 1


def test_without_an_initial_delay_the_first_generation_begins_at_once() -> None:
    driver = GroupDriver(GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0))
    anna = driver.join("anna")
    driver.pass_time(0)
    assert driver.joins[anna].generation == 1


def test_a_silent_member_loses_its_place_and_the_others_rebalance() -> None:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    driver.pass_time(6_000)
    assert driver.heartbeat("lena") is ErrorCode.NONE
    driver.pass_time(4_000)
    assert set(driver.group.members.by_id) == {"lena"}
    assert driver.heartbeat("lena") is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joins[driver.rejoin("lena")].leader == "lena"


def test_a_heartbeat_or_a_commit_restarts_the_session() -> None:
    driver = GroupDriver()
    driver.stable("anna")
    for _ in range(5):
        driver.pass_time(9_999)
        assert driver.heartbeat("anna") is ErrorCode.NONE
        driver.pass_time(9_999)
        assert driver.commit("anna") is ErrorCode.NONE
    assert driver.is_in(GroupState.STABLE)


def test_a_parked_member_does_not_need_to_heartbeat() -> None:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    anna = driver.rejoin("anna")
    for _ in range(5):
        driver.pass_time(9_000)
        driver.heartbeat("lena")
    assert anna not in driver.joins
    assert "anna" in driver.group.members.by_id
    driver.rejoin("lena")
    assert driver.joins[anna].error is ErrorCode.NONE


def test_who_does_not_rejoin_in_time_is_left_behind() -> None:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    anna = driver.rejoin("anna")
    for _ in range(6):
        # It is alive, but busy with what it had polled.
        driver.pass_time(9_999)
        assert driver.heartbeat("lena") is ErrorCode.REBALANCE_IN_PROGRESS
    driver.pass_time(6)
    assert driver.joins[anna].generation == 2
    assert [member.member_id for member in driver.joins[anna].members] == ["anna"]
    assert driver.heartbeat("lena") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_followed_by_another() -> None:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    driver.leave("eve")
    driver.join("mona")
    lena = driver.rejoin("lena")
    driver.pass_time(10_000)
    assert driver.joins[lena].leader == "lena"


def test_who_does_not_sync_in_time_is_removed_although_the_group_is_stable() -> None:
    driver = GroupDriver()
    driver.join("anna")
    driver.join("lena")
    driver.pass_time(6_000)
    driver.sync("anna", {"anna": b"0", "lena": b"1"})
    assert driver.is_in(GroupState.STABLE)
    for _ in range(6):
        driver.pass_time(9_999)
        driver.heartbeat("anna")
        driver.heartbeat("lena")
    driver.pass_time(6)
    assert set(driver.group.members.by_id) == {"anna"}
    assert driver.is_in(GroupState.PREPARING_REBALANCE)


def test_once_all_have_synced_the_sync_timer_is_gone() -> None:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    kinds = {key.kind for key in driver.timers}
    assert kinds == {TimerKind.SESSION}


def test_a_member_that_never_comes_back_for_its_place_frees_it() -> None:
    driver = GroupDriver()
    driver.stable("anna")
    driver.send_join(join_request(name="lena"))
    anna = driver.rejoin("anna")
    assert anna not in driver.joins
    driver.pass_time(10_000)
    assert driver.joins[anna].generation == 2
    assert driver.group.members.pending_joins == set()


def test_a_new_member_that_is_parked_for_too_long_is_taken_for_lost() -> None:
    config = GroupCoordinatorConfig(new_member_join_timeout_ms=300_000)
    driver = GroupDriver(config)
    driver.stable("anna")
    driver.send_join(join_request(name="lena"))
    lena = driver.send_join(join_request("lena")._replace(rebalance_timeout_ms=900_000))
    for _ in range(31):
        driver.pass_time(9_990)
        driver.heartbeat("anna")
    assert driver.joins[lena] == JoinResult("", ErrorCode.UNKNOWN_MEMBER_ID)
    assert "lena" not in driver.group.members.by_id


def test_a_timer_of_a_member_that_is_gone_does_nothing() -> None:
    driver = GroupDriver()
    driver.stable("anna")
    key = TimerKey("group", TimerKind.SESSION, "eve")
    assert driver.group.expired(key, driver.now_ms) == []

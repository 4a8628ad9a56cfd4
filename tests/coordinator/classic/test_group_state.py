"""The tables say something about every event in every state, and the group does just that."""

from collections.abc import Callable

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.classic.group_rebalance import REFUSALS
from tierlog.coordinator.classic.group_state import (
    NEXT_STATES,
    REACTIONS,
    GroupEvent,
    GroupState,
    Reaction,
    can_rebalance,
)
from tierlog.coordinator.group_actions import (
    AssignmentSequel,
    GroupProtocol,
    JoinRequest,
    TimerKey,
    TimerKind,
)

from ..group_driver import GroupDriver, join_request, static_request

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
EVERY_PAIR = [(state, event) for event in GroupEvent for state in GroupState]

# The state after the event, when Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, for
# a group as `group_in` makes it: `anna` leads; while a rebalance is prepared she alone is missing,
# and while it completes she alone has not synced.
AFTER: dict[GroupEvent, tuple[GroupState, ...]] = {
    GroupEvent.JOIN_NEW: (PREPARING, PREPARING, PREPARING, PREPARING, DEAD),
    # To an empty group the static member is a new one.
    GroupEvent.JOIN_REPLACING: (PREPARING, PREPARING, PREPARING, STABLE, DEAD),
    GroupEvent.REJOIN_CHANGED: (EMPTY, COMPLETING, PREPARING, PREPARING, DEAD),
    GroupEvent.REJOIN_UNCHANGED: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
    GroupEvent.REJOIN_LEADER: (EMPTY, COMPLETING, COMPLETING, PREPARING, DEAD),
    GroupEvent.SYNC_LEADER: (EMPTY, PREPARING, STABLE, STABLE, DEAD),
    GroupEvent.SYNC_FOLLOWER: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
    GroupEvent.ASSIGNMENT_STORED: (EMPTY, PREPARING, STABLE, STABLE, DEAD),
    GroupEvent.ASSIGNMENT_LOST: (EMPTY, PREPARING, PREPARING, STABLE, DEAD),
    GroupEvent.HEARTBEAT: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
    GroupEvent.MEMBERS_LEFT: (EMPTY, COMPLETING, PREPARING, PREPARING, DEAD),
    GroupEvent.SESSION_EXPIRED: (EMPTY, COMPLETING, PREPARING, PREPARING, DEAD),
    GroupEvent.PENDING_LEFT: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
    GroupEvent.REBALANCE_EXPIRED: (EMPTY, COMPLETING, COMPLETING, STABLE, DEAD),
    GroupEvent.INITIAL_DELAY_EXPIRED: (EMPTY, COMPLETING, COMPLETING, STABLE, DEAD),
    GroupEvent.SYNC_EXPIRED: (EMPTY, PREPARING, PREPARING, STABLE, DEAD),
    GroupEvent.COMMIT_OFFSETS: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
    GroupEvent.DELETE: (DEAD, PREPARING, COMPLETING, STABLE, DEAD),
}


def changed(request: JoinRequest) -> JoinRequest:
    return request._replace(protocols=(GroupProtocol("range", b"changed"),))


def as_it_was(driver: GroupDriver, name: str) -> JoinRequest:
    """A rejoin with the metadata that the group knows."""
    member = driver.group.members.by_id.get(name)
    request = join_request(name, name)
    return request if member is None else request._replace(protocols=member.protocols)


def group_in(state: GroupState) -> GroupDriver:
    """A group that came to this state as groups do: anna leads, lena follows, sam is static."""
    driver = GroupDriver()
    if state in {EMPTY, DEAD}:
        driver.stable("anna")
        driver.leave("anna")
        if state is DEAD:
            driver.group.delete(driver.now_ms)
        assert driver.is_in(state)
        return driver
    driver.join("anna")
    driver.join("lena")
    driver.send_join(static_request("sam", "sam-1"))
    driver.pass_time(6_000)
    driver.sync("lena")
    driver.sync_static("sam", "sam-1")
    driver.sync("anna", {"anna": b"a", "lena": b"l", "sam-1": b"s"})
    if state is STABLE:
        return driver
    driver.send_join(changed(join_request("lena", "lena")))
    driver.send_join(static_request("sam", "", member_id="sam-1"))
    if state is COMPLETING:
        driver.rejoin("anna")
        driver.sync("lena")
        driver.sync_static("sam", "sam-1")
    assert driver.is_in(state)
    return driver


def _answer(driver: GroupDriver, request: JoinRequest) -> ErrorCode | None:
    result = driver.joins.get(driver.send_join(request))
    return None if result is None else result.error


def _expire(driver: GroupDriver, kind: TimerKind, name: str = "") -> None:
    driver.carry_out(driver.group.expired(TimerKey("group", kind, name), driver.now_ms))


def _pending_member_expires(driver: GroupDriver) -> None:
    driver.send_join(join_request(name="pia"))
    _expire(driver, TimerKind.SESSION, "pia")


def _write_ends(driver: GroupDriver, error: ErrorCode) -> None:
    sequel = AssignmentSequel(driver.group.generation, {"anna": b"new"})
    driver.carry_out(driver.group.stored(sequel, error, driver.now_ms))


def _sync(driver: GroupDriver, name: str) -> ErrorCode | None:
    result = driver.syncs.get(driver.sync(name, {name: b"new"}))
    return None if result is None else result.error


def _commit(driver: GroupDriver) -> ErrorCode:
    return driver.commit("", generation=-1) if driver.state is EMPTY else driver.commit("lena")


STIMULI: dict[GroupEvent, Callable[[GroupDriver], ErrorCode | None]] = {
    GroupEvent.JOIN_NEW: lambda group: _answer(
        group, join_request(name="nina")._replace(requires_known_member_id=False)
    ),
    GroupEvent.JOIN_REPLACING: lambda group: _answer(group, static_request("sam", "sam-2")),
    GroupEvent.REJOIN_CHANGED: lambda group: _answer(group, changed(join_request("anna", "anna"))),
    GroupEvent.REJOIN_UNCHANGED: lambda group: _answer(group, as_it_was(group, "lena")),
    GroupEvent.REJOIN_LEADER: lambda group: _answer(group, as_it_was(group, "anna")),
    GroupEvent.SYNC_LEADER: lambda group: _sync(group, "anna"),
    GroupEvent.SYNC_FOLLOWER: lambda group: _sync(group, "lena"),
    GroupEvent.ASSIGNMENT_STORED: lambda group: _write_ends(group, ErrorCode.NONE),
    GroupEvent.ASSIGNMENT_LOST: lambda group: _write_ends(group, ErrorCode.NOT_COORDINATOR),
    GroupEvent.HEARTBEAT: lambda group: group.heartbeat("lena"),
    GroupEvent.MEMBERS_LEFT: lambda group: group.leave("anna")[0],
    GroupEvent.SESSION_EXPIRED: lambda group: _expire(group, TimerKind.SESSION, "anna"),
    GroupEvent.PENDING_LEFT: _pending_member_expires,
    GroupEvent.REBALANCE_EXPIRED: lambda group: _expire(group, TimerKind.REBALANCE),
    GroupEvent.INITIAL_DELAY_EXPIRED: lambda group: _expire(group, TimerKind.INITIAL_DELAY),
    GroupEvent.SYNC_EXPIRED: lambda group: _expire(group, TimerKind.SYNC),
    GroupEvent.COMMIT_OFFSETS: _commit,
    GroupEvent.DELETE: lambda group: group.group.delete(group.now_ms),
}


@pytest.mark.parametrize(("state", "event"), EVERY_PAIR)
def test_every_event_in_every_state_does_what_the_table_says(
    state: GroupState, event: GroupEvent
) -> None:
    driver = group_in(state)
    error = STIMULI[event](driver)
    assert driver.is_in(AFTER[event][list(GroupState).index(state)])
    reaction = REACTIONS[state, event]
    if reaction is Reaction.KEEP_ALIVE_REBALANCING:
        assert error is ErrorCode.REBALANCE_IN_PROGRESS
    elif reaction in REFUSALS and (state, event) != (EMPTY, GroupEvent.JOIN_REPLACING):
        assert error is REFUSALS[reaction]
    elif (state, event) != (EMPTY, GroupEvent.MEMBERS_LEFT):
        assert error in {None, ErrorCode.NONE}


def test_the_reactions_cover_every_event_in_every_state_and_nothing_else() -> None:
    assert set(REACTIONS) == set(EVERY_PAIR)
    assert set(REACTIONS.values()) == set(Reaction)


def test_moves_are_those_that_kafka_allows() -> None:
    valid_previous = {
        EMPTY: {PREPARING},
        PREPARING: {STABLE, COMPLETING, EMPTY},
        COMPLETING: {PREPARING},
        STABLE: {COMPLETING},
        DEAD: {STABLE, PREPARING, COMPLETING, EMPTY, DEAD},
    }
    for state in GroupState:
        assert {before for before in GroupState if state in NEXT_STATES[before]} == (
            valid_previous[state]
        )


def test_a_rebalance_begins_from_every_living_state_but_its_own() -> None:
    assert [state for state in GroupState if can_rebalance(state)] == [EMPTY, COMPLETING, STABLE]

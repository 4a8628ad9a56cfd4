"""Brokers that fall silent are fenced, one a look, and only while the controller runs."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.replication.control.brokers.sessions import (
    BrokerIdAndEpoch,
    BrokerSessions,
    SessionConfig,
    is_stale,
)
from tierlog.replication.metadata.cluster_image import BrokerImage, ClusterImage

SESSION_MS = 9000
LOOK_MS = SESSION_MS // 8
ONE, TWO = BrokerIdAndEpoch(1, 10), BrokerIdAndEpoch(2, 20)


def sessions(config: SessionConfig | None = None) -> BrokerSessions:
    return BrokerSessions(config or SessionConfig(), 0)


def looks_until(table: BrokerSessions, end_ms: int) -> list[tuple[int, BrokerIdAndEpoch]]:
    """Look whenever it is due; return when which session was found expired."""
    expired: list[tuple[int, BrokerIdAndEpoch]] = []
    while table.next_look_ms <= end_ms:
        now_ms = table.next_look_ms
        broker = table.look(now_ms)
        if broker is not None:
            expired.append((now_ms, broker))
    return expired


def image(broker: BrokerIdAndEpoch, fenced: bool) -> BrokerImage:
    return BrokerImage(broker.broker_id, broker.epoch, ZERO_UUID, {}, None, fenced)


def test_a_silent_broker_is_found_at_the_latest_an_eighth_after_its_session() -> None:
    table = sessions()
    table.touch(ONE, 1)
    ((when_ms, broker),) = looks_until(table, 3 * SESSION_MS)
    assert broker == ONE
    assert SESSION_MS < when_ms - 1 <= SESSION_MS + LOOK_MS


def test_one_a_look_and_the_longest_silent_first() -> None:
    table = sessions()
    table.touch(TWO, 1)
    table.touch(ONE, 2)
    (first_ms, first), (second_ms, second) = looks_until(table, 3 * SESSION_MS)
    assert (first, second) == (TWO, ONE)
    assert second_ms - first_ms == LOOK_MS


def test_the_session_is_valid_up_to_and_with_its_last_millisecond() -> None:
    table = sessions()
    table.touch(ONE, 0)
    looks_until(table, SESSION_MS)
    assert table.has_valid_session(ONE, SESSION_MS)
    assert not table.has_valid_session(ONE, SESSION_MS + 1)
    assert not table.has_valid_session(BrokerIdAndEpoch(1, 11), 0)


def test_a_new_controller_gives_unfenced_brokers_a_full_session() -> None:
    table = sessions()
    table.take_over([image(ONE, fenced=False), image(TWO, fenced=True)], 50_000)
    assert not table.has_valid_session(TWO, 50_000)
    ((when_ms, broker),) = looks_until(table, 100_000)
    assert broker == ONE
    assert when_ms > 50_000 + SESSION_MS


def test_nobody_is_fenced_for_a_pause_of_the_controller() -> None:
    table = sessions()
    table.touch(ONE, 0)
    assert table.look(10 * SESSION_MS) is None
    assert table.has_valid_session(ONE, 10 * SESSION_MS)


@pytest.mark.parametrize("stall_ms", [1_500, 3_000, 20_000])
@pytest.mark.parametrize("running_ms", [100, 1_000, 5_000])
@pytest.mark.parametrize("is_heard_first", [True, False])
def test_a_controller_that_stands_still_again_and_again_finds_the_silent_one(
    stall_ms: int, running_ms: int, is_heard_first: bool
) -> None:
    """Each pause is forgiven, the time between them is not. TWO is heard between all pauses."""
    table = sessions()
    table.touch(ONE, 0)
    table.touch(TWO, 0)
    pauses = SESSION_MS // min(running_ms, LOOK_MS) + 2
    expired: list[BrokerIdAndEpoch] = []
    for end_ms in range(stall_ms, (pauses + 1) * (stall_ms + running_ms), stall_ms + running_ms):
        if is_heard_first:
            table.touch(TWO, end_ms)
        broker = table.look(end_ms)
        expired += [] if broker is None else [broker]
        table.touch(TWO, end_ms)
        expired += [each for _, each in looks_until(table, end_ms + running_ms)]
    assert expired == [ONE]


def test_the_end_of_a_process_shortens_the_session_only_where_that_is_on() -> None:
    off, on = sessions(), sessions(SessionConfig(session_after_reset_ms=2000))
    for table in (off, on):
        table.touch(ONE, 0)
        table.on_process_ended(ONE, 0, 0)
    assert looks_until(on, SESSION_MS) == [(2001, ONE)]
    assert looks_until(off, SESSION_MS) == []


def test_a_live_broker_renews_a_shortened_session() -> None:
    table = sessions(SessionConfig(session_after_reset_ms=2000))
    table.touch(ONE, 0)
    table.on_process_ended(ONE, 0, 0)
    table.touch(ONE, 1000)
    assert looks_until(table, SESSION_MS) == []


def test_a_process_that_ended_before_the_session_began_ends_it_as_early() -> None:
    table = sessions(SessionConfig(session_after_reset_ms=2000))
    table.take_over([image(ONE, fenced=False), image(TWO, fenced=False)], 2500)
    table.on_process_ended(ONE, 1000, 2600)
    ((when_ms, broker),) = looks_until(table, SESSION_MS)
    assert broker == ONE
    assert when_ms == 3001
    table.touch(TWO, 2600)
    table.on_process_ended(TWO, 0, 2700)
    assert not table.has_valid_session(TWO, 2700)


def test_a_shut_down_broker_has_no_session_only_where_that_is_on() -> None:
    off, on = sessions(), sessions(SessionConfig(ends_with_shutdown=True))
    for table in (off, on):
        table.touch(ONE, 0)
        table.on_shutdown_answered(ONE)
    assert off.has_valid_session(ONE, 1)
    assert not on.has_valid_session(ONE, 1)


def test_only_the_registration_of_the_session_is_fenced() -> None:
    cluster = ClusterImage("cluster", brokers={1: image(ONE, False), 2: image(TWO, True)})
    assert is_stale(cluster, ONE)
    assert not is_stale(cluster, TWO)
    assert not is_stale(cluster, BrokerIdAndEpoch(1, 9))
    assert not is_stale(cluster, BrokerIdAndEpoch(3, 9))


def test_a_removed_broker_has_no_session() -> None:
    table = sessions()
    table.touch(ONE, 0)
    table.remove(1)
    assert not table.has_valid_session(ONE, 0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([ONE, TWO, None]),
        st.one_of(st.integers(0, LOOK_MS), st.integers(0, 20 * SESSION_MS)),
    ),
    max_size=60,
)


@given(STEPS)
def test_whoever_is_fenced_was_silent_for_a_session_of_running_time(
    steps: list[tuple[BrokerIdAndEpoch | None, int]],
) -> None:
    """Between two steps the controller stands still, so at most two looks of each step count."""
    table, now_ms = sessions(), 0
    running_ms: dict[BrokerIdAndEpoch, int] = {}
    for broker, pause_ms in steps:
        now_ms += pause_ms
        for each in running_ms:
            running_ms[each] += min(pause_ms, 2 * LOOK_MS)
        if broker is not None:
            table.touch(broker, now_ms)
            running_ms[broker] = 0
            continue
        expired = table.look(now_ms)
        if expired is not None:
            assert running_ms.pop(expired) > SESSION_MS

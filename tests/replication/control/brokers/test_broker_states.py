"""What each heartbeat makes of a broker, in every state."""

from itertools import product

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.replication.control.brokers.broker_states import (
    TRANSITIONS,
    BrokerProgress,
    BrokerState,
    Heartbeat,
    HeartbeatAnswer,
    lowest_active_offset,
    next_state,
    state_of,
)
from tierlog.replication.metadata.cluster_image import BrokerImage

FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
STOPPING, NOW = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW
IDLE = BrokerProgress(10, leads=False, shutdown_offset=50, lowest_active_offset=50)
LEADING = BrokerProgress(10, leads=True, shutdown_offset=50, lowest_active_offset=50)
UNSEEN = BrokerProgress(10, leads=False, shutdown_offset=50, lowest_active_offset=49)
STOP = Heartbeat(10, wants_shutdown=True)
FENCE = Heartbeat(10, wants_fence=True)


@pytest.mark.parametrize(
    ("state", "heartbeat", "progress", "target"),
    [
        (FENCED, FENCE, IDLE, FENCED),
        (FENCED, Heartbeat(9), IDLE, FENCED),
        (FENCED, Heartbeat(10), IDLE, UNFENCED),
        (FENCED, STOP, LEADING, NOW),
        (UNFENCED, FENCE, LEADING, FENCED),
        (UNFENCED, Heartbeat(9), IDLE, UNFENCED),
        (UNFENCED, STOP, LEADING, STOPPING),
        (UNFENCED, STOP, UNSEEN, NOW),
        (UNFENCED, Heartbeat(10, True, True), LEADING, NOW),
        (STOPPING, STOP, LEADING, STOPPING),
        (STOPPING, STOP, UNSEEN, STOPPING),
        (STOPPING, STOP, IDLE, NOW),
        (STOPPING, Heartbeat(10), LEADING, STOPPING),
        (STOPPING, FENCE, IDLE, NOW),
    ],
)
def test_a_heartbeat_leads_to_the_next_state(
    state: BrokerState, heartbeat: Heartbeat, progress: BrokerProgress, target: BrokerState
) -> None:
    assert next_state(state, heartbeat, progress)[0] is target


def test_the_answer_says_what_the_broker_has_to_do() -> None:
    assert next_state(FENCED, Heartbeat(9), IDLE)[1] == HeartbeatAnswer(False, True, False)
    assert next_state(FENCED, Heartbeat(10), IDLE)[1] == HeartbeatAnswer(True, False, False)
    assert next_state(UNFENCED, STOP, LEADING)[1] == HeartbeatAnswer(True, False, False)
    assert next_state(STOPPING, STOP, IDLE)[1] == HeartbeatAnswer(True, True, True)


def test_every_heartbeat_has_a_row_in_the_table() -> None:
    flags = (False, True)
    for state, fence, stop, progress in product(
        (FENCED, UNFENCED, STOPPING), flags, flags, (IDLE, LEADING, UNSEEN)
    ):
        next_state(state, Heartbeat(9, fence, stop), progress)
        next_state(state, Heartbeat(10, fence, stop), progress)
    assert NOW not in {state for state, _ in TRANSITIONS}


def test_the_last_broker_waits_for_nobody() -> None:
    assert lowest_active_offset([]) > 2**62
    assert lowest_active_offset([7, 5]) == 5


@pytest.mark.parametrize(
    ("fenced", "stopping", "state"),
    [(True, True, FENCED), (False, True, STOPPING), (False, False, UNFENCED)],
)
def test_the_log_gives_the_state(fenced: bool, stopping: bool, state: BrokerState) -> None:
    assert state_of(BrokerImage(1, 10, ZERO_UUID, {}, None, fenced, stopping)) is state

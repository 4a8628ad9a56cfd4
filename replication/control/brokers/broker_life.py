"""A broker's own view of its life (`BrokerLifecycleManager`): its state, and its next request.

The next request follows one interval after the last, whether that succeeded or failed: with a
growing backoff, brokers were fenced after short outages (KAFKA-19294).
"""

from enum import Enum


class BrokerLife(Enum):
    """The state of a broker (`BrokerState`)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class LifeEvent(Enum):
    """What moves a broker to its next state."""

    CAUGHT_UP = "has caught up"
    UNFENCED = "is unfenced"
    STOP = "is asked to stop"
    MAY_STOP = "may stop, or waited too long"


_L, _E = BrokerLife, LifeEvent

TRANSITIONS: dict[tuple[BrokerLife, LifeEvent], BrokerLife] = {
    (_L.STARTING, _E.CAUGHT_UP): _L.RECOVERY,
    (_L.STARTING, _E.STOP): _L.SHUTTING_DOWN,
    (_L.RECOVERY, _E.UNFENCED): _L.RUNNING,
    (_L.RECOVERY, _E.STOP): _L.SHUTTING_DOWN,
    (_L.RUNNING, _E.STOP): _L.PENDING_CONTROLLED_SHUTDOWN,
    (_L.PENDING_CONTROLLED_SHUTDOWN, _E.MAY_STOP): _L.SHUTTING_DOWN,
}

_CATCHING_UP_MS = 10


def request_delay_ms(life: BrokerLife, interval_ms: int, has_answer: bool) -> int:
    """The time from the last request to the next; short while the broker still catches up.

    `has_answer`: whether the last request was a heartbeat that the controller answered.
    """
    if life is BrokerLife.STARTING and has_answer:
        return _CATCHING_UP_MS
    return interval_ms

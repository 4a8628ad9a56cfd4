"""What a heartbeat makes of a broker's state (`BrokerHeartbeatManager.calculateNextBrokerState`).

A broker stops in two steps. First it gives up its leaderships but replicates on; once every active
broker has replayed the records that moved them, it may go. Otherwise a broker could still route
clients to a leader that has stopped.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...metadata.cluster_image import BrokerImage

_NO_ACTIVE_BROKER = 2**63 - 1


class BrokerState(Enum):
    """A broker's state as the controller sees it (`BrokerControlState`)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


class HeartbeatEvent(Enum):
    """What a heartbeat asks for, together with what the controller knows of the broker."""

    FENCE = "asks to be fenced"
    FENCE_AND_SHUTDOWN = "asks to be fenced and to shut down"
    BEHIND = "is behind its registration"
    CAUGHT_UP = "has caught up"
    SHUTDOWN_LEADING = "asks to shut down and leads"
    SHUTDOWN_UNSEEN = "asks to shut down, others have not seen its moves"
    SHUTDOWN_SEEN = "asks to shut down, all have seen its moves"


_S, _E = BrokerState, HeartbeatEvent

# In the state UNFENCED nothing has moved yet, so a broker that leads nothing may go at once; in
# CONTROLLED_SHUTDOWN only the leaderships and the others' offsets count.
TRANSITIONS: dict[tuple[BrokerState, HeartbeatEvent], BrokerState] = {
    (_S.FENCED, _E.FENCE): _S.FENCED,
    (_S.FENCED, _E.FENCE_AND_SHUTDOWN): _S.SHUTDOWN_NOW,
    (_S.FENCED, _E.BEHIND): _S.FENCED,
    (_S.FENCED, _E.CAUGHT_UP): _S.UNFENCED,
    (_S.FENCED, _E.SHUTDOWN_LEADING): _S.SHUTDOWN_NOW,
    (_S.FENCED, _E.SHUTDOWN_UNSEEN): _S.SHUTDOWN_NOW,
    (_S.FENCED, _E.SHUTDOWN_SEEN): _S.SHUTDOWN_NOW,
    (_S.UNFENCED, _E.FENCE): _S.FENCED,
    (_S.UNFENCED, _E.FENCE_AND_SHUTDOWN): _S.SHUTDOWN_NOW,
    (_S.UNFENCED, _E.BEHIND): _S.UNFENCED,
    (_S.UNFENCED, _E.CAUGHT_UP): _S.UNFENCED,
    (_S.UNFENCED, _E.SHUTDOWN_LEADING): _S.CONTROLLED_SHUTDOWN,
    (_S.UNFENCED, _E.SHUTDOWN_UNSEEN): _S.SHUTDOWN_NOW,
    (_S.UNFENCED, _E.SHUTDOWN_SEEN): _S.SHUTDOWN_NOW,
    (_S.CONTROLLED_SHUTDOWN, _E.SHUTDOWN_LEADING): _S.CONTROLLED_SHUTDOWN,
    (_S.CONTROLLED_SHUTDOWN, _E.SHUTDOWN_UNSEEN): _S.CONTROLLED_SHUTDOWN,
    (_S.CONTROLLED_SHUTDOWN, _E.SHUTDOWN_SEEN): _S.SHUTDOWN_NOW,
}


class HeartbeatAnswer(NamedTuple):
    """The fields of a BrokerHeartbeat response."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The fields of a BrokerHeartbeat request that decide the next state."""

    current_metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class BrokerProgress:
    """What the controller knows of the broker that sends a heartbeat.

    `shutdown_offset` is the offset of the last record of its controlled shutdown, and
    `lowest_active_offset` the lowest metadata offset of the active brokers.
    """

    registration_offset: int
    leads: bool
    shutdown_offset: int
    lowest_active_offset: int


def state_of(broker: BrokerImage) -> BrokerState:
    """The state that the log gives to a broker."""
    if broker.fenced:
        return BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def lowest_active_offset(offsets: Iterable[int]) -> int:
    """The lowest metadata offset of the active brokers; the highest number if there is none."""
    return min(offsets, default=_NO_ACTIVE_BROKER)


def event_of(heartbeat: Heartbeat, progress: BrokerProgress) -> HeartbeatEvent:
    """What a heartbeat asks for."""
    if heartbeat.wants_shutdown:
        if heartbeat.wants_fence:
            return HeartbeatEvent.FENCE_AND_SHUTDOWN
        if progress.leads:
            return HeartbeatEvent.SHUTDOWN_LEADING
        seen = progress.shutdown_offset <= progress.lowest_active_offset
        return HeartbeatEvent.SHUTDOWN_SEEN if seen else HeartbeatEvent.SHUTDOWN_UNSEEN
    if heartbeat.wants_fence:
        return HeartbeatEvent.FENCE
    caught_up = heartbeat.current_metadata_offset >= progress.registration_offset
    return HeartbeatEvent.CAUGHT_UP if caught_up else HeartbeatEvent.BEHIND


def next_state(
    state: BrokerState, heartbeat: Heartbeat, progress: BrokerProgress
) -> tuple[BrokerState, HeartbeatAnswer]:
    """The state after a heartbeat, and the answer to it."""
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        # A broker cannot take back its wish to stop: the flags of the heartbeat don't matter.
        heartbeat = Heartbeat(heartbeat.current_metadata_offset, wants_shutdown=True)
    target = TRANSITIONS[state, event_of(heartbeat, progress)]
    return target, HeartbeatAnswer(
        is_caught_up=heartbeat.current_metadata_offset >= progress.registration_offset,
        is_fenced=target in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=target is BrokerState.SHUTDOWN_NOW,
    )

"""Decides what a heartbeat changes: the broker's state, and its directories (KIP-631, KIP-858).

    registered epoch? -> next state (`broker_states.py`) -> records of the step -> answer

A step of a broker with many partitions takes several changes (`broker_transitions.py`). The target
is chosen once, by the first decision; the others only finish what it began.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ....storage.config import LogConfig
from ...metadata.cluster_image import BrokerImage, ClusterImage
from ..controller_config import Decision
from .broker_offsets import BrokerOffsets
from .broker_states import (
    BrokerProgress,
    BrokerState,
    Heartbeat,
    HeartbeatAnswer,
    next_state,
    state_of,
)
from .broker_transitions import FOR_A_PART, cordon_record, first_part, leads_any, step_records
from .directory_control import directories_failed
from .sessions import BrokerIdAndEpoch

_log = logging.getLogger(__name__)

OffsetOfNext: TypeAlias = Callable[[], int]
"""Returns the offset that the next record gets."""


def registered_broker(image: ClusterImage, broker: BrokerIdAndEpoch) -> BrokerImage:
    """A broker's registration. Raises KafkaError(STALE_BROKER_EPOCH) if it has another epoch.

    See `ClusterControlManager.checkBrokerEpoch`.
    """
    registered = image.brokers.get(broker.broker_id)
    if registered is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"No broker registration found for broker id {broker.broker_id}",
        )
    if registered.epoch != broker.epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {registered.epoch}, but got broker epoch {broker.epoch}",
        )
    return registered


@dataclass(frozen=True, slots=True)
class HeartbeatDecision:
    """One heartbeat, and the soft state that its decision needs and changes."""

    broker: BrokerIdAndEpoch
    heartbeat: Heartbeat
    offsets: BrokerOffsets
    next_offset: OffsetOfNext
    defaults: LogConfig
    cordoned: Sequence[Uuid] | None = None

    def steps(self) -> Callable[[ClusterImage], Decision[HeartbeatAnswer | None]]:
        """The decision, to be made again on a newer image as long as its answer is None.

        Raises KafkaError(STALE_BROKER_EPOCH) when it is made.
        """
        chosen: list[tuple[BrokerState, HeartbeatAnswer]] = []

        def decide(image: ClusterImage) -> Decision[HeartbeatAnswer | None]:
            broker = registered_broker(image, self.broker)
            state = state_of(broker)
            is_first = not chosen
            if is_first:
                chosen.append(self._next_state(image, broker, state))
            target, answer = chosen[0]
            is_over = is_first and target is state
            if is_over and not self._must_go_on(image, state):
                return self._stay(broker, state, answer)
            records, is_done = first_part(step_records(image, broker, target, self.defaults))
            if is_over and not records:
                return self._stay(broker, state, answer)
            if target is BrokerState.CONTROLLED_SHUTDOWN:
                self.offsets.on_shutdown(self.broker, self.next_offset() + len(records) - 1)
            if is_done:
                _log_transition(broker, state, target)
            return Decision(records, answer if is_done else None)

        return decide

    def _must_go_on(self, image: ClusterImage, state: BrokerState) -> bool:
        """Whether a step may be left that another controller has begun and ended before its end."""
        is_stopping = state is BrokerState.CONTROLLED_SHUTDOWN
        return is_stopping and leads_any(image, self.broker.broker_id)

    def _next_state(
        self, image: ClusterImage, broker: BrokerImage, state: BrokerState
    ) -> tuple[BrokerState, HeartbeatAnswer]:
        may_stop = self.heartbeat.wants_shutdown or state is BrokerState.CONTROLLED_SHUTDOWN
        # An offset that this controller has not seen is at most that of the last record.
        shutdown_offset = self.offsets.shutdown_offset(self.broker)
        if shutdown_offset is None:
            shutdown_offset = self.next_offset() - 1
        progress = BrokerProgress(
            registration_offset=self.offsets.registration_offset(self.broker),
            # Not needed otherwise, and a look at all partitions.
            leads=may_stop and leads_any(image, broker.broker_id),
            shutdown_offset=shutdown_offset,
            lowest_active_offset=self.offsets.lowest_active(image.brokers.values()),
        )
        self.offsets.on_heartbeat(self.broker, self.heartbeat.current_metadata_offset)
        return next_state(state, self.heartbeat, progress)

    def _stay(
        self, broker: BrokerImage, state: BrokerState, answer: HeartbeatAnswer
    ) -> Decision[HeartbeatAnswer | None]:
        if state is BrokerState.CONTROLLED_SHUTDOWN and (
            self.offsets.shutdown_offset(self.broker) is None
        ):
            self.offsets.on_shutdown(self.broker, self.next_offset() - 1)
        return Decision(cordon_record(broker, self.cordoned), answer)


def offline_directories(
    broker: BrokerIdAndEpoch, offline: Sequence[Uuid], defaults: LogConfig
) -> Callable[[ClusterImage], Decision[bool | None]]:
    """The decision on failed directories of a heartbeat, made before that on the state.

    A broker that is unfenced by the same heartbeat is then not elected for what it has lost.
    """

    def decide(image: ClusterImage) -> Decision[bool | None]:
        registered_broker(image, broker)
        records = directories_failed(image, broker.broker_id, offline, defaults, FOR_A_PART).records
        part, is_done = first_part(records)
        return Decision(part, True if is_done else None)

    return decide


def _log_transition(broker: BrokerImage, state: BrokerState, target: BrokerState) -> None:
    _log.info(
        "Broker %d with epoch %d goes from %s to %s by its heartbeat",
        broker.broker_id,
        broker.epoch,
        state.value,
        target.value,
    )

"""The controller's state: committed image, pending changes, standby and active (KIP-500, KIP-868).

    STANDBY: committed records -> image
    ACTIVE:  newest image + records -> append -> pending change -> committed -> answer

A decision is made on the newest image, which may be ahead of what is committed. Images are
immutable, so the list of pending changes, each with the image that it results in, is all that is
needed to go back (Kafka: `SnapshotRegistry`, `OffsetControlManager`, `DeferredEventQueue`).

Rules:

- a change is answered when the high watermark has passed its last record;
- an answer that changes nothing but has seen a pending change waits for that change;
- a controller that is deposed goes back to the last committed image, and refuses what waits;
- the records of one change are one batch: they are committed together or not at all.

This module has no clock, loop or log: `controller_loop.py` appends, and passes offsets and events.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ...clients.runtime.steps import finished
from ..metadata.cluster_image import ClusterDelta, ClusterImage
from ..metadata.metadata_records import AbortTransactionRecord
from .brokers.broker_control import first_records
from .controller_config import RECORDS_PER_OPERATION_MAX

if TYPE_CHECKING:
    from ..metadata.committed_reader import CommittedRecords

WaiterT = TypeVar("WaiterT")

SLOW_EVENT_MS = 2_000
"""A decision that takes longer is logged (`controller.performance.always.log.threshold.ms`)."""


class ControllerState(Enum):
    """Whether the controller accepts writes."""

    STANDBY = "replaying what is committed"
    ACTIVE = "deciding"
    FAILED = "the metadata log cannot be written"
    STOPPED = "stopped"


class ControllerEvent(Enum):
    """The events that change the state."""

    ELECTED = "elected"
    DEPOSED = "deposed"
    DISK_FAILED = "disk failed"
    STOP = "stop"


TRANSITIONS: Mapping[tuple[ControllerState, ControllerEvent], ControllerState] = MappingProxyType(
    {
        (ControllerState.STANDBY, ControllerEvent.ELECTED): ControllerState.ACTIVE,
        # One other leader follows another.
        (ControllerState.STANDBY, ControllerEvent.DEPOSED): ControllerState.STANDBY,
        (ControllerState.STANDBY, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.STANDBY, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.ACTIVE, ControllerEvent.DEPOSED): ControllerState.STANDBY,
        (ControllerState.ACTIVE, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.ACTIVE, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.FAILED, ControllerEvent.ELECTED): ControllerState.FAILED,
        (ControllerState.FAILED, ControllerEvent.DEPOSED): ControllerState.FAILED,
        (ControllerState.FAILED, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.FAILED, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.STOPPED, ControllerEvent.ELECTED): ControllerState.STOPPED,
        (ControllerState.STOPPED, ControllerEvent.DEPOSED): ControllerState.STOPPED,
        (ControllerState.STOPPED, ControllerEvent.STOP): ControllerState.STOPPED,
        # The last change was still being written when the controller was stopped.
        (ControllerState.STOPPED, ControllerEvent.DISK_FAILED): ControllerState.STOPPED,
    }
)
"""A failed controller accepts no more writes; a restart replays what is on the disk."""


class PendingChange(NamedTuple, Generic[WaiterT]):
    """An appended change, the image that it results in, and who waits for its commit, in order."""

    image: ClusterImage
    delta: ClusterDelta
    waiting: list[WaiterT]


class Replayed(NamedTuple):
    """The image after committed records, and what they change."""

    image: ClusterImage
    delta: ClusterDelta


class ControllerCore(Generic[WaiterT]):
    """The images of a controller, and who waits for which of them.

    A waiter is whatever the caller wants to have back at the commit.
    """

    def __init__(self, empty: ClusterImage) -> None:
        self.state = ControllerState.STANDBY
        self.empty = empty
        """The image before the first record."""
        self.committed = empty
        """The image of all committed records that were seen."""
        self._epoch = -1
        self._pending: list[PendingChange[WaiterT]] = []

    @property
    def is_active(self) -> bool:
        return self.state is ControllerState.ACTIVE

    @property
    def epoch(self) -> int:
        """The last epoch that this controller has led; -1 if none."""
        return self._epoch

    @property
    def newest(self) -> ClusterImage:
        """The image to decide on: with all pending changes."""
        return self._pending[-1].image if self._pending else self.committed

    @property
    def pending_count(self) -> int:
        """How many changes wait for their commit."""
        return len(self._pending)

    def replay(self, changes: "Iterable[CommittedRecords]") -> Replayed | None:
        """Apply committed changes as a standby; None if there are none.

        Raises KafkaError(INVALID_RECORD) for records that contradict the image.
        """
        return finished(self.replay_steps(changes))

    def replay_steps(
        self, changes: "Iterable[CommittedRecords]"
    ) -> Generator[None, None, Replayed | None]:
        """As `replay`, with a pause after each change; the image is what it was until the end."""
        delta = ClusterDelta(self.committed)
        offset = epoch = -1
        for change in changes:
            # All records of a snapshot have the same offset.
            assert change.last_offset >= offset
            delta.replay_all(change.records)
            offset, epoch = change.last_offset, change.epoch
            yield
        return None if offset < 0 else self.take(delta, offset, epoch)

    def take(self, delta: ClusterDelta, offset: int, epoch: int) -> Replayed:
        """Take what a standby has replayed for what is committed; `offset` is of the last record.

        The delta is one of the committed image, or of the empty one if it has a whole snapshot.
        """
        assert not self._pending, "a leader knows what it has appended"
        assert delta.base is self.committed or delta.base is self.empty
        self.committed = delta.apply(offset, epoch)
        return Replayed(self.committed, delta)

    def claim(
        self,
        epoch: int,
        is_in_transaction: bool,
        formatted: Sequence[Message] | None = None,
        min_isr: str = "1",
    ) -> Sequence[Sequence[Message]]:
        """Become active in an epoch; return the changes to append before any other.

        All records before the epoch must have been replayed. An empty log begins with the
        bootstrap records: those that the directory was `formatted` with, if there are any, and this
        node's `min_isr`. A metadata transaction that the last leader left open is aborted, or all
        later records would belong to it (`ActivationRecordsGenerator`).
        """
        assert epoch > max(self._epoch, self.committed.epoch), "an epoch is led once"
        self._apply(ControllerEvent.ELECTED)
        if not self.is_active:
            return ()
        self._epoch = epoch
        changes: list[Sequence[Message]] = []
        if is_in_transaction:
            changes.append([AbortTransactionRecord(reason="Its leader did not end it.")])
        if self.committed.offset < 0:
            changes.append(first_records(formatted, min_isr))
        return changes

    def change(self, records: Sequence[Message]) -> ClusterDelta:
        """What records change in the newest image; append them, then call `appended`.

        Raises KafkaError: POLICY_VIOLATION for too many records, INVALID_RECORD.
        """
        if len(records) > RECORDS_PER_OPERATION_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "Unable to perform excessively large batch operation.",
            )
        delta = ClusterDelta(self.newest)
        delta.replay_all(records)
        return delta

    def appended(self, delta: ClusterDelta, last_offset: int, *waiting: WaiterT) -> None:
        """Note that a change of the newest image was appended, and who waits for its commit."""
        assert self.is_active
        assert delta.base is self.newest
        assert last_offset > self.newest.offset
        image = delta.apply(last_offset, self._epoch)
        self._pending.append(PendingChange(image, delta, list(waiting)))

    def wait(self, waiter: WaiterT) -> bool:
        """Let an answer that saw the newest image wait for its commit.

        Returns False if everything is committed: then it need not wait.
        """
        if self._pending:
            self._pending[-1].waiting.append(waiter)
        return bool(self._pending)

    def commit(
        self, high_watermark: int, records_max: int | None = None
    ) -> list[PendingChange[WaiterT]]:
        """Take the changes below the high watermark, oldest first; each is the committed image.

        Take no more once there are `records_max` records; there may be others then.
        """
        count = records = 0
        for change in self._pending:
            is_full = records_max is not None and records >= records_max
            if is_full or change.image.offset >= high_watermark:
                break
            count += 1
            records += change.image.offset - change.delta.base.offset
        done = self._pending[:count]
        if done:
            del self._pending[:count]
            self.committed = done[-1].image
        return done

    def has_committed(self, high_watermark: int) -> bool:
        """Whether there are changes below the high watermark that `commit` has not taken yet."""
        return bool(self._pending) and self._pending[0].image.offset < high_watermark

    def renounce(self) -> list[WaiterT]:
        """Become a standby at the last committed image; return who must be refused."""
        return self._end(ControllerEvent.DEPOSED)

    def fail(self) -> list[WaiterT]:
        """Decide nothing more, for the disk has failed; return who must be refused."""
        return self._end(ControllerEvent.DISK_FAILED)

    def stop(self) -> None:
        """Decide nothing more. Pending changes can still be committed; then call `abandon`."""
        self._apply(ControllerEvent.STOP)

    def abandon(self) -> list[WaiterT]:
        """Go back to the last committed image; return who must be refused."""
        waiting = [waiter for change in self._pending for waiter in change.waiting]
        self._pending.clear()
        return waiting

    def _end(self, event: ControllerEvent) -> list[WaiterT]:
        self._apply(event)
        return self.abandon()

    def _apply(self, event: ControllerEvent) -> None:
        self.state = TRANSITIONS[self.state, event]


def refuse_late(deadline: float, now: float) -> None:
    """Refuse to start what has waited too long. Raises KafkaError(REQUEST_TIMED_OUT)."""
    if now > deadline:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "The change timed out in the queue of the controller.",
        )


def not_controller() -> KafkaError:
    """The refusal of all that waits or arrives when this node does not lead."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node is no longer the controller.")

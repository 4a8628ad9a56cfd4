"""The copy state of one partition in one leadership term; expiration depends on it.

Until the highest copied offset is known, nothing expires: data in both tiers would be counted
twice (KAFKA-20732). While a stored segment is not known to be finished, nothing expires either,
and only the copy task touches that segment: its COPY_SEGMENT_FINISHED may or may not have been
written.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from ...clients.kafka_uuid import Uuid
from ...storage.remote.remote_segment import RemoteLogSegmentMetadataUpdate


class CopyState(Enum):
    """The state of the copying of a partition."""

    UNKNOWN = "the copied offset is not known yet"
    IDLE = "the copied offset is known, and nothing is being copied"
    COPYING = "a segment is being copied"
    UNCONFIRMED = "a segment is stored, but its COPY_SEGMENT_FINISHED is not confirmed"
    CANCELLED = "copying has stopped for this leader term"
    ENDED = "the leader term has ended"


class CopyEvent(Enum):
    """An event that changes the copy state of a partition."""

    LOCATED = "the copied offset was found"
    BEGUN = "a copy started"
    FAILED = "the copy failed"
    STORED = "all parts of the segment are stored"
    CONFIRMED = "COPY_SEGMENT_FINISHED was read back"
    REFUSED_FOR_GOOD = "the plug-in returned too much custom metadata"
    DEPOSED = "this broker no longer leads the partition"


def _table() -> dict[tuple[CopyState, CopyEvent], CopyState]:
    table = {
        (CopyState.UNKNOWN, CopyEvent.LOCATED): CopyState.IDLE,
        (CopyState.IDLE, CopyEvent.BEGUN): CopyState.COPYING,
        (CopyState.COPYING, CopyEvent.FAILED): CopyState.IDLE,
        (CopyState.COPYING, CopyEvent.STORED): CopyState.UNCONFIRMED,
        (CopyState.COPYING, CopyEvent.REFUSED_FOR_GOOD): CopyState.CANCELLED,
        # Another leader may have abandoned the segment: find the highest copied offset again.
        (CopyState.UNCONFIRMED, CopyEvent.CONFIRMED): CopyState.UNKNOWN,
    }
    for state in CopyState:
        table[state, CopyEvent.DEPOSED] = CopyState.ENDED
    for event in CopyEvent:
        # Work still running when the term ended may finish, but changes nothing.
        table[CopyState.ENDED, event] = CopyState.ENDED
    return table


TRANSITIONS: Mapping[tuple[CopyState, CopyEvent], CopyState] = MappingProxyType(_table())


class CopyProgress:
    """The copy state, and the unconfirmed event of a stored segment."""

    def __init__(self) -> None:
        self.state = CopyState.UNKNOWN
        self.unconfirmed: RemoteLogSegmentMetadataUpdate | None = None
        """The COPY_SEGMENT_FINISHED to publish until it is read back."""

    def apply(self, event: CopyEvent) -> None:
        """Change state as `TRANSITIONS` says; asserts that the transition exists."""
        target = TRANSITIONS.get((self.state, event))
        assert target is not None, f"{event.name} cannot happen in {self.state.name}."
        self.state = target

    def store(self, finished: RemoteLogSegmentMetadataUpdate) -> None:
        """Record that all parts are stored; `finished` is still to be published."""
        assert self.unconfirmed is None
        self.apply(CopyEvent.STORED)
        self.unconfirmed = finished

    def confirm(self) -> None:
        """Record that COPY_SEGMENT_FINISHED was read back."""
        assert self.unconfirmed is not None
        self.apply(CopyEvent.CONFIRMED)
        self.unconfirmed = None

    @property
    def unconfirmed_id(self) -> Uuid | None:
        """The segment that only the copy task may touch."""
        return None if self.unconfirmed is None else self.unconfirmed.segment_id.id

    @property
    def is_settled(self) -> bool:
        """Whether no stored segment awaits confirmation that it is finished."""
        return self.unconfirmed is None

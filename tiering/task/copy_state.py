"""How far the copying of one partition is in one term of leadership: what may be deleted follows.

While it is not known how far the tier has the log, nothing expires: what is in both tiers would be
counted twice (KAFKA-20732). While a stored segment is not known to be finished, nothing expires
either, and nobody but the copy task touches that segment: its COPY_SEGMENT_FINISHED may have been
written or not.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from ...clients.kafka_uuid import Uuid
from ...storage.remote.remote_segment import RemoteLogSegmentMetadataUpdate


class CopyState(Enum):
    """What the copying of a partition is at."""

    UNKNOWN = "how far the tier has the log is not known"
    IDLE = "that is known, and nothing is on its way"
    COPYING = "a segment is on its way"
    UNCONFIRMED = "a segment is stored, and may be finished or not"
    CANCELLED = "nothing is copied any more in this term"
    ENDED = "the term is over"


class CopyEvent(Enum):
    """What happens to the copying of a partition."""

    LOCATED = "the end of what the tier has was found"
    BEGUN = "a copy was begun"
    FAILED = "the copy failed"
    STORED = "all parts of the segment are stored"
    CONFIRMED = "COPY_SEGMENT_FINISHED was read back"
    REFUSED_FOR_GOOD = "the plug-in does what it must not"
    DEPOSED = "another broker leads, or none"


def _table() -> dict[tuple[CopyState, CopyEvent], CopyState]:
    table = {
        (CopyState.UNKNOWN, CopyEvent.LOCATED): CopyState.IDLE,
        (CopyState.IDLE, CopyEvent.BEGUN): CopyState.COPYING,
        (CopyState.COPYING, CopyEvent.FAILED): CopyState.IDLE,
        (CopyState.COPYING, CopyEvent.STORED): CopyState.UNCONFIRMED,
        (CopyState.COPYING, CopyEvent.REFUSED_FOR_GOOD): CopyState.CANCELLED,
        # Another leader may have given the segment up: the end is looked for again.
        (CopyState.UNCONFIRMED, CopyEvent.CONFIRMED): CopyState.UNKNOWN,
    }
    for state in CopyState:
        table[state, CopyEvent.DEPOSED] = CopyState.ENDED
    for event in CopyEvent:
        # What was under way when the term ended comes to its own end, and changes nothing.
        table[CopyState.ENDED, event] = CopyState.ENDED
    return table


TRANSITIONS: Mapping[tuple[CopyState, CopyEvent], CopyState] = MappingProxyType(_table())


class CopyProgress:
    """The state, and the event that finishes a segment which is stored."""

    def __init__(self) -> None:
        self.state = CopyState.UNKNOWN
        self.unconfirmed: RemoteLogSegmentMetadataUpdate | None = None
        """The COPY_SEGMENT_FINISHED that is to be published until it is read back."""

    def apply(self, event: CopyEvent) -> None:
        """Go where the table leads; what it does not name is a mistake of the caller."""
        target = TRANSITIONS.get((self.state, event))
        assert target is not None, f"{event.name} cannot happen in {self.state.name}."
        self.state = target

    def store(self, finished: RemoteLogSegmentMetadataUpdate) -> None:
        """All parts are stored; `finished` is what is left to be published."""
        assert self.unconfirmed is None
        self.apply(CopyEvent.STORED)
        self.unconfirmed = finished

    def confirm(self) -> None:
        """What was to be published has been read back."""
        assert self.unconfirmed is not None
        self.apply(CopyEvent.CONFIRMED)
        self.unconfirmed = None

    @property
    def unconfirmed_id(self) -> Uuid | None:
        """The segment that only the copy task may touch."""
        return None if self.unconfirmed is None else self.unconfirmed.segment_id.id

    @property
    def is_settled(self) -> bool:
        """Whether no segment is stored of which it is not known whether it is finished."""
        return self.unconfirmed is None

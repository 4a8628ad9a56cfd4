"""What has arrived on one connection: frames, whole or in part, and the bytes behind them.

    READING --yield----> QUEUED  --turn---> READING
    READING --starve---> STARVED --admit--> READING
    READING --end------> ENDED   --resume-> READING

Bytes that cannot be handled yet are kept: those behind a request that waits, or behind the last one
of a turn. They are at most one read, and what was read ahead to find the end of the stream. The
rest of a request that arrives in pieces is read when there is memory for it: all that is kept is
charged to a budget (`receive_budget.py`).

In ENDED the peer sends no more, and reading is paused. What it sent before is still handled; once
reading resumes, the end is read again.

This is a core without I/O: it is given bytes, and returns frames.
"""

from enum import Enum
from struct import Struct

from ...clients.protocol.connection import FrameReader
from .receive_budget import Arrival, ReceiveBudget

_SIZE = Struct(">i")
_PRODUCE = b"\0\0"
"""How a Produce request begins: its ApiKey is 0."""


class RequestState(Enum):
    """Whether more can be read and handled, and if not, what it waits for."""

    READING = "reading"
    QUEUED = "queued"
    STARVED = "starved"
    ENDED = "ended"
    ENDED_QUEUED = "ended and queued"
    CLOSED = "closed"


class RequestEvent(Enum):
    """What can happen to the requests of a connection."""

    YIELD = "its turn ended before its requests were handled"
    TURN = "its next turn began"
    STARVE = "there is no memory for the rest of its request"
    ADMIT = "memory is available again"
    END = "the peer sends no more"
    RESUME = "all that was kept is handled"
    LOSE = "the connection is lost"


_S, _E = RequestState, RequestEvent

TRANSITIONS: dict[tuple[RequestState, RequestEvent], RequestState] = {
    (_S.READING, _E.YIELD): _S.QUEUED,
    (_S.QUEUED, _E.TURN): _S.READING,
    (_S.READING, _E.STARVE): _S.STARVED,
    (_S.STARVED, _E.ADMIT): _S.READING,
    (_S.READING, _E.END): _S.ENDED,
    (_S.QUEUED, _E.END): _S.ENDED_QUEUED,
    (_S.ENDED, _E.YIELD): _S.ENDED_QUEUED,
    (_S.ENDED_QUEUED, _E.TURN): _S.ENDED,
    (_S.ENDED, _E.RESUME): _S.READING,
    # A request that is cut off: the end is noticed again when its rest is read.
    (_S.STARVED, _E.END): _S.STARVED,
    (_S.ENDED, _E.STARVE): _S.STARVED,
    (_S.ENDED, _E.END): _S.ENDED,
    (_S.ENDED_QUEUED, _E.END): _S.ENDED_QUEUED,
    **{(state, _E.LOSE): _S.CLOSED for state in _S if state is not _S.CLOSED},
}
"""Every legal transition; any other is a bug."""

# Tuples, because the hash of an enum member is a call in Python.
HANDLING = (_S.READING, _S.ENDED)
"""The states in which the next request may be handled."""

QUEUED = (_S.QUEUED, _S.ENDED_QUEUED)
"""Those in which it waits for its next turn."""

ENDED = (_S.ENDED, _S.ENDED_QUEUED)
"""Those in which the peer sends no more."""


def may_go_ahead(frame: memoryview) -> bool:
    """Whether a request can be handled while responses to earlier ones wait."""
    return frame[: len(_PRODUCE)].tobytes() == _PRODUCE


def put_back(frame: memoryview, rest: memoryview | bytes = b"") -> memoryview:
    """A copy of a request with its size before it, and of the bytes behind it.

    It can be written into: a Produce among those bytes is stamped where it is.
    """
    return memoryview(bytearray().join((_SIZE.pack(len(frame)), frame, rest)))


class RequestStream:
    """The requests of one connection that are not handled yet, and what the budget is charged."""

    __slots__ = ("_begun", "budget", "charged_bytes", "frames", "kept", "state")

    def __init__(self, max_bytes: int, budget: ReceiveBudget) -> None:
        self.state = RequestState.READING
        self.frames = FrameReader(max_bytes, budget.buffers)
        self.budget = budget
        self.kept: memoryview | None = None
        """Bytes that cannot be handled now: a copy, as the read buffer is shared."""
        self.charged_bytes = 0
        """What the budget is charged for this connection."""
        self._begun = 0
        """The number of the partial request that the budget knows of; 0 if none."""

    def move(self, event: RequestEvent) -> None:
        """Apply an event."""
        self.state = TRANSITIONS[self.state, event]

    def keep(self, rest: memoryview) -> None:
        """Copy bytes that cannot be handled now: the next read of any connection overwrites them.

        Some may be kept already, from looking ahead or from asyncio's transports.
        """
        kept = bytearray() if self.kept is None else bytearray(self.kept)
        kept += rest
        self.kept = memoryview(kept)

    @property
    def unfinished_bytes(self) -> int:
        """The size of the request that has partly arrived; 0 if there is none."""
        return self.frames.unfinished_bytes

    @property
    def arrived_bytes(self) -> int:
        """The bytes of that request that have arrived."""
        return self.frames.arrived_bytes

    @property
    def room_bytes(self) -> int:
        """How much more of the budget the whole request takes."""
        return self.frames.unfinished_bytes - self.frames.held_bytes

    def charge_to(self, budget: ReceiveBudget, arrival: Arrival) -> None:
        """Charge the requests from the next one on to another budget."""
        self.frames.buffers = budget.buffers
        former, self.budget = self.budget, budget
        charged, self.charged_bytes = self.charged_bytes, 0
        self._begun = 0
        former.finish(arrival, charged)

    def charge_whole(self) -> None:
        """Charge all of a partial request: the budget has admitted it."""
        self.charged_bytes += self.room_bytes

    def account(self, arrival: Arrival, *, is_ready: bool) -> bool:
        """Charge the budget for what is kept, and ask for room for the rest of a partial request.

        Room is needed only if the next request `is_ready` to be handled; without room, the stream
        is STARVED. Returns False if so much is kept that the connection must be closed. `arrival`
        is the connection, as the budget knows it.
        """
        frames, budget = self.frames, self.budget
        size = frames.unfinished_bytes
        if self.kept is None and (not size or is_ready) and self._account_frame(arrival, size):
            return True
        if self._begun and not (size and self._begun == frames.begun):
            self._begun = 0
            budget.forget(arrival)
        if size and not self._begun:
            self._begun = frames.begun
            budget.begin(arrival)
        is_admitted = arrival in budget.admitted
        behind = 0 if self.kept is None else len(self.kept)
        held = (size if is_admitted else frames.held_bytes) + behind
        more = held - self.charged_bytes
        if more:
            self.charged_bytes = held
            budget.charge(more)
            if more > 0 and not budget.may_keep(behind):
                return False
        if size and not is_admitted and is_ready and budget.must_admit(frames.growth_bytes):
            if budget.admit(arrival):
                self.charge_whole()
            else:
                self.move(RequestEvent.STARVE)
        if more < 0:
            budget.admit_waiting()
        return True

    def _account_frame(self, arrival: Arrival, size: int) -> bool:
        """The fast path of `account`, when nothing is kept except perhaps a partial request.

        Returns False if it may have to wait for room; then the full `account` must decide.
        """
        frames, budget = self.frames, self.budget
        is_same = size and self._begun == frames.begun
        if is_same and arrival in budget.admitted:
            return self.charged_bytes == size
        if not is_same and self.charged_bytes:
            charged, self.charged_bytes = self.charged_bytes, 0
            self._begun = 0
            budget.finish(arrival, charged)
        if size:
            more = frames.held_bytes - self.charged_bytes
            if more < 0 or budget.must_admit(more + frames.growth_bytes):
                return False
            if not is_same:
                self._begun = frames.begun
                budget.begin(arrival)
            if more:
                self.charged_bytes += more
                budget.charge(more)
        return True

    def release(self, arrival: Arrival) -> bool:
        """Keep nothing, and charge nothing for it; returns whether anything was charged."""
        self.kept = None
        charged, self.charged_bytes = self.charged_bytes, 0
        if charged:
            self.budget.forget(arrival)
            self.budget.charge(-charged)
        return bool(charged)

"""What is to be sent on one connection: the responses that wait, in the order of their requests.

    READY   --defer----> WAITING   --answer--> READY
    READY   --mute-----> MUTED     --answer--> READY
    READY   --fill-----> FULL      --answer--> READY
    READY   --block----> BLOCKED   --drain---> READY
    any     --give_up--> WAITING   --end-----> ENDING

A request is handled only in READY. Kafka mutes the channel from the receipt of each request until
its response is sent; here that is WAITING. Responses that are made at once leave at once, and the
queue stays empty.

A Produce that waits for followers is in the log already, so those behind it can be handled
meanwhile: followers fetch what several of them have appended at once. Their responses are queued,
and the state stays READY until the queue is FULL. A request of another kind waits until all queued
responses are sent (WAITING): it may ask for what was produced before it, and its response may be
too large to be kept.

This is a core without I/O: it says what may be sent next, and when the next request may be handled.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ProtocolError
from ...clients.protocol.schema import Chunk
from .response import DeferredResponse, Refused, Response, discard, give_up, is_given_up

PENDING_MAX = 5
"""The most responses that wait before no more requests are handled: what an idempotent producer has
in flight (max.in.flight.requests.per.connection)."""


class ResponseState(Enum):
    """Whether the next request may be handled, and if not, what it waits for."""

    READY = "ready"
    FULL = "full"
    WAITING = "waiting"
    MUTED = "muted"
    BLOCKED = "blocked"
    ENDING = "ending"
    CLOSED = "closed"


class ResponseEvent(Enum):
    """What can happen to the responses of a connection."""

    DEFER = "a response must wait, and no request is handled before it"
    MUTE = "a response is sent, and the next request must wait"
    FILL = "as many responses wait as may"
    ANSWER = "the responses that were waited for are sent, or the mute is over"
    BLOCK = "the peer did not read the whole response"
    DRAIN = "the peer read the rest"
    GIVE_UP = "what the responses wait for is given up, as the peer sends no more"
    END = "the peer must still read the responses before one that is given up"
    LOSE = "the connection is lost"


_S, _E = ResponseState, ResponseEvent

TRANSITIONS: dict[tuple[ResponseState, ResponseEvent], ResponseState] = {
    (_S.READY, _E.DEFER): _S.WAITING,
    (_S.READY, _E.MUTE): _S.MUTED,
    (_S.READY, _E.FILL): _S.FULL,
    (_S.READY, _E.BLOCK): _S.BLOCKED,
    (_S.FULL, _E.ANSWER): _S.READY,
    (_S.WAITING, _E.ANSWER): _S.READY,
    (_S.MUTED, _E.ANSWER): _S.READY,
    (_S.BLOCKED, _E.DRAIN): _S.READY,
    (_S.READY, _E.GIVE_UP): _S.WAITING,
    (_S.FULL, _E.GIVE_UP): _S.WAITING,
    (_S.WAITING, _E.GIVE_UP): _S.WAITING,
    (_S.BLOCKED, _E.GIVE_UP): _S.WAITING,
    (_S.ENDING, _E.GIVE_UP): _S.ENDING,
    **{
        (state, _E.END): _S.ENDING
        for state in (_S.READY, _S.FULL, _S.WAITING, _S.MUTED, _S.BLOCKED)
    },
    **{(state, _E.LOSE): _S.CLOSED for state in _S if state is not _S.CLOSED},
}
"""Every legal transition; any other is a bug."""

# In Python 3.11, looking up an enum member takes 0.1 µs, and its hash is a call in Python.
_FULL, _CLOSED = _S.FULL, _S.CLOSED
_AWAITING = (_S.FULL, _S.WAITING, _S.MUTED)


class Later(NamedTuple):
    """A response that is made when `work` is done."""

    work: asyncio.Future[object]
    respond: Callable[[asyncio.Future[object]], Response]


Pending = Sequence[Chunk] | Later | Refused | ProtocolError
"""A response, or the error because of which the connection is closed in its place."""


class GivenUp(Exception):
    """What a response waited for was cancelled."""


class ResponseQueue:
    """The responses of one connection that wait; empty while none is deferred."""

    __slots__ = ("pending", "state")

    def __init__(self) -> None:
        self.state = ResponseState.READY
        self.pending: deque[Pending] = deque()

    def move(self, event: ResponseEvent) -> None:
        """Apply an event."""
        self.state = TRANSITIONS[self.state, event]

    @property
    def is_awaiting(self) -> bool:
        """Whether the next request waits for a response to an earlier one, or for a mute."""
        return self.state in _AWAITING

    @property
    def has_room(self) -> bool:
        """Whether the next request need not wait any longer, now that some responses are sent."""
        if self.state is _FULL:
            return len(self.pending) < PENDING_MAX
        return not self.pending and self.state in _AWAITING

    def stop_when_full(self) -> None:
        """Handle no more requests if as many responses wait as may."""
        if len(self.pending) >= PENDING_MAX and self.state is ResponseState.READY:
            self.move(ResponseEvent.FILL)

    def take_ready(self) -> Iterator[Response]:
        """Remove the responses at the front that can be made now, and make them.

        Raises GivenUp, or the error that stands in place of a response.
        """
        pending = self.pending
        while pending:
            first = pending[0]
            if isinstance(first, Later):
                if not first.work.done():
                    return
                pending.popleft()
                if is_given_up(first.work):
                    raise GivenUp
                yield first.respond(first.work)
            elif isinstance(first, Exception):
                raise first
            else:
                pending.popleft()
                yield first
            if self.state is _CLOSED:
                return

    def finish(self, work: asyncio.Future[object]) -> None:
        """Make the response to this work for a peer that has left: it reports what has failed."""
        for response in self.pending:
            if isinstance(response, Later) and response.work is work and not is_given_up(work):
                with suppress(Refused):
                    made = response.respond(work)
                    if isinstance(made, DeferredResponse):
                        discard(made.work)

    def hang_up(self) -> None:
        """Wait for nothing that can be given up: the peer sends no more.

        A muted peer has its response: the mute goes on, and the requests behind it are answered.
        """
        if self.pending and self.state is not ResponseState.MUTED:
            self.move(ResponseEvent.GIVE_UP)
            self._give_up()

    def lose(self) -> None:
        """Give up all: the connection is lost."""
        self.move(ResponseEvent.LOSE)
        self._give_up()

    def _give_up(self) -> None:
        """Cancel what the responses wait for, except tasks, which may have changed something."""
        for response in self.pending:
            if isinstance(response, Later):
                give_up(response.work)

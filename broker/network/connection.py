"""One client's connection: frames in, responses out, in order (`SocketServer.Processor`).

A connection joins two halves, each with its table of states: what has arrived
(`request_stream.py`), and what is to be sent (`response_queue.py`). The next request is handled
when both are ready for it. Nothing more is read until then, and until the client has read the last
response: TCP flow control holds back a client that sends faster than it reads. A disconnect is
still noticed (`Receiver.hung_up`), and cancels what the current request waits for; requests behind
it that have already been read are dropped. If the client has only closed its sending side, it still
gets the responses to earlier requests.

Requests that arrive together are answered together: responses are queued until the whole read is
processed, and then sent in one call. A read with more requests than one turn allows takes several
turns, and other connections have theirs in between (`turns.py`). The rest of a request that arrives
in pieces is read when there is memory for it (`receive_budget.py`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ...clients.errors import ProtocolError
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk
from ...security.session import PLAINTEXT_SESSION, Session
from .receive_budget import LEAST_PROGRESS_BYTES, ReceiveBudget, UnsentResponses
from .request_stream import (
    ENDED,
    HANDLING,
    QUEUED,
    RequestEvent,
    RequestState,
    RequestStream,
    may_go_ahead,
    put_back,
)
from .response import DeferredResponse, Refused, Response, Work, discard
from .response_queue import GivenUp, Later, ResponseEvent, ResponseQueue, ResponseState
from .transport import Transport
from .turns import REQUESTS_A_TURN, Turns

_READ_AHEAD_MAX = 4 * 1024 * 1024
"""How much to read after a waiting request to check whether the client is still connected: the
default maximum of the client's TCP send buffer."""

_CORK_BYTES = 256 * 1024
"""Responses to requests that arrived together are sent together, up to this size."""

# In Python 3.11 looking up an enum member takes 0.1 µs, which would slow down every request.
_READING = RequestState.READING
_READY, _CLOSED = ResponseState.READY, ResponseState.CLOSED
_DEFER, _MUTE = ResponseEvent.DEFER, ResponseEvent.MUTE
_ENDING_OR_CLOSED = (ResponseState.ENDING, ResponseState.CLOSED)
"""States in which no further response is queued."""


class ConnectedClient:
    """The client of one connection."""

    __slots__ = ("fetch_pacing", "host", "last_header", "listener", "on_lost", "session")

    def __init__(self, host: str, listener: str, session: Session = PLAINTEXT_SESSION) -> None:
        self.host = host
        self.listener = listener
        self.session = session
        """What the client has authenticated; replaced as a whole when that changes."""
        self.last_header: object = None
        """The decoded header of the last request; only the dispatch uses it."""
        self.fetch_pacing: object = None
        """The pacing of its Fetch responses; only the dispatch uses it."""
        self.on_lost: Callable[[], None] | None = None
        """Called once when the connection is closed, by whichever side."""


Answer = Callable[[ConnectedClient, memoryview], Response]
"""Answers one request. Raises Refused or ProtocolError if the connection must be closed."""


class ConnectionOwner(Protocol):
    """What a connection needs from its server."""

    def answer(self, client: ConnectedClient, frame: memoryview, /) -> Response:
        """Answer one request. Raises Refused or ProtocolError if the connection must be closed."""
        ...

    def adopt(self, work: Work) -> asyncio.Future[object]:
        """Let the server own the work and run it to its end."""
        ...

    def forget(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        ...

    @property
    def receive_budget(self) -> ReceiveBudget:
        """The memory budget for the requests of all connections."""
        ...

    @property
    def unsent_responses(self) -> UnsentResponses:
        """The memory budget for the responses of all connections."""
        ...

    @property
    def turns(self) -> Turns:
        """The queue of connections that have many requests."""
        ...

    def report(self, client: ConnectedClient, reason: str) -> None:
        """Log in one line why a connection is closed; rate-limited."""
        ...


class Connection:
    """The `Receiver` of one transport."""

    __slots__ = (
        "_corked",
        "_loop",
        "_owner",
        "_responses",
        "_transport",
        "_turns",
        "client",
        "last_active",
        "requests",
    )

    def __init__(
        self, transport: Transport, client: ConnectedClient, owner: ConnectionOwner, max_bytes: int
    ) -> None:
        self.client = client
        self.requests = RequestStream(max_bytes, owner.receive_budget)
        self._responses = ResponseQueue()
        self._transport = transport
        self._owner = owner
        self._turns = owner.turns
        self._corked = 0
        """The bytes of responses handed to the transport but not flushed yet."""
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()

    @property
    def is_closed(self) -> bool:
        """Whether the transport is closed."""
        return self._responses.state is _CLOSED

    @property
    def _may_handle(self) -> bool:
        """Whether the next request may be handled."""
        return self._responses.state is _READY and self.requests.state in HANDLING

    def accept_larger_requests(self, max_bytes: int, budget: ReceiveBudget) -> None:
        """Accept requests of up to that size from the next one on, and charge them to `budget`."""
        self.requests.frames.max_bytes = max_bytes
        self.requests.budget.unwatch(self)
        self.requests.charge_to(budget, self)

    # What has arrived

    @property
    def readable_bytes(self) -> int:
        """How much can be read now; 0 while the next request cannot be answered."""
        requests = self.requests
        if requests.state is not _READING or self._responses.state is not _READY:
            return 0
        return requests.budget.read_bytes

    @property
    def missing_bytes(self) -> int:
        """How many bytes are certain to follow for a partly arrived request; 0 if none is."""
        requests = self.requests
        frames = requests.frames
        if not frames.unfinished_bytes or requests.kept is not None or not self._may_handle:
            return 0
        missing = frames.unfinished_bytes - frames.arrived_bytes
        # While memory is short, the budget looks at the progress of each client.
        return min(missing, LEAST_PROGRESS_BYTES) if requests.budget.is_short else missing

    def received(self, view: memoryview) -> None:
        """Handle bytes that arrived; they are valid during this call only."""
        self.last_active = self._loop.time()
        requests = self.requests
        try:
            if requests.state is not _READING or self._responses.state is not _READY:
                requests.keep(view)
            elif (frame := requests.frames.only_frame(view)) is not None:
                if not self._responses.pending:
                    response = self._owner.answer(self.client, frame)
                    if not isinstance(response, DeferredResponse):
                        # The usual case: nothing is incomplete, kept or queued after the request.
                        if response:
                            self._transport.send(response)
                            self._flush()
                        return
                    self._defer(response)
                elif may_go_ahead(frame):
                    self._handle(frame)
                else:
                    self._keep_until_sent(view)
                    return
            else:
                rest = self._handle_all(view)
                if rest is not None:
                    requests.keep(rest)
        except (ProtocolError, Refused) as error:
            self._refuse_in_turn(error)
            return
        if self._responses.state is not _CLOSED:
            self._settle()

    def _handle_all(self, view: memoryview, deadline: float | None = None) -> memoryview | None:
        """Handle every request that these bytes complete, until one must wait or the turn is over.

        The turn ends at `deadline` if the connection was in the queue, otherwise at a deadline of
        its own. Returns the bytes that are left; None if there are none.
        """
        frames, responses, time = self.requests.frames, self._responses, self._loop.time
        left = REQUESTS_A_TURN
        try:
            for frame in frames.feed(view):
                if deadline is None:
                    deadline = self._turns.deadline(time())
                if responses.pending and not may_go_ahead(frame):
                    responses.move(ResponseEvent.DEFER)
                    return put_back(frame, view[frames.position :])
                self._handle(frame)
                left -= 1
                if responses.state is not _READY or not left or time() >= deadline:
                    rest = view[frames.position :]
                    return rest or None
        finally:
            if left < REQUESTS_A_TURN:
                self._turns.over(time())
        return None

    def space(self) -> memoryview | None:
        """The buffer for the rest of a large request that has partly arrived."""
        return self.requests.frames.space()

    def filled(self, size: int) -> None:
        """Handle `size` more bytes of the large request, which are in `space()`."""
        self.last_active = self._loop.time()
        requests = self.requests
        frame = requests.frames.received(size)
        if frame is None:
            if self not in requests.budget.admitted:
                self._settle()
            return
        try:
            if self._responses.pending and not may_go_ahead(frame):
                self._keep_until_sent(put_back(frame))
                requests.frames.release()
                return
            self._handle(frame)
            requests.frames.release()
        except (ProtocolError, Refused) as error:
            self._refuse_in_turn(error)
            return
        self._settle()

    def _keep_until_sent(self, rest: memoryview) -> None:
        """Keep a request until all pending responses are sent."""
        self._responses.move(ResponseEvent.DEFER)
        self.requests.keep(rest)
        self._settle()

    def _handle(self, frame: memoryview) -> None:
        response = self._owner.answer(self.client, frame)
        if isinstance(response, DeferredResponse):
            self._defer(response)
        elif self._responses.pending:
            self._enqueue(response)
        elif response:
            self._send(response)

    def take_turn(self, deadline: float) -> None:
        """Continue with the requests of the last read."""
        if self.requests.state in QUEUED:
            self.last_active = self._loop.time()
            self.requests.move(RequestEvent.TURN)
            self._continue(deadline)

    def _continue(self, deadline: float | None = None) -> None:
        """Handle the bytes that were kept, then resume reading."""
        requests = self.requests
        if requests.kept is not None and self._may_handle:
            kept, requests.kept = requests.kept, None
            try:
                requests.kept = self._handle_all(kept, deadline)
            except (ProtocolError, Refused) as error:
                self._refuse_in_turn(error)
                return
        self._settle()

    def _settle(self) -> None:
        """Send what is queued; resume reading only if nothing is in progress or kept."""
        requests = self.requests
        if self._corked and self._responses.state is _READY:
            self._flush()
        if requests.charged_bytes or requests.kept is not None or requests.frames.unfinished_bytes:
            self._account()
        if self._responses.state is _READY:
            if requests.kept is None:
                if requests.state is RequestState.ENDED:
                    requests.move(RequestEvent.RESUME)
                if requests.state is _READING:
                    self._transport.resume_reading()
                    return
            elif requests.state in HANDLING:
                requests.move(RequestEvent.YIELD)
                self._turns.join(self)
        if requests.kept is not None or requests.state is RequestState.STARVED:
            self._transport.pause_reading()
            self.on_unread_input()

    def _account(self) -> None:
        """Charge kept bytes to the budget, and request room for the rest of a partial request."""
        requests, state = self.requests, self._responses.state
        if state is _CLOSED:
            return
        if not requests.account(self, is_ready=state is _READY and requests.state in HANDLING):
            self.close_for_memory(
                "memory is short, and it has sent more requests than can be answered at once"
            )

    def admitted(self) -> None:
        """There is room for the rest of the request."""
        requests = self.requests
        if requests.state is RequestState.STARVED:
            requests.move(RequestEvent.ADMIT)
            requests.budget.promise(self)
            requests.charge_whole()
            self._settle()

    def on_unread_input(self) -> None:
        """More bytes have arrived, which are not read until the request in progress is answered."""
        if self._responses.is_awaiting:
            self.requests.budget.watch(self)

    def look_ahead(self) -> None:
        """Check for the end of the stream while a request waits.

        The end arrives after all bytes before it. Unless those are read, the socket's receive
        buffer may have no room for them.
        """
        requests = self.requests
        if not self._responses.is_awaiting or requests.state in ENDED:
            return
        if requests.kept is not None and len(requests.kept) >= _READ_AHEAD_MAX:
            return
        ahead = self._transport.read_ahead()
        if ahead is None:
            return
        if not ahead:
            self.hung_up()
            return
        requests.keep(ahead)
        self._account()

    def hung_up(self) -> None:
        """The peer sends no more: cancel what its requests wait for, if anything."""
        self.requests.move(RequestEvent.END)
        self._responses.hang_up()

    # What is to be sent

    def _send(self, chunks: Sequence[Chunk]) -> None:
        """Queue a response. Responses without records are sent together in one call."""
        self._transport.send(chunks)
        self._corked += size_of(chunks[0])
        if len(chunks) > 1 or self._corked > _CORK_BYTES:
            self._flush()

    def _enqueue(self, chunks: Sequence[Chunk]) -> None:
        """Send a response after those that are pending."""
        if chunks:
            self._responses.pending.append(chunks)
            self._responses.stop_when_full()

    def _defer(self, response: DeferredResponse, *, is_first: bool = False) -> None:
        """Send a response when its work is done, after the pending ones, or before them if
        `is_first`."""
        responses = self._responses
        pending = responses.pending
        if response.at_once:
            if pending and not is_first:
                pending.append(response.at_once)
            else:
                self._transport.send(response.at_once)
        # Earlier responses must not wait for the one that is deferred now.
        self._corked = 0
        is_sent = self._transport.flush()
        if not is_sent:
            self._owner.unsent_responses.note(self, self._transport.unsent_bytes)
        if responses.state is _CLOSED:
            discard(response.work)
            return
        work = self._owner.adopt(response.work)
        if response.held_bytes:
            # Released before the next request is handled.
            self.requests.budget.hold(response.held_bytes, work)
        work.add_done_callback(self._send_ready)
        later = Later(work, response.respond)
        is_ended = self.requests.state in ENDED
        if is_first:
            pending.appendleft(later)
        else:
            pending.append(later)
            if response.is_pipelined and is_sent and not is_ended:
                responses.stop_when_full()
            else:
                responses.move(_MUTE if response.at_once else _DEFER)
        if is_ended:
            responses.hang_up()

    def _send_ready(self, done: asyncio.Future[object]) -> None:
        """Send the pending responses that are ready; handle more requests if there is room."""
        responses = self._responses
        if responses.state in _ENDING_OR_CLOSED:
            responses.finish(done)
            return
        self.last_active = self._loop.time()
        try:
            for response in responses.take_ready():
                if isinstance(response, DeferredResponse):
                    self._defer_again(response)
                    return
                if response:
                    self._send(response)
        except GivenUp:
            self._end()
        except (ProtocolError, Refused) as error:
            self._refuse(error)
        else:
            self._on_sent()

    def _defer_again(self, response: DeferredResponse) -> None:
        """The first pending response needs more work: send it when that is done."""
        responses = self._responses
        if responses.is_awaiting and not responses.pending:
            # This response now decides what the next request waits for: its work, or a mute.
            self.requests.budget.unwatch(self)
            responses.move(ResponseEvent.ANSWER)
            self._defer(response)
            self._settle()
        else:
            # Flush first: no further request may be handled while bytes are unsent.
            self._flush()
            self._defer(response, is_first=True)
            self._on_sent()

    def _on_sent(self) -> None:
        """Handle more requests if those that were waited for are answered.

        Those are dropped if the client has left meanwhile, but not if it was only muted: it may
        have left long after it got its response.
        """
        responses = self._responses
        if not responses.has_room:
            if self._corked:
                self._flush()
            return
        if self.requests.state in ENDED and responses.state is not ResponseState.MUTED:
            self._end()
            return
        self.requests.budget.unwatch(self)
        responses.move(ResponseEvent.ANSWER)
        # No further request may be handled while bytes are unsent.
        self._flush()
        self._continue()

    def _flush(self) -> None:
        """Send what is queued, and handle no more requests until the peer has read it."""
        self._corked = 0
        sent = self._transport.flush()
        if not sent and self._responses.state is _READY:
            self._responses.move(ResponseEvent.BLOCK)
            self._owner.unsent_responses.note(self, self._transport.unsent_bytes)

    def progressed(self) -> None:
        """The peer has read some of the unsent bytes."""
        self.last_active = self._loop.time()
        self._owner.unsent_responses.note(self, self._transport.unsent_bytes)

    def drained(self) -> None:
        """The peer has read all unsent bytes."""
        self._owner.unsent_responses.note(self, 0)
        responses = self._responses
        if responses.state is ResponseState.ENDING:
            self.close()
        elif responses.state is ResponseState.BLOCKED:
            responses.move(ResponseEvent.DRAIN)
            self._continue()

    # The end

    def _end(self) -> None:
        """Close once the earlier responses are sent; the requests behind them are dropped."""
        self.requests.kept = None
        if self._transport.flush():
            self.close()
            return
        self._responses.move(ResponseEvent.END)
        self._owner.unsent_responses.note(self, self._transport.unsent_bytes)
        self._account()
        self.requests.budget.unwatch(self)
        self.requests.budget.forget(self)

    def _refuse_in_turn(self, error: ProtocolError | Refused) -> None:
        """Close the connection once the responses to earlier requests are sent."""
        responses = self._responses
        if responses.state is _READY and responses.pending:
            responses.pending.append(error)
            responses.move(ResponseEvent.DEFER)
        else:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        # The client still gets the responses to the requests before the bad frame.
        self._transport.flush()
        if not self.is_closed:
            self._owner.report(self.client, str(error))
            self.close()

    def close_for_memory(self, reason: str) -> None:
        """Close the connection to protect the others, and report why."""
        if not self.is_closed:
            self._owner.report(self.client, reason)
            self.close()

    def close(self) -> None:
        """Close at once."""
        self._transport.close()

    def disconnected(self) -> None:
        """The transport is closed."""
        if self.is_closed:
            return
        requests, budget = self.requests, self.requests.budget
        requests.move(RequestEvent.LOSE)
        budget.unwatch(self)
        self._responses.lose()
        self._owner.unsent_responses.note(self, 0)
        if requests.release(self):
            # Not now: the admission of a waiting request may have caused this disconnect.
            self._loop.call_soon(budget.admit_waiting)
        self._owner.forget(self)
        if self.client.on_lost is not None:
            self.client.on_lost()

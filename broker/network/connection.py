"""One client's connection: frames in, responses out, in order (`SocketServer.Processor`).

A connection has at most one request in progress; Kafka calls the channel muted meanwhile. Only
while Produce requests wait for followers are others of their kind handled, up to a limit
(`ordered_answers.py`). Nothing more is read until the response is made and the client has read it:
TCP flow control holds back a client that sends faster than it reads. If the last read brought more
than the request in progress, those bytes are kept; they are at most one read. A disconnect is still
noticed (`Receiver.hung_up`), and cancels what the request waits for; the requests behind it are
dropped. If the client has only closed its sending side, it still gets the responses to earlier
requests.

Requests that arrive together are answered together: responses are queued until the whole read is
processed, and then sent in one call. A read with more requests than one turn allows takes several
turns, and other connections have theirs in between (`turns.py`). The rest of a request that arrives
in pieces is read when there is memory for it (`receive_budget.py`). The states are in
`connection_states.py`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ...clients.errors import ProtocolError
from ...clients.protocol.connection import FrameReader
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk
from ...security.session import PLAINTEXT_SESSION, Session
from .begun_work import Work, discard, give_up, is_given_up
from .connection_states import TRANSITIONS, ConnectionEvent, ConnectionState
from .ordered_answers import Answered, OrderedAnswers, may_go_ahead, put_back
from .receive_budget import LEAST_PROGRESS_BYTES, ReceiveBudget, UnsentAnswers
from .transport import Transport
from .turns import REQUESTS_A_TURN, Turns

_READ_AHEAD_MAX = 4 * 1024 * 1024
"""How much to read after a waiting request to check whether the client is still connected: the
default maximum of the client's TCP send buffer."""

_CORK_BYTES = 256 * 1024
"""Responses to requests that arrived together are sent together, up to this size."""


# In Python 3.11 looking up an enum member takes 0.1 µs, which would slow down every request.
_READY = ConnectionState.READY


class Refused(Exception):
    """The request cannot be answered: the connection is closed, and `str(error)` is the reason."""


class DeferredResponse(NamedTuple):
    """A response that `respond` makes when `work` is done.

    The chunks of `at_once` are sent first: a client above its quota gets its response, and its next
    request is not read until `work` is done. `held_bytes` of the request stay in memory until then.
    Later requests may be handled meanwhile if it `is_pipelined`: its own is done, and a
    future tells when it may be answered.
    """

    work: Work
    respond: "Callable[[asyncio.Future[object]], Response]"
    at_once: Sequence[Chunk] = ()
    held_bytes: int = 0
    is_pipelined: bool = False


Response = Sequence[Chunk] | DeferredResponse
"""The chunks of a framed response (empty if none is sent), or a deferred response."""


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
    def unsent_answers(self) -> UnsentAnswers:
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
        "_begun",
        "_budget",
        "_corked",
        "_frames",
        "_is_admitted",
        "_is_ending",
        "_is_hung_up",
        "_is_muted",
        "_last",
        "_loop",
        "_owed",
        "_owner",
        "_pending",
        "_refusal",
        "_rest",
        "_transport",
        "_turns",
        "charged_bytes",
        "client",
        "last_active",
        "state",
    )

    def __init__(
        self, transport: Transport, client: ConnectedClient, owner: ConnectionOwner, max_bytes: int
    ) -> None:
        self.client = client
        self.state = ConnectionState.READY
        self._transport = transport
        self._owner = owner
        self._frames = FrameReader(max_bytes, owner.receive_budget.buffers)
        self._corked = 0
        self._turns = owner.turns
        self._budget = owner.receive_budget
        self.charged_bytes = 0
        """What the budget is charged for this connection."""
        self._begun = 0
        """The number of the partial request that the budget knows of; 0 if none."""
        self._is_admitted = False
        """Whether the budget has admitted it: all of its size is charged."""
        self._rest: memoryview | None = None
        """The bytes read after the request in progress: a copy, as the read buffer is shared."""
        self._is_hung_up = False
        self._is_muted = False
        """The state is WAITING although the response is sent: the client is throttled or paced."""
        self._is_ending = False
        """The connection is closed once the earlier responses are sent: its client has left."""
        self._pending: asyncio.Future[object] | None = None
        self._owed: OrderedAnswers[Response] = OrderedAnswers()
        self._last: Answered[Response] | None = None
        """The answer to the request in progress, which waits for those that are owed."""
        self._refusal: Exception | None = None
        """Why the connection is closed once what is owed is sent."""
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()

    def _move(self, event: ConnectionEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def trust(self, max_bytes: int, budget: ReceiveBudget) -> None:
        """Accept requests of up to that size from the next one on, and charge them to `budget`."""
        self._frames.max_bytes = max_bytes
        self._frames.buffers = budget.buffers
        former, self._budget = self._budget, budget
        charged, self.charged_bytes = self.charged_bytes, 0
        self._begun, self._is_admitted = 0, False
        former.unwatch(self)
        former.finish(self, charged)

    @property
    def readable_bytes(self) -> int:
        """How much can be read now; 0 while the next request cannot be answered."""
        return self._budget.read_bytes if self.state is _READY else 0

    @property
    def unfinished_bytes(self) -> int:
        """The size of the request that has partly arrived."""
        return self._frames.unfinished_bytes

    @property
    def missing_bytes(self) -> int:
        """How many bytes are certain to come, because a request has partly arrived; or 0."""
        if not self._frames.unfinished_bytes or self._rest is not None or self.state is not _READY:
            return 0
        missing = self._frames.unfinished_bytes - self._frames.arrived_bytes
        # While memory is short, the budget looks at the progress of each client.
        return min(missing, LEAST_PROGRESS_BYTES) if self._budget.is_short else missing

    @property
    def arrived_bytes(self) -> int:
        """The bytes of the partial request that have arrived."""
        return self._frames.arrived_bytes

    def received(self, view: memoryview) -> None:
        """Handle bytes that arrived; they are valid during this call only."""
        self.last_active = self._loop.time()
        try:
            if self.state is not _READY:
                self._keep(view)
            elif (frame := self._frames.only_frame(view)) is not None:
                if len(self._owed) and not may_go_ahead(frame):
                    self._hold_up(view)
                    return
                answer = self._owner.answer(self.client, frame)
                if isinstance(answer, DeferredResponse):
                    self._defer(answer)
                elif len(self._owed):
                    self._owe(answer)
                else:
                    # The usual case: nothing is incomplete, kept or queued after the request.
                    if answer:
                        self._transport.send(answer)
                        self._flush()
                    return
            else:
                rest = self._handle_all(view)
                if rest is not None:
                    self._keep(rest)
        except (ProtocolError, Refused) as error:
            self._refuse_in_turn(error)
            return
        if self.state is not ConnectionState.CLOSED:
            self._settle()

    def _keep(self, rest: memoryview) -> None:
        """Copy bytes that cannot be handled now: the next read of any connection overwrites them.

        Some may be kept already, from looking ahead or from asyncio's transports.
        """
        kept = bytearray() if self._rest is None else bytearray(self._rest)
        kept += rest
        self._rest = memoryview(kept)

    def _handle_all(self, view: memoryview, deadline: float | None = None) -> memoryview | None:
        """Handle every request that these bytes complete, until one must wait or the turn is over.

        The turn ends at `deadline` if the connection was in the queue, otherwise at a deadline of
        its own. Returns the bytes that are left; None if there are none.
        """
        frames, time = self._frames, self._loop.time
        left = REQUESTS_A_TURN
        try:
            for frame in frames.feed(view):
                if deadline is None:
                    deadline = self._turns.deadline(time())
                if len(self._owed) and not may_go_ahead(frame):
                    self._move(ConnectionEvent.DEFER)
                    return put_back(frame, view[frames.position :])
                self._handle(frame)
                left -= 1
                if self.state is not _READY or not left or time() >= deadline:
                    rest = view[frames.position :]
                    return rest or None
        finally:
            if left < REQUESTS_A_TURN:
                self._turns.over(time())
        return None

    def space(self) -> memoryview | None:
        """The buffer for the rest of a large request that has partly arrived."""
        return self._frames.space()

    def filled(self, size: int) -> None:
        """Handle `size` more bytes of the large request, which are in `space()`."""
        self.last_active = self._loop.time()
        frame = self._frames.received(size)
        if frame is None:
            if not self._is_admitted:
                self._settle()
            return
        try:
            if len(self._owed) and not may_go_ahead(frame):
                self._hold_up(put_back(frame))
                self._frames.release()
                return
            self._handle(frame)
            self._frames.release()
        except (ProtocolError, Refused) as error:
            self._refuse_in_turn(error)
            return
        self._settle()

    def _hold_up(self, rest: memoryview) -> None:
        """Keep a request until what is owed is sent."""
        self._move(ConnectionEvent.DEFER)
        self._keep(rest)
        self._settle()

    def _handle(self, frame: memoryview) -> None:
        answer = self._owner.answer(self.client, frame)
        if isinstance(answer, DeferredResponse):
            self._defer(answer)
        elif len(self._owed):
            self._owe(answer)
        elif answer:
            self._send(answer)

    def _send(self, answer: Sequence[Chunk]) -> None:
        """Queue a response. Responses without records are sent together in one call."""
        self._transport.send(answer)
        self._corked += size_of(answer[0])
        if len(answer) > 1 or self._corked > _CORK_BYTES:
            self._flush()

    def _owe(self, answer: Sequence[Chunk]) -> None:
        """Send a response after those that are owed."""
        if answer:
            self._owed.add_chunks(answer)
            self._wait_if_full()

    def _wait_if_full(self) -> None:
        if self._owed.is_full and self.state is _READY:
            self._move(ConnectionEvent.DEFER)

    def _defer(self, answer: DeferredResponse) -> None:
        if answer.at_once:
            if len(self._owed):
                self._owed.add_chunks(answer.at_once)
            else:
                self._transport.send(answer.at_once)
        # Earlier responses must not wait for the one that is deferred now.
        self._corked = 0
        is_sent = self._transport.flush()
        if not is_sent:
            self._owner.unsent_answers.owe(self, self._transport.unsent_bytes)
        if self.state is ConnectionState.CLOSED:
            discard(answer.work)
            return
        if answer.is_pipelined and is_sent and not self._is_hung_up:
            future = self._owner.adopt(answer.work)
            self._owed.add_later(future, answer.respond)
            future.add_done_callback(self._pay)
            self._wait_if_full()
            return
        self._move(ConnectionEvent.DEFER)
        future = self._owner.adopt(answer.work)
        if answer.held_bytes:
            self._budget.hold(answer.held_bytes, future)
        self._pending = future
        self._is_muted = bool(answer.at_once)
        respond = answer.respond
        future.add_done_callback(lambda done: self._answered(done, respond))
        if self._is_hung_up:
            self.hung_up()

    def _pay(self, done: asyncio.Future[object]) -> None:
        """Send the owed responses that are ready; handle more requests if there is room again."""
        if self.state is ConnectionState.CLOSED or not len(self._owed):
            is_given_up(done)
            return
        was_full = self._owed.is_full
        self.last_active = self._loop.time()
        try:
            for work, respond, chunks in self._owed.take_ready():
                if work is not None and is_given_up(work):
                    self.close()
                    return
                answer = chunks if respond is None or work is None else respond(work)
                if isinstance(answer, DeferredResponse):
                    self._owe_still(answer)
                    break
                if answer:
                    self._send(answer)
        except Refused as error:
            self._refuse(error)
            return
        self._paid(was_full)

    def _owe_still(self, answer: DeferredResponse) -> None:
        """Owe a response first that is being made in steps, because it is long."""
        future = self._owner.adopt(answer.work)
        self._owed.owe_first(future, answer.respond)
        future.add_done_callback(self._pay)

    def _paid(self, was_full: bool) -> None:
        """Go on after some owed responses are sent."""
        last, is_all = self._last, not len(self._owed)
        is_waiting = self.state is ConnectionState.WAITING
        is_free = self._pending is None and last is None and self._refusal is None
        if is_waiting and is_all and self._refusal is not None:
            self._refuse(self._refusal)
        elif is_waiting and is_all and last is not None:
            self._last = None
            self._answered(last.done, last.respond)
        elif is_waiting and is_free and (is_all or (was_full and not self._owed.is_full)):
            self._budget.unwatch(self)
            self._move(ConnectionEvent.ANSWER)
            self._flush()
            self._continue()
        elif self._corked and self.state is not ConnectionState.CLOSED:
            self._flush()

    def _answered(
        self,
        done: asyncio.Future[object],
        respond: Callable[[asyncio.Future[object]], Response],
    ) -> None:
        self._pending = None
        if len(self._owed):
            self._last = Answered(done, respond)
            return
        self._budget.unwatch(self)
        now = self._loop.time()
        if is_given_up(done):
            self._end()
            return
        self.last_active = now
        try:
            # Called even after a disconnect, because `respond` reports failures.
            chunks = respond(done)
        except Refused as error:
            self._refuse(error)
            return
        if self.state is not ConnectionState.WAITING:
            if isinstance(chunks, DeferredResponse):
                discard(chunks.work)
            return
        self._move(ConnectionEvent.ANSWER)
        if isinstance(chunks, DeferredResponse):
            self._defer(chunks)
            self._settle()
            return
        if chunks:
            self._send(chunks)
        self._go_on(has_answered=bool(chunks))

    def _go_on(self, *, has_answered: bool) -> None:
        """Handle the requests behind the one that is answered; they are dropped if its client has
        left meanwhile. A muted client may have left long after it had its response.
        """
        if self._is_hung_up and not self._is_muted:
            self._flush()
            self._end()
            return
        if self._rest is not None or not has_answered:
            # Flush first: no further request may be handled while bytes are unsent. After a mute
            # (no response), the one before it may still be unsent.
            self._flush()
        self._continue()

    def _end(self) -> None:
        """Close once the earlier responses are sent; the requests behind them are dropped."""
        self._rest = None
        if self._is_hung_up and not self._transport.flush():
            self._is_ending = True
            self._account()
            self._budget.forget(self)
        else:
            self.close()

    def progressed(self) -> None:
        """The peer has read some of the unsent bytes."""
        self.last_active = self._loop.time()
        self._owner.unsent_answers.owe(self, self._transport.unsent_bytes)

    def drained(self) -> None:
        """The peer has read all unsent bytes."""
        self._owner.unsent_answers.owe(self, 0)
        if self._is_ending:
            self.close()
        elif self.state is ConnectionState.BLOCKED:
            self._move(ConnectionEvent.DRAIN)
            self._continue()

    def take_turn(self, deadline: float) -> None:
        """Continue with the requests of the last read."""
        if self.state is ConnectionState.QUEUED and not self._is_ending:
            self.last_active = self._loop.time()
            self._move(ConnectionEvent.TURN)
            self._continue(deadline)

    def look_ahead(self) -> None:
        """Check for the end of the stream while a request waits.

        The end arrives after all bytes before it. Unless those are read, the socket's receive
        buffer may have no room for them.
        """
        if self.state is not ConnectionState.WAITING or self._is_hung_up:
            return
        if self._rest is not None and len(self._rest) >= _READ_AHEAD_MAX:
            return
        ahead = self._transport.read_ahead()
        if ahead is None:
            return
        if not ahead:
            self.hung_up()
            return
        self._keep(ahead)
        self._account()

    def hung_up(self) -> None:
        """The peer sends no more: cancel what its requests wait for, if anything.

        A muted client has its response. The mute goes on, and the requests behind it are answered.
        """
        self._is_hung_up = True
        if not self._is_muted:
            self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        """End all that was begun for this client's requests."""
        self._refusal = None
        self._last = None
        is_owing = bool(len(self._owed))
        self._owed.give_up()
        give_up(self._pending)
        if self._pending is None and is_owing and self.state is not ConnectionState.CLOSED:
            self._end()

    def _continue(self, deadline: float | None = None) -> None:
        """Handle the bytes that were kept, then resume reading."""
        rest, self._rest = self._rest, None
        try:
            if rest is not None and self.state is _READY:
                self._rest, rest = self._handle_all(rest, deadline), None
        except (ProtocolError, Refused) as error:
            self._refuse_in_turn(error)
            return
        if rest is not None and self.state is not ConnectionState.CLOSED:
            self._rest = rest
        self._settle()

    def _settle(self) -> None:
        """Send what is queued; resume reading only if nothing is in progress or kept."""
        if self._corked and self.state is _READY:
            self._flush()
        if self.charged_bytes or self._rest is not None or self._frames.unfinished_bytes:
            self._account()
        if self.state is _READY:
            if self._rest is None:
                self._transport.resume_reading()
                return
            self._move(ConnectionEvent.YIELD)
            self._turns.join(self)
        if self._rest is not None or self.state is ConnectionState.STARVED:
            self._transport.pause_reading()
            self.on_unread_input()

    def on_unread_input(self) -> None:
        """More bytes have arrived, which are not read until the request in progress is answered."""
        if self.state is ConnectionState.WAITING:
            self._budget.watch(self)

    def _account(self) -> None:
        """Charge kept bytes to the budget, and request room for the rest of a partial request."""
        if self.state is ConnectionState.CLOSED:
            return
        frames, budget = self._frames, self._budget
        size = frames.unfinished_bytes
        if self._rest is None and (not size or self.state is _READY) and self._account_frame(size):
            return
        if self._begun and not (size and self._begun == frames.begun):
            self._begun, self._is_admitted = 0, False
            budget.forget(self)
        if size and not self._begun:
            self._begun = frames.begun
            budget.begin(self)
        begun = size if self._is_admitted else frames.held_bytes
        behind = 0 if self._rest is None else len(self._rest)
        held = begun + behind
        more = held - self.charged_bytes
        if more:
            self.charged_bytes = held
            budget.charge(more)
            if more > 0 and not budget.may_keep(behind):
                self.shed(
                    "memory is short, and it has sent more requests than can be answered at once"
                )
                return
        needs_room = size and not self._is_admitted and self.state is _READY
        if needs_room and budget.must_admit(frames.growth_bytes):
            if budget.admit(self):
                self._is_promised()
            else:
                self._move(ConnectionEvent.STARVE)
        if more < 0:
            budget.admit_waiting()

    def _account_frame(self, size: int) -> bool:
        """The fast path of `_account`, when nothing is kept except perhaps a partial request.

        Returns False if it may have to wait for room; then the full `_account` must decide.
        """
        frames, budget = self._frames, self._budget
        is_same = size and self._begun == frames.begun
        if is_same and self._is_admitted:
            return self.charged_bytes == size
        if not is_same and self.charged_bytes:
            charged, self.charged_bytes = self.charged_bytes, 0
            self._begun, self._is_admitted = 0, False
            budget.finish(self, charged)
        if size:
            more = frames.held_bytes - self.charged_bytes
            if more < 0 or budget.must_admit(more + frames.growth_bytes):
                return False
            if not is_same:
                self._begun = frames.begun
                budget.begin(self)
            if more:
                self.charged_bytes += more
                budget.charge(more)
        return True

    @property
    def room_bytes(self) -> int:
        """How much more of the budget the whole request takes."""
        return self._frames.unfinished_bytes - self._frames.held_bytes

    def _is_promised(self) -> None:
        self._is_admitted = True
        self.charged_bytes += self.room_bytes

    def admitted(self) -> None:
        """There is room for the rest of the request."""
        if self.state is ConnectionState.STARVED:
            self._move(ConnectionEvent.ADMIT)
            self._budget.promise(self)
            self._is_promised()
            self._settle()

    def shed(self, reason: str) -> None:
        """Close the connection to protect the others, and report why."""
        if self.state is not ConnectionState.CLOSED:
            self._owner.report(self.client, reason)
            self.close()

    def _flush(self) -> None:
        """Send what is queued, and handle no more requests until the peer has read it."""
        self._corked = 0
        sent = self._transport.flush()
        if not sent and self.state is _READY:
            self._move(ConnectionEvent.BLOCK)
            self._owner.unsent_answers.owe(self, self._transport.unsent_bytes)

    def _refuse_in_turn(self, error: Exception) -> None:
        """Close the connection once what is owed to earlier requests is sent."""
        if self.state is _READY and len(self._owed):
            self._move(ConnectionEvent.DEFER)
            self._refusal = error
        else:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        # The client still gets the responses to the requests before the bad frame.
        self._transport.flush()
        if self.state is not ConnectionState.CLOSED:
            self._owner.report(self.client, str(error))
            self.close()

    def close(self) -> None:
        """Close at once."""
        self._transport.close()

    def disconnected(self) -> None:
        """The transport is closed."""
        if self.state is ConnectionState.CLOSED:
            return
        self._move(ConnectionEvent.LOSE)
        self._budget.unwatch(self)
        self._rest = None
        self._give_up_waiting()
        self._pending = None
        self._owner.unsent_answers.owe(self, 0)
        if self.charged_bytes:
            self._budget.forget(self)
            self._budget.charge(-self.charged_bytes)
            self.charged_bytes = 0
            # Not now: the admission of a waiting request may have caused this disconnect.
            self._loop.call_soon(self._budget.admit_waiting)
        self._owner.forget(self)
        if self.client.on_lost is not None:
            self.client.on_lost()

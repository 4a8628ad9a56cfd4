"""A small HTTP server for a broker's metrics, health and status.

A connection carries one request, and is closed after the response. No client can block the broker:
the size of a request head, the age of a connection and the number of connections are limited. When
there are too many, further ones wait in the backlog, until the oldest one of the address that has
the most has had half a second, or a tenth without having sent its request: then it is closed. So a
health check is answered beside any number of slow clients. Connections that come too fast wait
there, too, so that no flood of them takes much of the event loop's time. What is answered, and to
whom, is in `http_message.py`; the addresses are in `broker/status/`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeAlias

from .http_message import Request, Response, encode_response, parse_request, plain, refusal
from .transport import AttachableTransport, Listener, Network

_log = logging.getLogger(__name__)

_HEAD_BYTES_MAX = 8 * 1024
_HEAD_BYTES_READ_MAX = 64 * 1024
"""Of a longer head the rest is read to its end and dropped, so that its sender gets an answer."""
CONNECTIONS_MAX = 32
"""At once, from all addresses."""
_PATIENCE_S = 0.5
"""How long a connection has for its request and response while others wait."""
_PATIENCE_FOR_HEAD_S = 0.1
"""How long for its request alone, which most send together with their connection."""
_SECONDS_MAX = 10.0
BURST_MAX = 50
BURST_S = 0.1
"""After `BURST_MAX` connections within this time, further ones wait until it is over."""
_END_OF_HEAD = b"\r\n\r\n"

Answer: TypeAlias = Response | asyncio.Future[Response]
Site: TypeAlias = Callable[[Request], Answer]
"""Answers a request at once, or with a future that another task owns and that may be shared."""


class HttpEndpoint:
    """Listens, and responds with what its site answers."""

    def __init__(self, network: Network, site: Site, names: Collection[str] = ()) -> None:
        """`names` are the host names of this broker in its configuration."""
        self._network = network
        self._site = site
        self._names = frozenset(name.lower() for name in names)
        self._listener: Listener | None = None
        # In the order in which they came.
        self._open: dict[_Exchange, None] = {}
        self._burst = 0
        self._burst_end: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> int:
        """Bind the address and serve; returns the port. Raises OSError if it cannot be bound."""
        listener = await self._network.listen(host, port, self._on_connected)
        listener.resume_accepting()
        self._listener = listener
        return listener.port

    def stop(self) -> None:
        """Close the address and every connection. Idempotent."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for timer in (self._burst_end, self._look):
            if timer is not None:
                timer.cancel()
        for exchange in list(self._open):
            exchange.close()

    def answer(self, request: Request | None) -> Answer:
        """What the request gets."""
        refused = refusal(request, self._names)
        if refused is not None or request is None:
            return refused or plain(400, "This is not an HTTP request.")
        return self._site(request)

    def _count(self) -> None:
        """Count a connection; pause accepting if more than `BURST_MAX` came in this burst."""
        self._burst += 1
        if self._burst_end is None:
            self._burst_end = asyncio.get_running_loop().call_later(BURST_S, self._end_burst)
        self._accept_if_there_is_room()

    def _end_burst(self) -> None:
        self._burst, self._burst_end = 0, None
        self._accept_if_there_is_room()

    def _accept_if_there_is_room(self) -> None:
        if self._listener is None:
            return
        if self._burst >= BURST_MAX or len(self._open) >= CONNECTIONS_MAX:
            self._listener.pause_accepting()
        else:
            self._listener.resume_accepting()

    def _on_connected(self, transport: AttachableTransport) -> None:
        exchange = _Exchange(transport, self.answer, self._forget)
        self._open[exchange] = None
        self._count()
        if self._look is None or len(self._open) > CONNECTIONS_MAX:
            self._make_room()
        transport.attach(exchange)

    def _forget(self, exchange: "_Exchange") -> None:
        self._open.pop(exchange, None)
        self._accept_if_there_is_room()

    def _make_room(self) -> None:
        """Close the oldest connection of the address that has the most, once it has had its time.

        One that waits for us is closed only if there is no other: the broker is slow, not it.
        """
        self._look = None
        if len(self._open) < CONNECTIONS_MAX:
            return
        ((most, _),) = Counter(exchange.host for exchange in self._open).most_common(1)
        of_one = (exchange for exchange in self._open if exchange.host == most)
        oldest = min(of_one, key=lambda each: (each.waits_for_us, each.may_stay_until))
        loop = asyncio.get_running_loop()
        left_s = oldest.may_stay_until - loop.time()
        if left_s <= 0 or len(self._open) > CONNECTIONS_MAX:
            oldest.close()
        elif self._listener is not None:
            self._look = loop.call_later(left_s, self._make_room)


class _Exchange:
    """One connection: reads a request, sends the response, and closes."""

    def __init__(
        self,
        transport: AttachableTransport,
        answer: Callable[[Request | None], Answer],
        on_closed: "Callable[[_Exchange], None]",
    ) -> None:
        self._transport = transport
        self._answer_to = answer
        self._on_closed = on_closed
        self._head = b""
        self._head_bytes = 0
        self._request: Request | None = None
        self._is_read = False
        self._is_answered = False
        self._pending: asyncio.Future[Response] | None = None
        loop = asyncio.get_running_loop()
        self.began: float = loop.time()
        self._deadline = loop.call_later(_SECONDS_MAX, self.close)

    @property
    def host(self) -> str:
        """The address of the client."""
        return self._transport.peer_host

    @property
    def may_stay_until(self) -> float:
        """When it makes room for others that wait, if it has not ended by then."""
        return self.began + (_PATIENCE_S if self._is_read else _PATIENCE_FOR_HEAD_S)

    @property
    def waits_for_us(self) -> bool:
        """Whether the request is there, and its answer is not."""
        return self._pending is not None

    @property
    def readable_bytes(self) -> int:
        """The largest size of a head; later bytes are read too, and ignored."""
        return _HEAD_BYTES_MAX

    @property
    def missing_bytes(self) -> int:
        """0: the end of a head is not seen before it is there."""
        return 0

    def received(self, view: memoryview) -> None:
        """Add to the head; bytes after it are ignored."""
        if self._is_read:
            return
        begin = max(0, len(self._head) - len(_END_OF_HEAD))
        self._head += view
        self._head_bytes += len(view)
        end = self._head.find(_END_OF_HEAD, begin)
        if end >= 0:
            self._read(end)
        elif self._head_bytes > _HEAD_BYTES_READ_MAX:
            self.close()
        elif self._head_bytes > _HEAD_BYTES_MAX:
            self._head = self._head[-len(_END_OF_HEAD) :]

    def _read(self, end: int) -> None:
        """The head ends there. Nothing else is read: who sends no more may still be answered."""
        self._is_read = True
        self._transport.pause_reading()
        if self._head_bytes - len(self._head) + end > _HEAD_BYTES_MAX:
            self._send(plain(431, "The head of a request has 8 KiB at most, cookies included."))
            return
        self._request = parse_request(self._head[:end])
        answer = self._answer_to(self._request)
        if isinstance(answer, Response):
            self._send(answer)
        else:
            self._pending = answer
            answer.add_done_callback(self._on_answer)

    def _on_answer(self, answer: asyncio.Future[Response]) -> None:
        self._pending = None
        if answer.cancelled():
            self._send(plain(503, "This node is stopping."))
        elif answer.exception() is not None:
            self._send(plain(500, "An internal error; the log has it."))
        else:
            self._send(answer.result())

    def _send(self, response: Response) -> None:
        self._is_answered = True
        self._transport.send(encode_response(response, self._request))
        if self._transport.flush():
            self._transport.end()

    def space(self) -> memoryview | None:
        """None: no large request is expected."""
        return None

    def filled(self, size: int) -> None:
        """Never called, because `space` is None."""

    def progressed(self) -> None:
        """Does nothing: progress does not extend the connection's deadline."""

    def on_unread_input(self) -> None:
        """Never called, because `readable_bytes` is never 0."""

    def hung_up(self) -> None:
        """The peer has sent its request and sends no more; it may still read the answer."""

    def drained(self) -> None:
        """The peer has read the whole response."""
        if self._is_answered:
            self._transport.end()

    def disconnected(self) -> None:
        """The connection is closed."""
        self._deadline.cancel()
        if self._pending is not None:
            self._pending.remove_done_callback(self._on_answer)
            self._pending = None
        self._on_closed(self)

    def close(self) -> None:
        """Close the connection now, answered or not."""
        self._transport.close()

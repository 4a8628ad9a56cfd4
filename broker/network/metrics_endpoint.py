"""The metrics over HTTP: ``GET /metrics``.

It is open only where `tierlog.metrics.port` says so, on 127.0.0.1 unless `tierlog.metrics.host`
names another address. One request a connection, which is closed after the answer. No client can
block the broker: a request head has a largest size, a connection a largest age, and there is a
largest number of connections; what is more is closed. Only GET and HEAD are answered, and nothing
that is asked here changes anything.

A page in somebody's browser may have its own name lead here (DNS rebinding), and would then read
what is answered. So a request must name, in its `Host`, an address, localhost, or a name by which
the broker's configuration knows it.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Collection

from ..metrics.metrics import Metrics
from ..metrics.prometheus import CONTENT_TYPE, exposition
from .transport import AttachableTransport, Listener, Network

_HEAD_BYTES_MAX = 8 * 1024
_CONNECTIONS_MAX = 16
_SECONDS_MAX = 10.0
_END_OF_HEAD = b"\r\n\r\n"
_PLAIN = "text/plain; charset=utf-8"


def answer_to(head: bytes, page: Callable[[], str], names: Collection[str] = ()) -> bytes:
    """The HTTP response to a request of which `head` is the beginning, up to the empty line, at a
    broker that has these names.
    """
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _response("400 Bad Request", _PLAIN, "This is no HTTP request.\n")
    if not _names_us(head, names):
        return _response(
            "403 Forbidden",
            _PLAIN,
            "The Host of this request is no name of this broker: ask by its address, or by a name "
            "that stands in listeners, advertised.listeners or tierlog.metrics.host.\n",
        )
    method, target = words[0], words[1].partition(b"?")[0]
    is_head = method == b"HEAD"
    if target not in (b"/metrics", b"/"):
        return _response("404 Not Found", _PLAIN, "Metrics are at /metrics.\n", is_head)
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", _PLAIN, "Only GET is.\n", allow="GET, HEAD")
    if target == b"/":
        return _response("200 OK", _PLAIN, "Metrics are at /metrics.\n", is_head)
    return _response("200 OK", CONTENT_TYPE, page(), is_head)


def _names_us(head: bytes, names: Collection[str]) -> bool:
    """Whether every Host of the request is a name or an address of ours; one without any is old."""
    for line in head.split(b"\r\n")[1:]:
        field, _, value = line.partition(b":")
        if field.strip().lower() != b"host":
            continue
        text = value.strip().decode("latin-1").lower()
        host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
        if host not in ("localhost", *names) and not _is_address(host):
            return False
    return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _response(
    status: str, content_type: str, text: str, is_head: bool = False, allow: str = ""
) -> bytes:
    body = text.encode()
    allowed = f"Allow: {allow}\r\n" if allow else ""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{allowed}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)


class MetricsEndpoint:
    """Listens, and answers with the metrics of the moment."""

    def __init__(self, network: Network, metrics: Metrics, names: Collection[str] = ()) -> None:
        """`names` are those by which the configuration knows this broker."""
        self._network = network
        self._metrics = metrics
        self._names = frozenset(name.lower() for name in names)
        self._listener: Listener | None = None
        self._open: set[_Exchange] = set()

    async def start(self, host: str, port: int) -> int:
        """Take the address and answer from now on; the port. Raises OSError if it is taken."""
        listener = await self._network.listen(host, port, self._connected)
        listener.resume_accepting()
        self._listener = listener
        return listener.port

    def stop(self) -> None:
        """Close the address and every connection. Idempotent."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for exchange in list(self._open):
            exchange.close()

    def page(self) -> str:
        """All metrics of this moment."""
        return exposition(self._metrics.samples())

    def _answer(self, head: bytes) -> bytes:
        return answer_to(head, self.page, self._names)

    def _connected(self, transport: AttachableTransport) -> None:
        if len(self._open) >= _CONNECTIONS_MAX:
            transport.close()
            return
        exchange = _Exchange(transport, self._answer, self._open.discard)
        self._open.add(exchange)
        transport.attach(exchange)


class _Exchange:
    """One connection: a request, its answer, the end."""

    def __init__(
        self,
        transport: AttachableTransport,
        answer: Callable[[bytes], bytes],
        on_closed: "Callable[[_Exchange], None]",
    ) -> None:
        self._transport = transport
        self._answer_to = answer
        self._on_closed = on_closed
        self._head = b""
        self._is_answered = False
        self._deadline = asyncio.get_running_loop().call_later(_SECONDS_MAX, self.close)

    @property
    def appetite(self) -> int:
        """No more than a head is long; what follows is taken as well, and of no interest."""
        return _HEAD_BYTES_MAX

    def received(self, view: memoryview) -> None:
        """More of the head has come; what follows it is of no interest."""
        if self._is_answered:
            return
        self._head += view[: _HEAD_BYTES_MAX - len(self._head)]
        end = self._head.find(_END_OF_HEAD)
        if end >= 0:
            self._answer(self._head[:end])
        elif len(self._head) >= _HEAD_BYTES_MAX:
            self.close()

    def _answer(self, head: bytes) -> None:
        self._is_answered = True
        self._transport.send([self._answer_to(head)])
        if self._transport.flush():
            self._transport.end()

    def space(self) -> memoryview | None:
        """Nothing large is expected."""
        return None

    def filled(self, size: int) -> None:
        """Never called, for there is no `space`."""

    def progressed(self) -> None:
        """The largest age of a connection counts all the same."""

    def overtaken(self) -> None:
        """Never called, for everything is taken."""

    def hung_up(self) -> None:
        """Never called, for reading never pauses."""

    def drained(self) -> None:
        """The peer has taken the whole answer."""
        if self._is_answered:
            self._transport.end()

    def disconnected(self) -> None:
        """The connection is closed."""
        self._deadline.cancel()
        self._on_closed(self)

    def close(self) -> None:
        """End it now, answered or not."""
        self._transport.close()

"""The metrics over HTTP, ``GET /metrics``, and whether the broker is ready, ``GET /ready``.

`/ready` answers 200 when clients are served and the controllers answer this broker; otherwise 503
and why not. A broker that is cut off from the controllers still serves the partitions it leads.

The endpoint is open only if `tierlog.metrics.port` is set, on 127.0.0.1 unless
`tierlog.metrics.host` names another address. A connection carries one request, and is closed after
the response. No client can block the broker: the size of a request head, the age of a connection
and the number of connections are limited; any connection above a limit is closed. Only GET and HEAD
are served, and no request changes anything.

A web page could point its own host name at this address (DNS rebinding) and so read the metrics.
Therefore the `Host` of a request must be an IP address, localhost, or a host name from the broker's
configuration.
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


def _is_always_ready() -> str:
    return ""


def answer_to(
    head: bytes,
    page: Callable[[], str],
    names: Collection[str] = (),
    obstacle: Callable[[], str] = _is_always_ready,
) -> bytes:
    """The HTTP response to a request with this head, without the empty line at its end.

    `names` are the broker's host names; `obstacle` tells why it is not ready, or "".
    """
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _response("400 Bad Request", _PLAIN, "This is not an HTTP request.\n")
    if not _has_allowed_host(head, names):
        return _response(
            "403 Forbidden",
            _PLAIN,
            "The Host header of this request is not a name of this broker: use its IP address, "
            "or a name in listeners, advertised.listeners or tierlog.metrics.host.\n",
        )
    method, target = words[0], words[1].partition(b"?")[0]
    is_head = method == b"HEAD"
    if target not in (b"/metrics", b"/ready", b"/"):
        return _response("404 Not Found", _PLAIN, "Metrics are at /metrics.\n", is_head)
    if method not in (b"GET", b"HEAD"):
        return _response(
            "405 Method Not Allowed", _PLAIN, "Only GET and HEAD are allowed.\n", allow="GET, HEAD"
        )
    if target == b"/":
        return _response("200 OK", _PLAIN, "Metrics are at /metrics.\n", is_head)
    if target == b"/ready":
        reason = obstacle()
        status = "503 Service Unavailable" if reason else "200 OK"
        return _response(status, _PLAIN, f"{reason or 'ready'}\n", is_head)
    return _response("200 OK", CONTENT_TYPE, page(), is_head)


def _has_allowed_host(head: bytes, names: Collection[str]) -> bool:
    """Whether every Host is one of our names or an IP address. HTTP/1.0 does not require one."""
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
    """Listens, and responds with the current metrics."""

    def __init__(
        self,
        network: Network,
        metrics: Metrics,
        names: Collection[str] = (),
        obstacle: Callable[[], str] = _is_always_ready,
    ) -> None:
        """`names` are the host names of this broker in its configuration.

        `obstacle` returns why the broker is not ready, or "".
        """
        self._network = network
        self._metrics = metrics
        self._obstacle = obstacle
        self._names = frozenset(name.lower() for name in names)
        self._listener: Listener | None = None
        self._open: set[_Exchange] = set()

    async def start(self, host: str, port: int) -> int:
        """Bind the address and serve; returns the port. Raises OSError if it cannot be bound."""
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
        """All current metrics, as text."""
        return exposition(self._metrics.samples())

    def _answer(self, head: bytes) -> bytes:
        return answer_to(head, self.page, self._names, self._obstacle)

    def _connected(self, transport: AttachableTransport) -> None:
        if len(self._open) >= _CONNECTIONS_MAX:
            transport.close()
            return
        exchange = _Exchange(transport, self._answer, self._open.discard)
        self._open.add(exchange)
        transport.attach(exchange)


class _Exchange:
    """One connection: reads a request, sends the response, and closes."""

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
    def readable_bytes(self) -> int:
        """The largest size of a head; later bytes are read too, and ignored."""
        return _HEAD_BYTES_MAX

    def received(self, view: memoryview) -> None:
        """Add to the head; bytes after it are ignored."""
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
        """None: no large request is expected."""
        return None

    def filled(self, size: int) -> None:
        """Never called, because `space` is None."""

    def progressed(self) -> None:
        """Does nothing: progress does not extend the connection's deadline."""

    def on_unread_input(self) -> None:
        """Never called, because `readable_bytes` is never 0."""

    def hung_up(self) -> None:
        """Never called, because reading never pauses."""

    def drained(self) -> None:
        """The peer has read the whole response."""
        if self._is_answered:
            self._transport.end()

    def disconnected(self) -> None:
        """The connection is closed."""
        self._deadline.cancel()
        self._on_closed(self)

    def close(self) -> None:
        """Close the connection now, answered or not."""
        self._transport.close()

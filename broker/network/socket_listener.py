"""Listening sockets and their accept loop.

They differ from asyncio's servers in four points:

- The backlog holds a burst of clients. With asyncio's 100, 1,000 connects take seconds.
- TCP_NODELAY is set on every connection; asyncio sets it only if the socket names its protocol.
  Without it, a body written after its header waits for the peer's acknowledgement.
- Connections from this machine are not paced (docs/decisions/011).
- Accepting can pause, which leaves further clients in the backlog, as `max.connections` requires.

Clients never get the process's last file descriptors: a log that cannot open its next segment takes
its directory offline, and idle connections must not be able to cause that.
"""

import asyncio
import errno
import logging
import resource
import socket
from contextlib import suppress
from typing import NamedTuple

from ...clients.runtime.own_descriptors import keep_from_forks
from ...storage.system_calls import CONGESTION_CONTROL
from .transport import (
    Listener,
    OnConnected,
    Securing,
    SharedScratch,
    SocketTransport,
    close_for_all,
)


class Endpoint(NamedTuple):
    """One listener's name and address."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, as in `bootstrap.servers`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


_log = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
_RETRY_ACCEPT_S = 1.0
_KEPT_FOR_FILES = 1024
"""Descriptors reserved for files; an eighth of the limit if that is less."""
_LOOPBACK = ("127.", "::1")
_UNPACED = b"reno"
"""A congestion control that every Linux has. Between two processes of one machine there is no
congestion, and BBR, the default of some systems, would set a timer for every packet or two. A
connection that began with BBR stays paced even after a change, so it must inherit this setting."""
_CONTROL_NAME_MAX = 16
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketOptions(NamedTuple):
    """The `socket.*` properties; None or -1 leaves a buffer's size to the system."""

    backlog: int = 2048
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


def local_host_name() -> str:
    """This machine's fully qualified name, if the system has it."""
    return socket.getfqdn()


def _is_one_of_the_last(descriptor: int) -> bool:
    """Whether few descriptors are left: the system always assigns the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and descriptor >= limit - min(
        _KEPT_FOR_FILES, limit // 8
    )


def _begin_unpaced(listening: socket.socket) -> bytes | None:
    """Make accepted connections begin without pacing.

    Returns the congestion control that they would have had; None if it cannot be changed.
    """
    if CONGESTION_CONTROL is None:
        return None
    option = (socket.IPPROTO_TCP, CONGESTION_CONTROL)
    try:
        usual = listening.getsockopt(*option, _CONTROL_NAME_MAX)
        listening.setsockopt(*option, _UNPACED)
    except OSError:
        return None
    return usual.rstrip(b"\0")


class SocketListener:
    """One listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        options: SocketOptions,
        on_connected: OnConnected,
        secured: Securing | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        keep_from_forks(listening)
        self._options = options
        self._on_connected = on_connected
        self._scratch = SharedScratch()
        self._accepted = SocketTransport if secured is None else secured.accept
        self._accepting = False
        self._retry: asyncio.TimerHandle | None = None
        self._is_short = False
        self._towards_others = _begin_unpaced(listening)
        name: object = listening.getsockname()[1]
        self.port = name if isinstance(name, int) else 0

    def resume_accepting(self) -> None:
        self._retry = None
        if not self._accepting and self._socket.fileno() >= 0:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def pause_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket.fileno())

    def _acceptable(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._accepting:
                return
            try:
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._accept_later(error.strerror or str(error))
                return
            if _is_one_of_the_last(connected.fileno()):
                connected.close()
                self._accept_later("the limit on open files is nearly reached")
                return
            # A dual-stack listener reports IPv4 peers as mapped IPv6 addresses.
            host = str(address[0]).removeprefix("::ffff:")
            try:
                self._prepare(connected, host)
            except OSError:
                # The peer may have disconnected before it was accepted.
                connected.close()
                continue
            self._is_short = False
            self._on_connected(self._accepted(connected, host, self._scratch))

    def _accept_later(self, reason: str) -> None:
        """Pause accepting: the other clients stay in the backlog for now."""
        if not self._is_short:
            _log.warning("Cannot accept new connections, trying again: %s", reason)
        self._is_short = True
        self.pause_accepting()
        self._retry = self._loop.call_later(_RETRY_ACCEPT_S, self.resume_accepting)

    def _prepare(self, connected: socket.socket, host: str) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = self._options
        for name, size in (
            (socket.SO_SNDBUF, options.send_buffer_bytes),
            (socket.SO_RCVBUF, options.receive_buffer_bytes),
        ):
            if size is not None and size >= 0:
                connected.setsockopt(socket.SOL_SOCKET, name, size)
        control = self._towards_others
        if CONGESTION_CONTROL is not None and control and not host.startswith(_LOOPBACK):
            # If this fails the connection still works, but may be a little slower.
            with suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, CONGESTION_CONTROL, control)

    def close(self) -> None:
        self.pause_accepting()
        if self._retry is not None:
            self._retry.cancel()
        self._scratch.hangups.close()
        close_for_all(self._socket)


class SocketNetwork:
    """A `Network` on the machine's own sockets."""

    def __init__(self, options: SocketOptions) -> None:
        self._options = options

    async def listen(
        self, host: str, port: int, on_connected: OnConnected, secured: Securing | None = None
    ) -> Listener:
        address: tuple[str, int] = (host, port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not host:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
            address = ("", port)
        elif family is socket.AF_INET:
            # A slow name server delays no client: none is served yet.
            addresses = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
            address = (str(addresses[0][4][0]), port)
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family is socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(host)))
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(self._options.backlog)
        except OSError:
            listening.close()
            raise
        return SocketListener(listening, self._options, on_connected, secured)

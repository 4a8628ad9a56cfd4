"""Links between the brokers of a cluster that can be cut, by a proxy in front of each listener.

Brokers and controllers advertise the ports of proxies for the traffic among them, so that a link
can be cut while clients still reach both of its ends. A proxy recognises who connects by the
process that has the other end of the connection (Linux only). A cut link swallows nothing
and closes nothing: like a cable, it passes nothing on until it is healed. It can also be cut in one
direction alone, delay or drip what passes, or reset its connections. Where clients have proxies of
their own, they are all together one more node, `CLIENTS`.
"""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

_WITHIN_S = 10.0
_CHUNK_BYTES = 1 << 16
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
_INODE_AT = _HEADER.size + 4 + 48 + 16
"""Behind the family and states, the id, and four numbers of `struct inet_diag_msg`."""

_LINGER = struct.pack("ii", 1, 0)
"""Of a socket that is closed by a reset."""
_DRIP_S = 0.1

CLIENTS = 0
"""What stands for all clients, as one end of a link."""


class Way(NamedTuple):
    """One direction of a link."""

    source: int
    target: int


@dataclass(slots=True)
class _State:
    """What a way does now to what is sent along it."""

    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    delay_s: float = 0.0
    bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        self.is_open.set()

    def set(
        self, is_open: bool = True, delay_s: float = 0, bytes_per_s: float | None = None
    ) -> None:
        if is_open:
            self.is_open.set()
        else:
            self.is_open.clear()
        self.delay_s, self.bytes_per_s = delay_s, bytes_per_s


class _Connection(NamedTuple):
    """A connection that a proxy relays, with its two sockets."""

    way: Way
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter


class _Sockets:
    """Asks Linux for the inode of one end of a connection (sock_diag(7), inet_diag_req_v2)."""

    def __init__(self) -> None:
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)

    def close(self) -> None:
        self._netlink.close()

    def inode(self, local_port: int, remote_port: int) -> int | None:
        """The inode of the socket with these ports of 127.0.0.1; None if there is none."""
        here = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
        request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        request += struct.pack(">HH", local_port, remote_port) + here + here
        request += struct.pack("=I", 0) + _NO_COOKIE
        size = _HEADER.size + len(request)
        self._netlink.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST, 1, 0) + request)
        answer = self._netlink.recv(_CHUNK_BYTES)
        (_, kind, *_) = _HEADER.unpack_from(answer)
        if kind != _BY_FAMILY:
            return None
        inode: int
        (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
        return inode


def _has_socket(pid: int, inode: int) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as files:
            names = [file.path for file in files]
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(name) == f"socket:[{inode}]":
                return True
    return False


class Links:
    """The proxies of one cluster. Use as a context manager.

    `pids` gives the processes of the nodes that run now.
    """

    def __init__(self, pids: Callable[[], Mapping[int, int]]) -> None:
        self._pids = pids
        self._ways: dict[Way, _State] = {}
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._sockets = _Sockets()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links")
        self.unrecognised = 0
        """Connections of nobody in the cluster, or of a process that was gone at once."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WITHIN_S)
        self._loop.close()
        self._sockets.close()

    def lead_to(self, node: int, proxy_port: int, port: int, source: int | None = None) -> None:
        """Listen on `proxy_port` for what is meant for a node's `port`. Raises OSError.

        `source` is who connects there; None if each connection must be recognised.
        """
        listening = self._listen(node, proxy_port, port, source)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(_WITHIN_S)

    def cut(self, one: int, other: int) -> None:
        """Pass nothing on between two nodes, in either direction."""
        self._set(Way(one, other), is_open=False)
        self._set(Way(other, one), is_open=False)

    def cut_one_way(self, source: int, target: int) -> None:
        """Pass on nothing that `source` sends to `target`; the other direction stays as it is."""
        self._set(Way(source, target), is_open=False)

    def delay(self, one: int, other: int, seconds: float) -> None:
        """Keep each piece of up to 64 KiB for so long, one after the other, in both directions."""
        self._set(Way(one, other), delay_s=seconds)
        self._set(Way(other, one), delay_s=seconds)

    def drip(self, one: int, other: int, bytes_per_s: float) -> None:
        """Let each connection pass a few bytes at a time, so many a second in each direction."""
        self._set(Way(one, other), bytes_per_s=bytes_per_s)
        self._set(Way(other, one), bytes_per_s=bytes_per_s)

    def heal(self, one: int, other: int) -> None:
        """Pass everything on again."""
        self._set(Way(one, other))
        self._set(Way(other, one))

    def reset(self, one: int, other: int) -> None:
        """End all connections between two nodes by a TCP reset; what was under way is lost."""
        self._loop.call_soon_threadsafe(self._reset, frozenset({one, other}))

    def _set(
        self,
        way: Way,
        *,
        is_open: bool = True,
        delay_s: float = 0.0,
        bytes_per_s: float | None = None,
    ) -> None:
        self._loop.call_soon_threadsafe(
            lambda: self._state(way).set(is_open, delay_s, bytes_per_s),
        )

    def _state(self, way: Way) -> _State:
        return self._ways.setdefault(way, _State())

    def _reset(self, ends: frozenset[int]) -> None:
        for connection in self._connections:
            if frozenset(connection.way) == ends:
                for writer in (connection.near, connection.far):
                    end: socket.socket = writer.get_extra_info("socket")
                    with contextlib.suppress(OSError):  # closed meanwhile
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
                    writer.transport.abort()

    async def _listen(self, node: int, proxy_port: int, port: int, source: int | None) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                # Streams would report the end of all connections in `_stop` as an error.
                with contextlib.suppress(asyncio.CancelledError):
                    way = Way(self._source(writer) if source is None else source, node)
                    await self._relay(way, port, reader, writer)
            finally:
                self._tasks.discard(task)
                writer.close()

        self._servers.append(await asyncio.start_server(accept, "127.0.0.1", proxy_port))

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_WITHIN_S / 2)

    def _source(self, writer: asyncio.StreamWriter) -> int:
        """The node that has connected; CLIENTS if it is none."""
        client, here = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        inode = self._sockets.inode(client[1], here[1])
        for node, pid in self._pids().items():
            if inode is not None and _has_socket(pid, inode):
                return node
        self.unrecognised += 1
        return CLIENTS

    async def _relay(
        self, way: Way, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = self._state(way), self._state(Way(way.target, way.source))
        await there.is_open.wait()
        await back.is_open.wait()
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return  # the node is down, and a client that connects notices that
        connection = _Connection(way, writer, onward_writer)
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, onward_writer, there))
                pumps.create_task(_pump(onward_reader, writer, back))
        except* _EndedError:
            pass  # one side has closed, and so does the other
        finally:
            self._connections.discard(connection)
            onward_writer.close()


class _EndedError(Exception):
    """One side of a connection has closed it."""


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _State) -> None:
    """Pass on everything of one direction, as its way lets it. Raises _EndedError."""
    try:
        while data := await reader.read(_CHUNK_BYTES):
            await _pass_on(data, writer, way)
    except OSError as error:
        raise _EndedError from error
    await way.is_open.wait()
    raise _EndedError


async def _pass_on(data: bytes, writer: asyncio.StreamWriter, way: _State) -> None:
    if way.delay_s:
        await asyncio.sleep(way.delay_s)
    while data:
        await way.is_open.wait()
        rate = way.bytes_per_s
        drop = len(data) if rate is None else max(1, int(rate * _DRIP_S))
        writer.write(data[:drop])
        await writer.drain()
        data = data[drop:]
        if rate is not None:
            await asyncio.sleep(_DRIP_S)

"""Links between the brokers of a cluster that can be cut, by a proxy in front of each listener.

Brokers and controllers advertise the ports of proxies for the traffic among them, so that a link
can be cut while clients still reach both of its ends. A proxy recognises who connects by the
process that has the other end of the connection (Linux only). A cut link swallows nothing
and closes nothing: like a cable, it passes nothing on until it is healed.
"""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Self

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

Link = frozenset[int]
"""The two nodes at its ends."""


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
        self._healthy: dict[Link, asyncio.Event] = {}
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

    def lead_to(self, node: int, proxy_port: int, port: int) -> None:
        """Listen on `proxy_port` for what is meant for a node's `port`. Raises OSError."""
        listening = self._listen(node, proxy_port, port)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(_WITHIN_S)

    def cut(self, one: int, other: int) -> None:
        """Pass nothing on between two nodes, in either direction."""
        self._loop.call_soon_threadsafe(self._event(frozenset({one, other})).clear)

    def heal(self, one: int, other: int) -> None:
        """Pass everything on again."""
        self._loop.call_soon_threadsafe(self._event(frozenset({one, other})).set)

    def _event(self, link: Link) -> asyncio.Event:
        event = self._healthy.get(link)
        if event is None:
            event = self._healthy.setdefault(link, asyncio.Event())
            event.set()
        return event

    async def _listen(self, node: int, proxy_port: int, port: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                # Streams would report the end of all connections in `_stop` as an error.
                with contextlib.suppress(asyncio.CancelledError):
                    await self._relay(node, port, reader, writer)
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
        """The node that has connected; 0 if it is none."""
        client, here = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        inode = self._sockets.inode(client[1], here[1])
        for node, pid in self._pids().items():
            if inode is not None and _has_socket(pid, inode):
                return node
        self.unrecognised += 1
        return 0

    async def _relay(
        self, node: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        source = self._source(writer)
        is_healthy = self._event(frozenset({source, node}))
        await is_healthy.wait()
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return  # the node is down, and whoever connects notices that
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, onward_writer, is_healthy))
                pumps.create_task(_pump(onward_reader, writer, is_healthy))
        except* _EndedError:
            pass  # one side has closed, and so does the other
        finally:
            onward_writer.close()


class _EndedError(Exception):
    """One side of a connection has closed it."""


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_healthy: asyncio.Event
) -> None:
    """Pass on everything of one direction, while the link is healthy. Raises _EndedError."""
    try:
        while data := await reader.read(_CHUNK_BYTES):
            await is_healthy.wait()
            writer.write(data)
            await writer.drain()
    except OSError as error:
        raise _EndedError from error
    await is_healthy.wait()
    raise _EndedError

"""The control socket of a local cluster, a Unix-domain socket that only its user can open.

A connection carries one request and its answer. A client may send anything: what is no request is
refused with a message, and who sends nothing is cut off. An act goes on when its client leaves.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from ...clients.runtime.task_owner import TaskOwner
from .control_messages import (
    REQUEST_BYTES_MAX,
    Answer,
    RefusedError,
    Request,
    decode_request,
)

SOCKET_FILE = "control.sock"
CONNECTIONS_MAX = 16
REQUEST_WITHIN_S = 10.0
"""How long a client may take to send its request."""

_BACKLOG = 1024
"""A connection beyond these is refused by the system, which looks as if no cluster ran."""
_ONLY_THE_USER = 0o177
_TOO_MANY = Answer(refused=f"{CONNECTIONS_MAX} requests are under way: wait for one of them.")
_TOO_LONG = Answer(refused=f"A request is a line of at most {REQUEST_BYTES_MAX} bytes.")

Perform = Callable[[Request, Callable[[str], None]], Awaitable[Mapping[str, object]]]


class ControlServer:
    """Listens while the cluster is there."""

    def __init__(self, perform: Perform, say: Callable[[str], None]) -> None:
        """`perform` does an act and returns its result; it raises RefusedError.

        `say` gets a line about a failure that nobody expected.
        """
        self._perform = perform
        self._tasks = TaskOwner(
            CONNECTIONS_MAX, lambda task, failure: say(f"{task.get_name()} has failed: {failure!r}")
        )
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, path: str) -> None:
        """Listen at `path`, relative to the working directory if that is shorter; a stale socket
        is replaced. Raises OSError, RefusedError if something else is there."""
        before = os.umask(_ONLY_THE_USER)
        try:
            self._server = await asyncio.get_running_loop().create_unix_server(
                lambda: _Connection(self), path, backlog=_BACKLOG
            )
        except OSError as error:
            # asyncio removes a socket that is there, and nothing else.
            if error.errno == errno.EADDRINUSE:
                raise RefusedError(f"{path} is not a control socket: move it elsewhere.") from None
            raise
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Listen no longer; acts that are under way are given up."""
        if self._server is not None:
            self._server.close()
        await self._tasks.stop()
        for connection in list(self._connections):
            connection.close()

    def open(self, connection: "_Connection") -> bool:
        """Admit a connection, unless there are too many."""
        if len(self._connections) >= CONNECTIONS_MAX:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: "_Connection") -> None:
        """A connection has ended."""
        self._connections.discard(connection)

    def begin(self, line: bytes, write: Callable[[Answer], None]) -> None:
        """Answer a request; the last answer follows when the act is done."""
        try:
            request = decode_request(line)
            self._tasks.start(self._answer(request, write), request.act)
        except RefusedError as error:
            write(Answer(refused=str(error)))
        except RuntimeError:
            write(_TOO_MANY)

    async def _answer(self, request: Request, write: Callable[[Answer], None]) -> None:
        try:
            done = await self._perform(request, lambda text: write(Answer(progress=text)))
        except RefusedError as error:
            write(Answer(refused=str(error)))
        except Exception as error:
            # A client waits for its answer, whatever went wrong.
            write(Answer(refused=f"{type(error).__name__}: {error}"))
            raise
        else:
            write(Answer(done=done))


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._has_request = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.open(self):
            self._write(_TOO_MANY)
            return
        self._timer = asyncio.get_running_loop().call_later(REQUEST_WITHIN_S, self.close)

    def data_received(self, data: bytes) -> None:
        if self._has_request:
            return
        self._received += data
        line, end, _ = bytes(self._received).partition(b"\n")
        if end and len(line) <= REQUEST_BYTES_MAX:
            self._take(line)
        elif len(line) > REQUEST_BYTES_MAX:
            self._has_request = True
            self._write(_TOO_LONG)

    def _take(self, line: bytes) -> None:
        self._has_request = True
        self._received.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._server.begin(line, self._write)

    def eof_received(self) -> bool:
        """A client that has sent its request may close its side."""
        return self._has_request

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._server.closed(self)

    def _write(self, answer: Answer) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(answer.encode())
        if answer.is_last:
            self._transport.close()

    def close(self) -> None:
        """Close it without an answer."""
        if self._transport is not None:
            self._transport.abort()

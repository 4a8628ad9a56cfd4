"""Requests on stdin and answers on stdout: how a test's process runs a local cluster.

The process at the other end of stdin is the owner of the cluster: when it closes it, or dies in
whatever way, the cluster ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TextIO

from .control_messages import REQUEST_BYTES_MAX, Answer
from .control_server import ControlServer

WAITING_MAX = 16
"""How many requests may wait for the one before them."""


class SupervisedPipe:
    """Answers one request after the other."""

    def __init__(self, server: ControlServer, on_end: Callable[[], None]) -> None:
        """`on_end` is called when the owner is gone, or sends what is no request."""
        self._server = server
        self._on_end = on_end
        self._waiting: deque[bytes] = deque()
        self._is_busy = False
        self._stdout: TextIO | None = None

    async def start(self, stdin: TextIO, stdout: TextIO) -> None:
        """Take requests from now on."""
        self._stdout = stdout
        await asyncio.get_running_loop().connect_read_pipe(lambda: _Lines(self), stdin)

    def take(self, line: bytes) -> None:
        """A request has arrived."""
        if len(self._waiting) >= WAITING_MAX:
            self._on_end()
            return
        self._waiting.append(line)
        self._begin_next()

    def end(self) -> None:
        """No more requests will arrive."""
        self._on_end()

    def _begin_next(self) -> None:
        if self._waiting and not self._is_busy:
            self._is_busy = True
            self._server.begin(self._waiting.popleft(), self._write)

    def _write(self, answer: Answer) -> None:
        assert self._stdout is not None
        try:
            self._stdout.write(answer.encode().decode())
            self._stdout.flush()
        except BrokenPipeError:
            self._on_end()
        if answer.is_last:
            self._is_busy = False
            self._begin_next()


class _Lines(asyncio.Protocol):
    """Cuts stdin into requests."""

    def __init__(self, pipe: SupervisedPipe) -> None:
        self._pipe = pipe
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._pipe.take(line)
        if len(self._rest) > REQUEST_BYTES_MAX:
            self._pipe.end()

    def eof_received(self) -> None:
        self._pipe.end()

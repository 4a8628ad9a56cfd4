"""One node of a local cluster: a process of `tierlog serve`, its output and its signals.

The process has a session of its own, so that Ctrl-C in the terminal reaches only the process that
runs the cluster. On Linux it gets SIGKILL from the kernel when that process dies, however it dies:
no node outlives its cluster. Elsewhere one that runs on is met by the next start, which says so.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import cast

from ...storage.system_calls import end_with_parent

LINE_BYTES_MAX = 1 << 16
"""A longer line of output is passed on in pieces."""


class NodeState(Enum):
    """What a node's process does."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"


class NodeProcess:
    """One node, which can be started any number of times."""

    def __init__(self, name: str, on_line: Callable[[str, str], None]) -> None:
        """`on_line` gets the name and each line of output."""
        self.name = name
        self.exit_code: int | None = None
        """How the last process ended; negative is the signal."""
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.ended.set()
        self.settled = asyncio.Event()
        """Set once the start is over: the node serves, or has ended."""
        self.on_end: Callable[[NodeProcess], None] = lambda _: None
        """Called when the process has ended without `signal`."""
        self.last_line = ""
        self._on_line = on_line
        self._transport: asyncio.SubprocessTransport | None = None
        self._is_paused = False
        self._is_stopping = False

    @property
    def state(self) -> NodeState:
        if self.ended.is_set():
            return NodeState.STOPPED
        if self._is_paused:
            return NodeState.PAUSED
        if self._is_stopping:
            return NodeState.STOPPING
        return NodeState.RUNNING if self.ready.is_set() else NodeState.STARTING

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        if self._transport is None or self.ended.is_set():
            return None
        return self._transport.get_pid()

    async def spawn(
        self, command: Sequence[str], environment: Mapping[str, str], directory: str
    ) -> None:
        """Create the process; `ready` is set when it serves, `ended` when it has ended.

        Raises OSError.
        """
        assert self.ended.is_set(), f"{self.name} runs already."
        self.ready.clear()
        self.exit_code = None
        self._is_paused = self._is_stopping = False
        self.ended.clear()
        self.settled.clear()
        parent = os.getpid()
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Output(self),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                cwd=directory,
                preexec_fn=lambda: end_with_parent(parent),
            )
        except BaseException:
            self.ended.set()
            self.settled.set()
            raise
        self._transport = transport

    def terminate(self) -> None:
        """Ask it to stop cleanly; one that is paused goes on for it."""
        self._is_stopping = True
        self._signal(signal.SIGTERM)
        self.resume()

    def kill(self) -> None:
        """End it at once, as in a crash."""
        self._is_stopping = True
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """Stop its time: it answers nothing, and its connections stay open."""
        self._signal(signal.SIGSTOP)
        self._is_paused = not self.ended.is_set()

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self._is_paused = False

    def _signal(self, number: int) -> None:
        if self._transport is None or self.ended.is_set():
            return
        try:
            self._transport.send_signal(number)
        except ProcessLookupError:
            # It has just ended, which is about to be reported.
            return

    def take_line(self, line: str) -> None:
        """Pass on a line of output."""
        self.last_line = line
        if not self.ready.is_set() and line.startswith("tierlog ") and " ready on " in line:
            self.ready.set()
            self.settled.set()
        self._on_line(self.name, line)

    def take_end(self, exit_code: int | None) -> None:
        """The process has ended, and all of its output was passed on."""
        self.exit_code = exit_code
        self.ready.clear()
        is_expected = self._is_stopping
        self.ended.set()
        self.settled.set()
        if not is_expected:
            self.on_end(self)


class _Output(asyncio.SubprocessProtocol):
    """Cuts the output of a node into lines."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._rest = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._rest += data
        *lines, rest = bytes(self._rest).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        self._rest = bytearray(rest)
        for line in lines:
            self._node.take_line(line.decode(errors="replace").rstrip("\r"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and its pipes are at their end."""
        if self._rest:
            self._node.take_line(self._rest.decode(errors="replace"))
        assert self._transport is not None
        exit_code = self._transport.get_returncode()
        self._transport.close()
        self._node.take_end(exit_code)

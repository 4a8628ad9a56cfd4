"""A test's broker in a process of its own: where the interpreter's lock or a real SIGKILL matters.

Both sides speak JSON, a line each, over the pipes of the process: the first word of a request is
the act. The process ends by a request, or when its stdin does, however the test's process ends.
asyncio's own subprocesses need a child watcher, which not every policy of event loops has.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import Final, cast

from ..broker.metrics.log_lines import LineFormatter, LineHandler, LineLimit
from ..clients.runtime.own_descriptors import keep_from_forks
from ..storage.system_calls import system
from .broker_error import BrokerError
from .giving_up import GivingUp
from .host import ThisProcess
from .loop_thread import LoopThread

STARTS_WITHIN_S: Final = 60.0
"""How long the process may take until its broker serves."""
ACTS_WITHIN_S: Final = 60.0
"""How long it may take for any other act."""
LINE_BYTES_MAX: Final = 1 << 20
"""The longest request and the longest answer."""

_STOP: Final = "stop"


class _Answers(asyncio.StreamReaderProtocol):
    """Feeds a reader, and knows when the stream has ended."""

    def __init__(self, reader: asyncio.StreamReader, hear_end: Callable[[], None]) -> None:
        super().__init__(reader)
        self.have_ended = asyncio.Event()
        self._hear_end = hear_end

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.have_ended.set()
        self._hear_end()


class _Pipes:
    """A started process, and what is said over its pipes."""

    def __init__(self, log: int, hear_end: Callable[[], None]) -> None:
        self.process = Popen(
            (sys.executable, "-m", "tierlog.testing.host_process"),
            bufsize=0,
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # A fork of the test's process would keep this one alive.
        self._requests, self._output = self.process.stdin, self.process.stdout
        keep_from_forks(self._requests)
        keep_from_forks(self._output)
        self._reader = asyncio.StreamReader(LINE_BYTES_MAX)
        self._answers = _Answers(self._reader, hear_end)
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> None:
        """Begin to read its answers."""
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: self._answers, self._output
        )

    def send(self, act: str, argument: object) -> None:
        """Send a request, which fits into the pipe. Raises ConnectionError."""
        self._requests.write(json.dumps([act, argument]).encode() + b"\n")

    async def answer(self) -> bytes:
        """A line; empty if the process has ended."""
        return await self._reader.readline()

    async def end(self) -> None:
        """Wait for the end of the process."""
        await self._answers.have_ended.wait()

    def close(self) -> None:
        """Close the pipes, and end the process if it has not ended."""
        self._requests.close()
        if self._transport is not None:
            self._transport.close()
        self.process.kill()
        self.process.wait()


class OtherProcess:
    """Runs a broker in a process; see `Host`. Its log goes to a file."""

    def __init__(self, log_path: str, giving_up: GivingUp) -> None:
        self._log_path = log_path
        self._giving_up = giving_up
        self._pipes: _Pipes | None = None

    async def start(self, properties: Mapping[str, str]) -> str:
        """See `Host`."""
        log = system.open(
            self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            self._pipes = _Pipes(log, self._hear_end)
        except OSError as error:
            raise BrokerError(f"The process of the broker cannot be started: {error}.") from error
        finally:
            system.close(log)
        self._giving_up.message = ""
        try:
            await self._pipes.open()
            return str(await self._request(STARTS_WITHIN_S, "start", dict(properties)))
        except BaseException:
            await self._end(is_hard=True)
            raise

    def _hear_end(self) -> None:
        if self._pipes is not None:
            self._giving_up.come(f"The broker's process has ended; its log is {self._log_path}.")

    async def stop(self) -> None:
        """See `Host`."""
        if self._pipes is not None:
            await self._end(is_hard=False)

    async def crash(self) -> None:
        """See `Host`: SIGKILL."""
        self._running()
        await self._end(is_hard=True)

    async def act(self, name: str, topic: str | None) -> None:
        """See `Host`."""
        await self._request(ACTS_WITHIN_S, name, topic)

    async def _end(self, *, is_hard: bool) -> None:
        pipes, self._pipes = self._pipes, None
        assert pipes is not None
        try:
            if not is_hard:
                with suppress(ConnectionError, TimeoutError):
                    async with asyncio.timeout(ACTS_WITHIN_S):
                        pipes.send(_STOP, None)
                        await pipes.end()
        finally:
            pipes.close()

    async def _request(self, timeout_s: float, act: str, argument: object) -> object:
        """Send a request and wait for its answer. Raises BrokerError."""
        pipes = self._running()
        try:
            pipes.send(act, argument)
            async with asyncio.timeout(timeout_s):
                line = await pipes.answer()
        except ConnectionError:
            line = b""
        except TimeoutError:
            raise BrokerError(
                f"The broker's process does not answer within {timeout_s:.0f} s."
            ) from None
        if not line:
            raise BrokerError(f"The broker's process has ended; its log is {self._log_path}.")
        answer = json.loads(line)
        if "error" in answer:
            raise BrokerError(answer["error"])
        return answer["done"]

    def _running(self) -> _Pipes:
        if self._pipes is None or self._pipes.process.poll() is not None:
            raise BrokerError("The broker's process does not run: restart it.")
        return self._pipes


async def _done(host: ThisProcess, act: str, argument: object) -> object:
    if act == "start":
        return await host.start(cast("dict[str, str]", argument))
    await host.act(act, cast("str | None", argument))
    return None


def main() -> None:
    """Run a broker as the lines on stdin say, until they end."""
    handler = LineHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    handler.addFilter(LineLimit())
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    thread = LoopThread("broker")
    thread.start()
    host = ThisProcess()
    while line := sys.stdin.readline(LINE_BYTES_MAX):
        act, argument = json.loads(line)
        if act == _STOP:
            break
        try:
            answer = {"done": thread.run(STARTS_WITHIN_S, _done, host, act, argument)}
        except BrokerError as error:
            answer = {"error": str(error)}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    thread.run(ACTS_WITHIN_S, host.stop)
    thread.close()


if __name__ == "__main__":
    main()

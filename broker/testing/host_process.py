"""A test's broker in a process of its own: where the interpreter's lock or a real SIGKILL matters.

Both sides speak JSON, a line each, over the pipes of the process: the first word of a request is
the act. The process ends when its stdin does, however the test's process ends.
"""

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Final, cast

from ..metrics.log_lines import LineFormatter, LineHandler, LineLimit
from .broker_error import BrokerError
from .host import ThisProcess
from .loop_thread import LoopThread

STARTS_WITHIN_S: Final = 60.0
"""How long the process may take until its broker serves."""
ACTS_WITHIN_S: Final = 60.0
"""How long it may take for any other act."""
LINE_BYTES_MAX: Final = 1 << 20
"""The longest request and the longest answer."""


class OtherProcess:
    """Runs a broker in a process; see `Host`. Its log goes to a file."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._process: Process | None = None

    async def start(self, properties: Mapping[str, str]) -> str:
        """See `Host`."""
        log = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tierlog.broker.testing.host_process"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                start_new_session=True,
                limit=LINE_BYTES_MAX,
            )
        finally:
            os.close(log)
        try:
            return str(await self._request(STARTS_WITHIN_S, "start", dict(properties)))
        except BaseException:
            await self._end(is_hard=True)
            raise

    async def stop(self) -> None:
        """See `Host`."""
        if self._process is not None:
            await self._end(is_hard=False)

    async def crash(self) -> None:
        """See `Host`: SIGKILL."""
        self._running()
        await self._end(is_hard=True)

    async def act(self, name: str, topic: str | None) -> None:
        """See `Host`."""
        await self._request(ACTS_WITHIN_S, name, topic)

    async def _end(self, *, is_hard: bool) -> None:
        process, self._process = self._process, None
        assert process is not None
        if is_hard and process.returncode is None:
            process.kill()
        try:
            async with asyncio.timeout(ACTS_WITHIN_S):
                # Input, though empty, closes stdin, which ends the process.
                await process.communicate(b"")
        except TimeoutError:
            process.kill()
            await process.communicate()

    async def _request(self, timeout_s: float, act: str, argument: object) -> object:
        """Send a request and wait for its answer. Raises BrokerError."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([act, argument]).encode() + b"\n")
            await process.stdin.drain()
            async with asyncio.timeout(timeout_s):
                line = await process.stdout.readline()
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

    def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            raise BrokerError("The broker's process does not run: restart it.")
        return self._process


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

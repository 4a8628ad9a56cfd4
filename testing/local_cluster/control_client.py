"""Asks the process that runs a local cluster, through its control socket."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from .control_messages import ANSWER_BYTES_MAX, Answer, RefusedError, Request, decode_answer


class NotRunningError(Exception):
    """No cluster's process listens at the socket."""


async def ask(path: str, request: Request, progress: Callable[[str], None]) -> Mapping[str, object]:
    """Perform an act; returns its result, `progress` gets what is said meanwhile.

    It takes as long as the act: the cluster's process bounds each. Raises RefusedError, and
    NotRunningError if no cluster runs.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Mapping[str, object]] = loop.create_future()
    try:
        return await _answer(path, request, progress, answered)
    finally:
        # Nobody takes an answer that comes after the end.
        answered.cancel()


async def _answer(
    path: str,
    request: Request,
    progress: Callable[[str], None],
    answered: "asyncio.Future[Mapping[str, object]]",
) -> Mapping[str, object]:
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_unix_connection(
            lambda: _Answers(request, progress, answered), path
        )
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunningError(str(error)) from error
    except OSError as error:
        raise RefusedError(
            f"The control socket {path} takes no request now: {error.strerror}."
        ) from error
    try:
        return await answered
    finally:
        transport.close()


class _Answers(asyncio.Protocol):
    """Sends the request, and takes the answers."""

    def __init__(
        self,
        request: Request,
        progress: Callable[[str], None],
        answered: "asyncio.Future[Mapping[str, object]]",
    ) -> None:
        self._request = request
        self._progress = progress
        self._answered = answered
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request.encode())

    def data_received(self, data: bytes) -> None:
        self._received += data
        *lines, rest = bytes(self._received).split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            self._take(line)
        if len(rest) > ANSWER_BYTES_MAX:
            self._fail(RefusedError("The cluster's process answered with too long a line."))

    def _take(self, line: bytes) -> None:
        try:
            answer: Answer = decode_answer(line)
            if not answer.is_last:
                self._progress(answer.progress)
            elif not self._answered.done():
                self._answered.set_result(answer.value())
        except RefusedError as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(RefusedError("The cluster's process has ended before it answered."))

    def _fail(self, error: RefusedError) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)

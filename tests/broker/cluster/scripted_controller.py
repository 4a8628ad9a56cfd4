"""A controller on a real socket that answers what a test's script says, in Kafka's protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, cast

from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.api import APIS, Api, ApiKey, request_class
from tierlog.clients.protocol.codec import decode, encode
from tierlog.clients.protocol.connection import FrameReader, frame
from tierlog.clients.protocol.header import decode_request_header, response_header
from tierlog.clients.protocol.schema import Message
from tierlog.tests import wire

Answer = Callable[[Message], Message | Awaitable[Message | None] | None]
"""The response to a request; None cuts the connection."""

P = ParamSpec("P")

TIMEOUT_S = 60


def story(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 2 * TIMEOUT_S))

    return run


class ScriptedController:
    """Serves the APIs of its script on a port of 127.0.0.1, and keeps what was sent."""

    def __init__(self, script: Mapping[ApiKey, Answer]) -> None:
        self.script = dict(script)
        self.requests: list[Message] = []
        self.finalized: dict[str, int] = {}
        """The levels of features that its ApiVersions tells."""
        self.connections = 0
        self.hung_up = 0
        """Connections that have ended."""
        self._moved = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ("127.0.0.1", 0)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def stop(self) -> None:
        """Close the port, and cut all connections."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def until_requests(self, count: int) -> None:
        """Wait until so many requests have arrived, ApiVersions aside."""
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.requests) < count:
                self._moved.clear()
                await self._moved.wait()

    async def until_hung_up(self, count: int) -> None:
        """Wait until so many connections have ended."""
        async with asyncio.timeout(TIMEOUT_S):
            while self.hung_up < count:
                self._moved.clear()
                await self._moved.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(64 << 20)
        coming = asyncio.ensure_future(reader.read(1 << 16))
        try:
            with suppress(ConnectionError, KafkaError):
                while data := await coming:
                    coming = asyncio.ensure_future(reader.read(1 << 16))
                    for request in frames.feed(memoryview(data)):
                        answer = await self._answer_unless_hung_up(bytes(request), coming)
                        if answer is None:
                            return
                        writer.writelines(answer)
                        await writer.drain()
        finally:
            coming.cancel()
            self.hung_up += 1
            self._moved.set()
            writer.transport.abort()

    async def _answer_unless_hung_up(
        self, request: bytes, coming: "asyncio.Future[bytes]"
    ) -> list[bytes] | None:
        """The response; None to cut the connection, or if it has ended meanwhile."""
        answering = asyncio.ensure_future(self._answer(memoryview(request)))
        try:
            either: set[asyncio.Future[object]] = {answering, coming}  # type: ignore[arg-type]  # only waited for
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not await coming:
                return None
            return await answering
        finally:
            answering.cancel()

    @property
    def _announced(self) -> dict[int, Api]:
        return {key: APIS[key] for key in (ApiKey.API_VERSIONS, *self.script)}

    async def _answer(self, request: memoryview) -> list[bytes] | None:
        header, position = decode_request_header(request, self._announced)
        key, version = header.api_key, header.api_version
        message, _ = decode(request_class(key), version, request, position)
        response = await self._response(message)
        if response is None:
            return None
        head = response_header(key, version, header.correlation_id)
        return cast("list[bytes]", frame([head, *encode(response, version)]))

    async def _response(self, message: Message) -> Message | None:
        if message.api_key == ApiKey.API_VERSIONS:
            return wire.ApiVersionsResponse(
                api_keys=[
                    wire.ApiVersion(
                        api_key=key, min_version=api.lowest_version, max_version=api.highest_version
                    )
                    for key, api in self._announced.items()
                ],
                finalized_features=[
                    wire.FinalizedFeatureKey(
                        name=name, max_version_level=level, min_version_level=level
                    )
                    for name, level in self.finalized.items()
                ],
            )
        self.requests.append(message)
        self._moved.set()
        answer = self.script[ApiKey(message.api_key)](message)
        if answer is None or isinstance(answer, Message):
            return answer
        return await answer


class LeaderInTest:
    """A view of the quorum whose leader a test names."""

    def __init__(self) -> None:
        self.leader_id = -1
        self.leader_address: tuple[str, int] | None = None
        self.refusals: dict[str, str] = {}
        self._callbacks: list[Callable[[], None]] = []

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def names(self, leader_id: int, controller: ScriptedController | None) -> None:
        """From now on this controller leads; none if there is no controller."""
        self.leader_id = leader_id
        self.leader_address = None if controller is None else controller.address
        for callback in self._callbacks:
            callback()


async def never(_: Message) -> Message | None:
    """Do not answer at all."""
    await asyncio.Event().wait()
    return None

"""One connection to a broker: sends requests, matches responses to them (Kafka's `KafkaChannel`).

A broker answers a connection's requests in order, so the next response belongs to the oldest
request in flight and must carry its correlation id. Any other id means that client and broker are
out of sync: the connection is closed and all its requests in flight fail, as they do when the
broker disconnects. A request that times out closes the connection too: later responses cannot
overtake the missing one, so they might never arrive. It does so also where the caller has given up
earlier, who himself breaks nothing for the others on the connection. With `is_kept_when_late`, such
a connection serves no request any more, but stays connected until `hang_up`.

Each read has its own buffer, which is never overwritten, so records in a decoded response may be
views of it for as long as the response is kept.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from ssl import SSLError
from typing import NamedTuple, TypeVar, cast

from ..errors import ErrorCode, KafkaError
from ..protocol.codec import decode, encode
from ..protocol.connection import FrameReader, frame
from ..protocol.header import RequestHeader, decode_response_header, encode_request_header
from ..protocol.schema import Message

R = TypeVar("R", bound=Message)

_CORRELATION_ID_MAX = 0x7FFFFFFF


def _reason(error: Exception) -> str:
    """Why a connection was lost."""
    if not isinstance(error, SSLError):
        return str(error)
    from .tls import tls_reason

    return tls_reason(error)


class _InFlight(NamedTuple):
    """A request that is waiting for its response."""

    correlation_id: int
    api_key: int
    version: int
    response_class: type[Message]
    future: asyncio.Future[Message]
    has_slot: bool = True


class Channel(asyncio.Protocol):
    """Sends requests over one transport and hands each response to its request.

    At most `in_flight_max` requests are in flight; further requests wait to be sent.
    """

    def __init__(self, client_id: str, *, in_flight_max: int, response_bytes_max: int) -> None:
        self._client_id = client_id
        self._frames = FrameReader(response_bytes_max)
        self._in_flight: deque[_InFlight] = deque()
        # Of requests that were given up, by correlation id.
        self._watches: dict[int, asyncio.TimerHandle] = {}
        self._slots = asyncio.Semaphore(in_flight_max)
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._closed_because: KafkaError | None = None
        # Set while all requests but those of a login wait.
        self._resumed: asyncio.Event | None = None
        self.is_kept_when_late = False
        self.log_in_again: Callable[[], Awaitable[None]] | None = None
        """Renews the session, within `paused`, or closes the connection; None without a login."""
        self.log_in_again_at = math.inf
        """When, by the loop's clock, that is due before the next request."""

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._closed_because is None

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    async def request(
        self, message: Message, version: int, response_class: type[R], timeout_seconds: float
    ) -> R:
        """Send a request and wait for its response.

        Raises `KafkaError`: REQUEST_TIMED_OUT after `timeout_seconds`, NETWORK_EXCEPTION when the
        connection is lost, INVALID_REQUEST when the response cannot be decoded.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
                if self.log_in_again is not None:
                    await self._until_logged_in_or_release()
                answer = self._send(message, version, response_class)
                try:
                    return await answer
                except asyncio.CancelledError:
                    self._watch(answer, deadline, response_class, timeout_seconds)
                    raise
        except TimeoutError:
            raise self._close_late(response_class, timeout_seconds) from None

    def _close_late(self, response_class: type[Message], timeout_seconds: float) -> KafkaError:
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"No {response_class.__name__} arrived within {timeout_seconds:g} s.",
        )
        self._end(late)
        if not self.is_kept_when_late:
            self.hang_up()
        return late

    def _watch(
        self,
        answer: asyncio.Future[R],
        deadline: float,
        response_class: type[Message],
        timeout_seconds: float,
    ) -> None:
        """Close the connection at the deadline, though nobody waits for this answer any more."""
        for sent in self._in_flight:
            if sent.future is answer:
                self._watches[sent.correlation_id] = asyncio.get_running_loop().call_at(
                    deadline, self._close_late, response_class, timeout_seconds
                )

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Let only `request_in_pause` send: no request may come between those of a login."""
        assert self._resumed is None, "a connection has one login at a time"
        resumed = self._resumed = asyncio.Event()
        try:
            yield
        finally:
            self._resumed = None
            resumed.set()

    async def request_in_pause(self, message: Message, version: int, response_class: type[R]) -> R:
        """Send a request of a login, beyond the limit in flight; the caller bounds the time.

        Raises like `request`.
        """
        return await self._send(message, version, response_class, has_slot=False)

    async def until_logged_in(self) -> None:
        """Wait until no login is under way, and renew a session that would end soon.

        Raises KafkaError if the login is refused.
        """
        loop = asyncio.get_running_loop()
        while self.log_in_again is not None and self.is_open:
            if self._resumed is not None:
                await self._resumed.wait()
            elif self.log_in_again_at <= loop.time():
                await self.log_in_again()
            else:
                return

    async def _until_logged_in_or_release(self) -> None:
        try:
            await self.until_logged_in()
        except BaseException:
            self._slots.release()
            raise

    def send_unanswered(self, message: Message, version: int) -> None:
        """Send a request that has no response: Produce with acks=0."""
        self._write(message, version)

    def close(self, reason: KafkaError | None = None) -> None:
        """Close the connection; requests in flight fail with `reason`."""
        self._end(
            reason
            or KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed by this client.")
        )
        self.hang_up()

    def hang_up(self) -> None:
        """Disconnect, now that no request needs the connection."""
        assert self._closed_because is not None, "requests in flight need a reason"
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: KafkaError) -> None:
        if self._closed_because is not None:
            return
        self._closed_because = reason
        while self._in_flight:
            self._settle(self._in_flight.popleft(), reason)

    def _send(
        self, message: Message, version: int, response_class: type[R], *, has_slot: bool = True
    ) -> asyncio.Future[R]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            correlation_id = self._write(message, version)
        except BaseException:
            if has_slot:
                self._slots.release()
            raise
        self._in_flight.append(
            _InFlight(correlation_id, message.api_key, version, response_class, future, has_slot)
        )
        return cast("asyncio.Future[R]", future)

    def _write(self, message: Message, version: int) -> int:
        if self._transport is None or self._closed_because is not None:
            raise self._closed_because or KafkaError(
                ErrorCode.NETWORK_EXCEPTION, "The connection is not open."
            )
        if self._transport.is_closing():
            # It has read the end of the stream, and says so next; some transports cannot write now.
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The broker disconnected.")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_ID_MAX
        header = RequestHeader(message.api_key, version, correlation_id, self._client_id)
        chunks = frame([encode_request_header(header), *encode(message, version)])
        # Clients send records from memory; only brokers send file regions.
        self._transport.writelines(cast("list[bytes]", chunks))
        return correlation_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {_reason(exc)}" if exc is not None else ""
        error = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The broker disconnected{reason}.")
        error.__cause__ = exc
        self.close(error)

    def data_received(self, data: bytes) -> None:
        if self._closed_because is not None:
            return  # it comes too late
        try:
            for response in self._frames.feed(memoryview(data)):
                self._answer(response)
        except KafkaError as error:
            self.close(error)

    def _answer(self, response: memoryview) -> None:
        if not self._in_flight:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A response arrived without a request.")
        sent = self._in_flight.popleft()
        try:
            correlation_id, position = decode_response_header(sent.api_key, sent.version, response)
            if correlation_id != sent.correlation_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"The response to request {sent.correlation_id} has id {correlation_id}.",
                )
            message, _ = decode(sent.response_class, sent.version, response, position)
        except KafkaError as error:
            self._settle(sent, error)
            raise
        self._settle(sent, message)

    def _settle(self, sent: _InFlight, outcome: Message | KafkaError) -> None:
        if sent.has_slot:
            self._slots.release()
        if watch := self._watches.pop(sent.correlation_id, None):
            watch.cancel()
        if sent.future.done():
            return  # the caller was cancelled in the meantime
        if isinstance(outcome, KafkaError):
            sent.future.set_exception(outcome)
        else:
            sent.future.set_result(outcome)

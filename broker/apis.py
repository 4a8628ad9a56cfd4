"""From a frame to its answer: which handler, which version, and what happens when it fails.

A handler is a function `handle(broker, context, request)` in `handlers/<api>.py`. It answers at
once with a response, with None where nothing is sent (Produce with acks=0), with `Later` where a
future must come first, or is a coroutine. Handlers, messages and codecs are loaded when an API is
first used, because a broker's start must not pay for what nobody asks.

A client's requests begin alike, but for the correlation id: as long as they do, their headers are
compared with the last one's and not read.

What goes wrong here ends the connection and never another one: a key or version that is not served
(except ApiVersions, which is answered in version 0 with error 35, KIP-511), a body that is not what
its header says, a fault of our own. Only the last leaves a traceback in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from struct import Struct as Format
from typing import TYPE_CHECKING, NamedTuple, cast

from ..clients.errors import ErrorCode, KafkaError, ProtocolError
from ..clients.protocol.api import SERVED, Api, ApiKey, request_class
from ..clients.protocol.codec import Decoder, decoder_of, encode
from ..clients.protocol.header import (
    UnsupportedApiError,
    decode_request_header,
    response_header,
)
from ..clients.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ..clients.protocol.primitives import size_of
from ..clients.protocol.schema import Chunk, Message
from .connection import Answer, Client, Deferred, Refused
from .context import BrokerContext, Later, NoAnswer, RequestContext
from .metrics import Counter

if TYPE_CHECKING:
    from .request_memory import RequestMemory

_API = slice(0, 4)
_CORRELATION_ID = Format(">4xi")
_BEHIND_CORRELATION_ID = 8
_REMEMBERED_BYTES_MAX = 1024
"""A longer header, whatever it is good for, is read each time: a connection keeps its last one."""
_SIZE_BYTES = 4
_HEAD = Format(">ii")
"""Size and correlation id: what stands before a response."""
_HEADS = {4: _HEAD, 5: Format(">iix")}
"""By the length of the response header: with tagged fields, of which there are none, or without."""

_LOG = logging.getLogger(__name__)

HandlerResult = Message | None | Later[object] | Coroutine[object, object, Message | None]
Handler = Callable[[BrokerContext, RequestContext, Message], HandlerResult]


class _Route(NamedTuple):
    """How one version of one API is served."""

    name: str
    version: int
    decode: Decoder
    handle: Handler
    head: Format
    requests: Counter
    errors: Counter


class _Asked:
    """A header as a client has sent it, and what follows from it for every request that has it."""

    __slots__ = ("api", "body", "context", "memory", "owner", "rest", "route")

    def __init__(
        self,
        owner: "Apis",
        frame: memoryview,
        body: int,
        route: _Route,
        context: RequestContext,
    ) -> None:
        # Quotas put another in its place, for clients that are there already as well.
        self.owner = owner
        self.api = memoryview(bytes(frame[_API]))
        self.rest = memoryview(bytes(frame[_BEHIND_CORRELATION_ID:body]))
        self.body = body
        self.route = route
        self.context = context
        self.memory: RequestMemory | None = None


class Apis:
    """The dispatch table of one broker, filled as it is used."""

    _remembers = True
    """Whether requests that repeat need not be decoded: nobody has to look at each of them."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._routes: dict[int, _Route] = {}

    def answer(self, client: Client, frame: memoryview) -> Answer:
        """Answer one request. Raises Refused or ProtocolError to have the connection closed."""
        asked = client.last_request
        if not (
            isinstance(asked, _Asked)
            and asked.owner is self
            and frame[_BEHIND_CORRELATION_ID : asked.body] == asked.rest
            and frame[_API] == asked.api
        ):
            try:
                asked = self._asked(client, frame)
            except UnsupportedApiError as error:
                return self._unsupported(error)
            client.last_request = asked if asked.body <= _REMEMBERED_BYTES_MAX else None
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        asked.route.requests.value += 1
        memory = asked.memory
        if memory is None:
            return self._handle(asked, frame, correlation_id)
        try:
            known = memory.answer(frame, correlation_id)
        except Exception as error:
            raise self._failure(asked.route, error) from error
        if isinstance(known, list):
            return known
        return self._handle(asked, frame, correlation_id, known)

    def _handle(
        self,
        asked: _Asked,
        frame: memoryview,
        correlation_id: int,
        result: HandlerResult = None,
    ) -> Answer:
        """Decode the request and have its handler answer, unless there is a `result` already."""
        route, memory = asked.route, asked.memory
        try:
            if result is None:
                request = _decoded(asked, frame)
                result = route.handle(self._broker, asked.context, request)
                if result is None:
                    return ()
                if memory is not None and isinstance(result, Message):
                    memory.learn(frame, request, result)
            if isinstance(result, Message):
                return _framed(encode(result, route.version), route.head, correlation_id)
        except Refused:
            route.errors.add()
            raise
        except Exception as error:
            raise self._failure(route, error) from error
        if isinstance(result, Later):
            return Deferred(result.work, self._responder(route, correlation_id, result.then))
        return Deferred(result, self._responder(route, correlation_id, _identity))

    def _asked(self, client: Client, frame: memoryview) -> _Asked:
        """Read a header. Raises as `decode_request_header`, and Refused."""
        header, body = decode_request_header(frame)
        version = header.api_version
        key = header.api_key << 16 | version
        try:
            route = self._routes.get(key) or self._route(key, SERVED[header.api_key], version)
        except KafkaError as error:
            # A version that is announced and yet has no class: Produce 0 to 2.
            raise Refused(error.message) from error
        context = RequestContext(
            header.api_key, version, header.client_id, client.host, client.listener
        )
        asked = _Asked(self, frame, body, route, context)
        if self._remembers:
            asked.memory = self._memory(context, body)
        return asked

    def _memory(self, context: RequestContext, body: int) -> "RequestMemory | None":
        """What remembers requests of this kind; for most there is nothing."""
        if context.api_key == ApiKey.PRODUCE:
            from .produce_memory import FIRST_REMEMBERED_VERSION, ProduceMemory

            if context.api_version >= FIRST_REMEMBERED_VERSION:
                return ProduceMemory(self._broker, context, body)
        elif context.api_key == ApiKey.FETCH:
            from .fetch_memory import FIRST_REMEMBERED_VERSION, FetchMemory

            if context.api_version >= FIRST_REMEMBERED_VERSION:
                return FetchMemory(self._broker, context, body)
        return None

    def _responder(
        self, route: _Route, correlation_id: int, then: Callable[[object], object]
    ) -> Callable[[asyncio.Future[object]], Sequence[Chunk]]:
        def respond(done: asyncio.Future[object]) -> Sequence[Chunk]:
            try:
                response = then(done.result())
                if not isinstance(response, Message):
                    return ()
                return _framed(encode(response, route.version), route.head, correlation_id)
            except Exception as error:
                raise self._failure(route, error) from error

        return respond

    def _failure(self, route: _Route, error: Exception) -> Refused:
        """What the connection is closed with when a handler did not answer."""
        route.errors.add()
        if isinstance(error, NoAnswer):
            return Refused(str(error))
        if isinstance(error, KafkaError):
            return Refused(f"{route.name} failed: {error}")
        _LOG.error("%s failed for a reason of our own", route.name, exc_info=error)
        return Refused(f"{route.name} failed for a reason of our own; see above")

    def _unsupported(self, error: UnsupportedApiError) -> Answer:
        header = error.header
        if header.api_key != ApiKey.API_VERSIONS:
            raise Refused(error.message)
        served = SERVED[ApiKey.API_VERSIONS]
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(
                    api_key=served.key,
                    min_version=served.lowest_version,
                    max_version=served.highest_version,
                )
            ],
        )
        return _framed(encode(response, 0), _HEAD, header.correlation_id)

    def _handler(self, key: ApiKey, handle: Handler) -> Handler:
        """What serves an API; `ThrottlingApis` measures around it."""
        return handle

    def _route(self, key: int, api: Api, version: int) -> _Route:
        decoder = decoder_of(request_class(api.key), version)
        module = import_module(f".handlers.{api.key.name.lower()}", __package__)
        metrics = self._broker.metrics
        request = f"request={api.name}"
        route = _Route(
            f"{api.name} v{version}",
            version,
            decoder,
            self._handler(api.key, cast("Handler", module.handle)),
            _HEADS[len(response_header(api.key, version, 0))],
            metrics.counter(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,{request}"),
            metrics.counter(f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,{request}"),
        )
        self._routes[key] = route
        return route


def _identity(response: object) -> object:
    return response


def _decoded(asked: _Asked, frame: memoryview) -> Message:
    try:
        return asked.route.decode(frame, asked.body)[0]
    except ProtocolError as error:
        name = asked.route.name
        raise Refused(f"a {name} request that cannot be read: {error.message}") from error


def _framed(chunks: list[Chunk], head: Format, correlation_id: int) -> Sequence[Chunk]:
    """A response as a frame: what stands before its first chunk is joined to it."""
    first = chunks[0]
    assert isinstance(first, bytes), "No response begins with records."
    size = head.size - _SIZE_BYTES + len(first)
    if len(chunks) > 1:
        size += sum(map(size_of, chunks[1:]))
    chunks[0] = head.pack(size, correlation_id) + first
    return chunks

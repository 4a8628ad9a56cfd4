"""From a frame to its answer: which handler, which version, and what happens when it fails.

A handler is a function `handle(broker, context, request)` in `handlers/<api>.py`. It answers at
once with a response, with None where nothing is sent (Produce with acks=0), with `Later` where a
future must come first, or is a coroutine. Handlers, messages and codecs are loaded when an API is
first used, because a broker's start must not pay for what nobody asks.

What goes wrong here ends the connection and never another one: a key or version that is not served
(except ApiVersions, which is answered in version 0 with error 35, KIP-511), a body that is not what
its header says, a fault of our own. Only the last leaves a traceback in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from struct import Struct as Format
from typing import NamedTuple, cast

from ..clients.errors import ErrorCode, KafkaError, ProtocolError
from ..clients.protocol.api import SERVED, ApiKey, request_class
from ..clients.protocol.codec import decode, encode
from ..clients.protocol.header import (
    RequestHeader,
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

_CORRELATION_ID_BYTES = 4
_SIZE_AND_CORRELATION_ID = Format(">ii")

_LOG = logging.getLogger(__name__)

HandlerResult = Message | None | Later[object] | Coroutine[object, object, Message | None]
Handler = Callable[[BrokerContext, RequestContext, Message], HandlerResult]


class _Route(NamedTuple):
    """How one version of one API is served."""

    handle: Handler
    request_class: type[Message]
    has_tagged_header: bool
    requests: Counter
    errors: Counter


class Apis:
    """The dispatch table of one broker, filled as it is used."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._routes: dict[int, _Route] = {}

    def answer(self, client: Client, frame: memoryview) -> Answer:
        """Answer one request. Raises Refused or ProtocolError to have the connection closed."""
        try:
            header, position = decode_request_header(frame)
        except UnsupportedApiError as error:
            return self._unsupported(error)
        key = header.api_key << 16 | header.api_version
        route = self._routes.get(key) or self._route(key, header)
        try:
            request, _ = decode(route.request_class, header.api_version, frame, position)
        except ProtocolError as error:
            route.errors.add()
            raise Refused(
                f"a {_name(header)} request that cannot be read: {error.message}"
            ) from error
        except KafkaError as error:
            # A version that is announced and yet has no class: Produce 0 to 2.
            raise Refused(error.message) from error
        route.requests.value += 1
        context = RequestContext(*header, *client)
        try:
            result = route.handle(self._broker, context, request)
            if result is None:
                return ()
            if isinstance(result, Message):
                return _respond(route.has_tagged_header, header, result)
        except Exception as error:
            raise self._failure(route, header, error) from error
        if isinstance(result, Later):
            return Deferred(result.work, self._responder(route, header, result.then))
        return Deferred(result, self._responder(route, header, _identity))

    def _responder(
        self, route: _Route, header: RequestHeader, then: Callable[[object], object]
    ) -> Callable[[asyncio.Future[object]], Sequence[Chunk]]:
        def respond(done: asyncio.Future[object]) -> Sequence[Chunk]:
            try:
                response = then(done.result())
                tagged = route.has_tagged_header
                return _respond(tagged, header, response) if isinstance(response, Message) else ()
            except Exception as error:
                raise self._failure(route, header, error) from error

        return respond

    def _failure(self, route: _Route, header: RequestHeader, error: Exception) -> Refused:
        """What the connection is closed with when a handler did not answer."""
        route.errors.add()
        if isinstance(error, NoAnswer):
            return Refused(str(error))
        if isinstance(error, KafkaError):
            return Refused(f"{_name(header)} failed: {error}")
        _LOG.error("%s failed for a reason of our own", _name(header), exc_info=error)
        return Refused(f"{_name(header)} failed for a reason of our own; see above")

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
        return _respond(False, header._replace(api_version=0), response)

    def _handler(self, key: ApiKey, handle: Handler) -> Handler:
        """What serves an API; `ThrottlingApis` measures around it."""
        return handle

    def _route(self, key: int, header: RequestHeader) -> _Route:
        api = SERVED[header.api_key]
        module = import_module(f".handlers.{api.key.name.lower()}", __package__)
        metrics = self._broker.metrics
        request = f"request={api.name}"
        route = _Route(
            self._handler(api.key, cast("Handler", module.handle)),
            request_class(header.api_key),
            len(response_header(header.api_key, header.api_version, 0)) > _CORRELATION_ID_BYTES,
            metrics.counter(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,{request}"),
            metrics.counter(f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,{request}"),
        )
        self._routes[key] = route
        return route


def _identity(response: object) -> object:
    return response


def _name(header: RequestHeader) -> str:
    return f"{SERVED[header.api_key].name} v{header.api_version}"


def _respond(tagged: bool, header: RequestHeader, response: Message) -> Sequence[Chunk]:
    """The response as a frame: what stands before its first chunk is joined to it."""
    first, *rest = encode(response, header.api_version)
    assert isinstance(first, bytes), "No response begins with records."
    size = _CORRELATION_ID_BYTES + tagged + len(first)
    for chunk in rest:
        size += size_of(chunk)
    head = _SIZE_AND_CORRELATION_ID.pack(size, header.correlation_id)
    return [head + b"\0" + first if tagged else head + first, *rest]

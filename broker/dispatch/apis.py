"""Dispatches request frames by API key and version, and returns the responses.

A handler is a function `handle(broker, context, request)` in `handlers/<api>.py`. It returns a
response, None if nothing is sent (Produce with acks=0), or `Deferred` if the response must wait for
a future. It may also be a coroutine, or a generator that pauses where a large request could take
long and then returns one of these. Handlers, messages and codecs are loaded when an API is first
used, so that unused APIs do not slow down a start.

All responses except those of Produce and Fetch are encoded in steps: encoding that takes longer
than a slice continues in the queue of `large_requests.py`. Large requests use that queue from
decoding on. Whether a Produce request is large depends on its partitions, not on its records.

The headers of a client's requests usually differ only in the correlation id. A header that equals
the last one in all other bytes is not parsed again, and a repeated request is not decoded again, as
long as the identity of the client and the access control entries are unchanged: what is cached was
allowed for that client at that time (`security/access.py`).

An error here closes only the connection it came from. The errors are an API key or version that is
not served on this kind of listener (except ApiVersions, which is answered in version 0 with error
35, KIP-511), a body that does not match its header, and an internal error. Only an internal error
logs a traceback.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Sequence
from importlib import import_module
from struct import Struct as Format
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.errors import ErrorCode, KafkaError, ProtocolError
from ...clients.protocol.api import (
    APIS,
    CONTROLLER_ONLY,
    SERVED_ON,
    Api,
    ApiKey,
    ListenerKind,
    request_class,
    served_by_member,
)
from ...clients.protocol.codec import Decoder, decode_in_steps, decoder_of, encode, encode_in_steps
from ...clients.protocol.connection import lasting
from ...clients.protocol.header import (
    UnsupportedApiError,
    decode_request_header,
    response_header,
)
from ...clients.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ...clients.protocol.primitives import TooManyElementsError, size_of
from ...clients.protocol.schema import Chunk, Message
from ...clients.runtime.steps import finished
from ..metrics.metrics import Counter
from ..network.connection import ConnectedClient
from ..network.response import DeferredResponse, Refused, Response
from ..request.context import BrokerContext, Deferred, NoAnswer, NodeContext, RequestContext
from ..request.fetch_session import PARTITIONS_AT_ONCE
from ..request.large_requests import LargeRequests, run_slice
from .follower_fetches import is_of_follower
from .handler import Handler, Measured, MeasuredResult, Throttled
from .muting import mute_after, muted

if TYPE_CHECKING:
    from ...clients.protocol.messages.fetch import FetchRequest
    from ...security.session import Session
    from .fetch_pacing import FetchPacing
    from .request_cache import RequestCache
    from .throttling import Throttle

_API = slice(0, 4)
_CORRELATION_ID = Format(">4xi")
_AFTER_CORRELATION_ID = 8
_CACHED_HEADER_BYTES_MAX = 1024
"""A longer header is parsed every time: each connection keeps its last header in memory."""
_SIZE_BYTES = 4
_HEAD = Format(">ii")
"""The start of a response: size and correlation id."""
_HEADS = {4: _HEAD, 5: Format(">iix")}
"""By the length of the response header: 4 bytes without tagged fields, 5 with none in its set."""

_ON_CONTROLLER_LISTENER = 1 << 32
"""Set in the route keys of controller listeners."""

_LARGE_REQUEST_BYTES = 16 * 1024
"""Larger requests wait for their turn. A request of this size has 16,000 elements at most, which
take a few milliseconds to decode."""
_ELEMENTS_NOT_IN_SLICES_MAX = 20_000
_NOT_IN_SLICES = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.LEAVE_GROUP,
        ApiKey.DELETE_GROUPS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""APIs that are not handled in slices, so their requests are limited to fewer elements.
Reassignments are not in this set: a request may hold 10,000, as in Kafka, which with three replicas
each makes 40,000 elements, but each reassignment takes only 5 µs."""
_PRODUCED_AT_ONCE_MAX = 1_000
"""The most topics and partitions of a Produce request that is decoded and served in one go."""
_ENCODED_AT_ONCE = (ApiKey.PRODUCE, ApiKey.FETCH)
"""Their responses are short except for the records, which are not encoded again."""

_log = logging.getLogger(__name__)


class _Turns(NamedTuple):
    """Where the large requests of a client wait for their turn."""

    queue: LargeRequests
    client: tuple[str, str]
    """Its principal and address: the clients of a queue take turns."""

    def submit(self, work: Generator[None, None, object]) -> "asyncio.Future[object]":
        return self.queue.submit(work, self.client)


class _Route(NamedTuple):
    """How one version of one API is served."""

    name: str
    version: int
    decode: Decoder
    handle: Handler
    head: Format
    in_steps: bool
    is_pipelined: bool
    """Whether later requests may be handled while the response waits for a future."""
    elements_max: int
    elements_at_once: int
    requests: Counter
    errors: Counter


class _ParsedHeader:
    """A parsed header, with everything that requests with the same header share."""

    __slots__ = (
        "api",
        "body",
        "cache",
        "context",
        "epoch",
        "pacing",
        "rest",
        "route",
        "routes",
        "session",
        "turns",
    )

    def __init__(
        self,
        routes: "dict[int, _Route]",
        frame: memoryview,
        body: int,
        route: _Route,
        context: RequestContext,
        session: "Session",
        queue: LargeRequests,
    ) -> None:
        self.routes = routes
        """The routing table in use when this was parsed; another replaces it when quotas are set or
        removed, also for connected clients."""
        self.api = memoryview(bytes(frame[_API]))
        self.rest = memoryview(bytes(frame[_AFTER_CORRELATION_ID:body]))
        self.body = body
        self.route = route
        self.context = context
        self.turns = _Turns(queue, (context.principal, context.client_host))
        """Those of all its large requests but a follower's fetches."""
        self.session = session
        self.epoch = 0
        """The epoch of the authorizer that allowed what `cache` holds."""
        self.cache: RequestCache | None = None
        self.pacing: FetchPacing | None = None


class Apis:
    """The dispatch table of one process, filled as it is used.

    On a node without the broker role, only controller listeners may be served.
    """

    def __init__(self, broker: NodeContext) -> None:
        # Handlers that need a broker's parts are only reached on a broker listener.
        self._broker = cast("BrokerContext", broker)
        self._listeners = broker.listeners
        self._authorizer = broker.authorizer
        self._routes: dict[int, _Route] = {}
        self._throttle: Throttle | None = None
        """While there is one, no Produce is pipelined, no Fetch is paced, no request is cached."""
        self._large_requests = broker.large_requests
        self._elements_max = broker.config.values.integer("tierlog.request.elements.max")
        self._response_bytes_max = broker.config.values.integer("tierlog.response.max.bytes")
        self._is_pacing = broker.config.values.boolean("tierlog.fetch.pacing.enable")
        self._loop = asyncio.get_running_loop()

    def limit(self, throttle: "Throttle | None") -> None:
        """Throttle clients from their next request on; None ends throttling."""
        if throttle is not self._throttle:
            self._throttle = throttle
            self._routes = {}

    def answer(self, client: ConnectedClient, frame: memoryview) -> Response:
        """Answer one request. Raises Refused or ProtocolError if the connection must be closed."""
        header = client.last_header
        if not (
            isinstance(header, _ParsedHeader)
            and header.routes is self._routes
            and header.session is client.session
            and (self._authorizer is None or header.epoch == self._authorizer.epoch)
            and frame[_AFTER_CORRELATION_ID : header.body] == header.rest
            and frame[_API] == header.api
        ):
            try:
                header = self._parse_header(client, frame)
            except UnsupportedApiError as error:
                return self._unsupported_version(error)
            client.last_header = header if header.body <= _CACHED_HEADER_BYTES_MAX else None
        pacing = header.pacing
        if pacing is None:
            return self._answer(header, frame)
        now = self._loop.time()
        pacing.requested(now)
        return self._pace(pacing, now, self._answer(header, frame))

    def _answer(self, header: _ParsedHeader, frame: memoryview) -> Response:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        header.route.requests.value += 1
        cache = header.cache
        if cache is None:
            return self._handle(header, frame, correlation_id)
        try:
            cached = cache.answer(frame, correlation_id)
        except Exception as error:
            raise self._failure(header.route, error) from error
        if isinstance(cached, list):
            return cached
        return self._handle(header, frame, correlation_id, cached)

    def _pace(self, pacing: "FetchPacing", requested_at: float, answer: Response) -> Response:
        """The Fetch response; the client is muted after it if pacing requires it."""
        if isinstance(answer, DeferredResponse):
            respond = answer.respond

            def respond_and_pace(done: asyncio.Future[object]) -> Response:
                return self._pace(pacing, requested_at, respond(done))

            return answer._replace(respond=respond_and_pace)
        nbytes = sum(map(size_of, answer))
        wait_s = pacing.responded(requested_at, self._loop.time(), nbytes)
        return muted(self._loop, answer, wait_s) if wait_s else answer

    def _handle(
        self,
        header: _ParsedHeader,
        frame: memoryview,
        correlation_id: int,
        result: Measured = None,
    ) -> Response:
        """Decode the request and call its handler, unless there is a `result` already."""
        route, cache = header.route, header.cache
        try:
            if result is None:
                if len(frame) > _LARGE_REQUEST_BYTES and header.context.api_key != ApiKey.PRODUCE:
                    return self._in_turn(header, frame, correlation_id)
                request = self._decode(header, frame)
                if request is None or self._is_of_large_session(header.context, request):
                    return self._in_turn(header, frame, correlation_id)
                throttle = self._throttle
                handled: MeasuredResult
                if throttle is None:
                    handled = route.handle(self._broker, header.context, request)
                else:
                    handled = self._handle_within_quotas(throttle, header, request, frame)
                result = finished(handled) if isinstance(handled, Generator) else handled
                if result is None:
                    return ()
                if cache is not None:
                    _remember(cache, route, frame, request, result)
            if isinstance(result, Message):
                return self._encode(route, header.turns, correlation_id, result)
            if isinstance(result, Throttled):
                return self._mute_after(route, header.turns, correlation_id, result)
        except Exception as error:
            raise self._failure(route, error) from error
        return self._defer(route, header.turns, correlation_id, result, len(frame))

    def _handle_within_quotas(
        self, throttle: "Throttle", header: _ParsedHeader, request: Message, frame: memoryview
    ) -> MeasuredResult:
        """Handle a request within its client's quotas."""
        handle, nbytes = header.route.handle, len(frame) + _SIZE_BYTES
        return throttle.handle(handle, self._broker, header.context, request, nbytes)

    def _mute_after(
        self, route: _Route, turns: _Turns, correlation_id: int, throttled: Throttled
    ) -> Response:
        """The response as a frame; its client is muted after it."""
        response, wait_s = throttled
        encoded = () if response is None else self._encode(route, turns, correlation_id, response)
        return mute_after(self._loop, encoded, wait_s)

    def _is_of_large_session(self, context: RequestContext, request: Message) -> bool:
        """Whether it is a Fetch whose session has many partitions, even if the request itself
        names none."""
        if context.api_key != ApiKey.FETCH or context.listener_kind is ListenerKind.CONTROLLER:
            return False
        session_id = cast("FetchRequest", request).session_id
        return (
            session_id != 0 and self._broker.fetch_sessions.size_of(session_id) > PARTITIONS_AT_ONCE
        )

    def _defer(
        self,
        route: _Route,
        turns: _Turns,
        correlation_id: int,
        result: Deferred[object] | Coroutine[object, object, Message | None],
        nbytes: int,
    ) -> DeferredResponse:
        work, then = result if isinstance(result, Deferred) else (result, _identity)
        # Only a coroutine still uses the request; a future no longer does.
        is_running = isinstance(work, Coroutine)
        respond = self._responder(route, turns, correlation_id, then)
        return DeferredResponse(
            work,
            respond,
            held_bytes=nbytes if is_running else 0,
            is_pipelined=route.is_pipelined and not is_running,
        )

    def _encode(
        self, route: _Route, turns: _Turns, correlation_id: int, response: Message
    ) -> Response:
        """The response as a frame; deferred if it takes longer than a slice to encode."""
        if not route.in_steps:
            return _to_frame(encode(response, route.version), route.head, correlation_id)
        steps = self._steps(route, correlation_id, response)
        done = run_slice(steps)
        if done is not None:
            return done.value
        return self._deferred_until(route, turns.submit(steps), 0)

    def _steps(
        self, route: _Route, correlation_id: int, response: Message
    ) -> Generator[None, None, Response]:
        chunks = yield from encode_in_steps(response, route.version, self._response_bytes_max)
        return _to_frame(chunks, route.head, correlation_id)

    def _in_turn(self, header: "_ParsedHeader", frame: memoryview, correlation_id: int) -> Response:
        """Answer a large request when it is its turn."""
        turns = header.turns
        if is_of_follower(self._broker, header.context, frame, header.body):
            turns = turns._replace(queue=self._broker.follower_requests)
        work = self._respond_in_steps(header, lasting(frame), correlation_id, turns)
        return self._deferred_until(header.route, turns.submit(work), len(frame))

    def _respond_in_steps(
        self, header: "_ParsedHeader", frame: memoryview, correlation_id: int, turns: _Turns
    ) -> Generator[None, None, Response]:
        route = header.route
        cls = request_class(header.context.api_key)
        try:
            request, _ = yield from decode_in_steps(
                cls, route.version, frame, header.body, route.elements_max
            )
        except ProtocolError as error:
            raise _unreadable(route, error) from error
        yield
        throttle = self._throttle
        result: MeasuredResult
        if throttle is None:
            result = route.handle(self._broker, header.context, request)
        else:
            result = self._handle_within_quotas(throttle, header, request, frame)
        if isinstance(result, Generator):
            result = yield from result
        response, wait_s = result if isinstance(result, Throttled) else (result, 0.0)
        if response is None:
            return mute_after(self._loop, (), wait_s)
        if isinstance(response, Message):
            encoded = yield from self._steps(route, correlation_id, response)
            return mute_after(self._loop, encoded, wait_s)
        # The response to a large request may be long: encode it in steps, whatever its API.
        route = route._replace(in_steps=True)
        return self._defer(route, turns, correlation_id, response, len(frame))

    def _deferred_until(
        self, route: _Route, finished: "asyncio.Future[object]", nbytes: int
    ) -> DeferredResponse:
        """A deferred response that waits for work done in slices, and sends its result."""

        def respond(done: asyncio.Future[object]) -> Response:
            try:
                return cast("Response", done.result())
            except Exception as error:
                raise self._failure(route, error) from error

        return DeferredResponse(finished, respond, held_bytes=nbytes)

    def _parse_header(self, client: ConnectedClient, frame: memoryview) -> _ParsedHeader:
        """Parse a header. Raises Refused, and the errors of `decode_request_header`."""
        kind = self._listeners.kind_of(client.listener)
        is_member = self._broker.member is not None
        served = served_by_member(kind) if is_member else SERVED_ON[kind]
        header, body = decode_request_header(frame, served)
        version = header.api_version
        key = header.api_key << 16 | version
        if kind is ListenerKind.CONTROLLER:
            key |= _ON_CONTROLLER_LISTENER
        try:
            route = self._routes.get(key) or self._route(key, APIS[header.api_key], version)
        except KafkaError as error:
            # Versions 0 to 2 of Produce are advertised, but have no message class.
            raise Refused(error.message) from error
        context = RequestContext(
            header.api_key,
            version,
            header.client_id,
            client.host,
            client.listener,
            principal=client.session.principal,
            listener_kind=kind,
            connection=client if kind is ListenerKind.CONTROLLER else None,
        )
        parsed = _ParsedHeader(
            self._routes, frame, body, route, context, client.session, self._large_requests
        )
        if self._authorizer is not None:
            parsed.epoch = self._authorizer.epoch
        if kind is ListenerKind.CONTROLLER or self._throttle is not None:
            return parsed
        parsed.cache = self._cache_for(context, body)
        if header.api_key == ApiKey.FETCH and self._is_pacing:
            if client.fetch_pacing is None:
                client.fetch_pacing = self._pacing_of(parsed, frame)
            parsed.pacing = cast("FetchPacing | None", client.fetch_pacing)
        return parsed

    def _pacing_of(self, header: _ParsedHeader, frame: memoryview) -> "FetchPacing | None":
        """The pacing of a new connection; None for a follower, which has no prefetch queue."""
        from ...clients.protocol.messages.fetch import FetchRequest
        from .fetch_pacing import FetchPacing

        # A larger one is not decoded for this: a follower's first Fetch is small.
        request = None if len(frame) > _LARGE_REQUEST_BYTES else self._decode(header, frame)
        if request is not None:
            assert isinstance(request, FetchRequest), "Only Fetch is paced."
            if max(request.replica_id, request.replica_state.replica_id) >= 0:
                return None
        return FetchPacing()

    def _cache_for(self, context: RequestContext, body: int) -> "RequestCache | None":
        """The cache for requests of this API and version; most have none."""
        if context.api_key == ApiKey.PRODUCE:
            from .produce_request_cache import FIRST_CACHED_VERSION, ProduceRequestCache

            if context.api_version >= FIRST_CACHED_VERSION:
                return ProduceRequestCache(self._broker, context, body)
        elif context.api_key == ApiKey.FETCH:
            from .fetch_request_cache import FIRST_CACHED_VERSION, FetchRequestCache

            if context.api_version >= FIRST_CACHED_VERSION:
                return FetchRequestCache(self._broker, context, body)
        return None

    def _decode(self, header: "_ParsedHeader", frame: memoryview) -> Message | None:
        """The request; None if it has too many elements to be decoded at once."""
        route = header.route
        try:
            return route.decode(frame, header.body, route.elements_at_once)[0]
        except ProtocolError as error:
            is_large = isinstance(error, TooManyElementsError)
            if is_large and route.elements_at_once < route.elements_max:
                return None
            raise _unreadable(route, error) from error

    def _responder(
        self,
        route: _Route,
        turns: _Turns,
        correlation_id: int,
        then: Callable[[object], object],
    ) -> Callable[[asyncio.Future[object]], Response]:
        def respond(done: asyncio.Future[object]) -> Response:
            try:
                response = then(done.result())
                if isinstance(response, list):
                    # A cached response is encoded already.
                    return cast("list[Chunk]", response)
                if isinstance(response, Throttled):
                    return self._mute_after(route, turns, correlation_id, response)
                if not isinstance(response, Message):
                    return ()
                return self._encode(route, turns, correlation_id, response)
            except Exception as error:
                raise self._failure(route, error) from error

        return respond

    def _failure(self, route: _Route, error: Exception) -> Refused:
        """Count an error, and log it if it is internal; returns why the connection is closed."""
        route.errors.add()
        if isinstance(error, Refused):
            return error
        if isinstance(error, NoAnswer):
            return Refused(str(error))
        if isinstance(error, ProtocolError):
            # What could not be decoded is Refused already: this response is too long to encode.
            return Refused(f"{route.name}: {error.message} (tierlog.response.max.bytes)")
        if isinstance(error, KafkaError):
            return Refused(f"{route.name} failed: {error}")
        _log.error("Internal error handling request %s", route.name, exc_info=error)
        return Refused(f"{route.name} failed with an internal error, logged above")

    def _unsupported_version(self, error: UnsupportedApiError) -> Response:
        header = error.header
        if header.api_key != ApiKey.API_VERSIONS:
            raise Refused(error.message)
        served = APIS[ApiKey.API_VERSIONS]
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
        return _to_frame(encode(response, 0), _HEAD, header.correlation_id)

    def _with_check(self, key: ApiKey, route_key: int, handle: Handler) -> Handler:
        """The handler, wrapped in the access check of its API. Raises KafkaError for an API without
        one."""
        if self._authorizer is None:
            return handle
        from ...security.api_checks import with_check

        kind = (
            ListenerKind.CONTROLLER if route_key & _ON_CONTROLLER_LISTENER else ListenerKind.BROKER
        )
        return with_check(key, kind, handle)

    def _with_audit(self, key: ApiKey, handle: Handler) -> Handler:
        """The handler, writing an audit line if its API is an administrative act."""
        if not self._broker.identifies_clients:
            return handle
        from ..request.recorded_acts import with_audit

        return cast("Handler", with_audit(key, handle))

    def _forwarding(self, key: ApiKey, route_key: int, handle: Handler) -> Handler:
        """The handler, or one that forwards to the active controller on another node."""
        if self._broker.member is None or route_key & _ON_CONTROLLER_LISTENER:
            return handle
        from .forwarding import FORWARDABLE, forwarding

        return forwarding(handle) if key in FORWARDABLE else handle

    def _elements_max_of(self, key: ApiKey) -> int:
        if key in _NOT_IN_SLICES:
            return min(self._elements_max, _ELEMENTS_NOT_IN_SLICES_MAX)
        return self._elements_max

    def _route(self, key: int, api: Api, version: int) -> _Route:
        decoder = decoder_of(request_class(api.key), version)
        module = import_module(f"..handlers.{_module_of(api, key)}", __package__)
        metrics = self._broker.metrics
        request = f"request={api.name}"
        elements_max = self._elements_max_of(api.key)
        at_once = _PRODUCED_AT_ONCE_MAX if api.key == ApiKey.PRODUCE else elements_max
        route = _Route(
            f"{api.name} v{version}",
            version,
            decoder,
            self._forwarding(
                api.key,
                key,
                self._with_check(api.key, key, self._with_audit(api.key, module.handle)),
            ),
            _HEADS[len(response_header(api.key, version, 0))],
            api.key not in _ENCODED_AT_ONCE,
            api.key == ApiKey.PRODUCE and self._throttle is None,
            elements_max,
            min(elements_max, at_once),
            metrics.counter(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,{request}"),
            metrics.counter(f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,{request}"),
        )
        self._routes[key] = route
        return route


def _module_of(api: Api, key: int) -> str:
    """The module of a handler, below `handlers`."""
    name = api.key.name.lower()
    is_quorum_fetch = api.key == ApiKey.FETCH and key & _ON_CONTROLLER_LISTENER
    return f"controller.{name}" if api.listeners == CONTROLLER_ONLY or is_quorum_fetch else name


def _remember(
    cache: "RequestCache",
    route: _Route,
    frame: memoryview,
    request: Message,
    result: Measured,
) -> None:
    """Put a request and its response into the cache if both may be used again."""
    if isinstance(result, Message):
        cache.put(frame, request, result)
    elif route.is_pipelined and isinstance(result, Deferred):
        cache.put(frame, request, None)


def _identity(response: object) -> object:
    return response


def _unreadable(route: _Route, error: ProtocolError) -> Refused:
    if isinstance(error, TooManyElementsError):
        return Refused(
            f"a {route.name} request whose arrays hold more than {route.elements_max} elements "
            "(tierlog.request.elements.max): split the request"
        )
    return Refused(f"a {route.name} request that cannot be read: {error.message}")


def _to_frame(chunks: list[Chunk], head: Format, correlation_id: int) -> Sequence[Chunk]:
    """A response as a frame: size and header are joined to the first chunk."""
    first = chunks[0]
    assert isinstance(first, bytes), "No response begins with records."
    size = head.size - _SIZE_BYTES + len(first)
    if len(chunks) > 1:
        size += sum(map(size_of, chunks[1:]))
    chunks[0] = head.pack(size, correlation_id) + first
    return chunks

"""Throttling: a client above a quota gets its response at once, and is muted for the throttle time.

Only a broker with quotas serves its clients through `ThrottlingApis`; `Apis` does not depend on it,
so other brokers pay nothing. As in `KafkaApis`, a produce request counts by its size, a fetch by
the size of its response; a fetch above its quota gets an empty response and does not count. A
client above several quotas waits for the longest throttle time. A request's time on the event loop
counts against `request_percentage`, which throttles for a second at most. Partitions that are
created and deleted count against `controller_mutation_rate`; above that quota, old request versions
are only throttled, never refused.

What nodes of the cluster ask of each other on the listener of controllers is never throttled: the
quorum would not survive it. A request in an Envelope counts against the quota of its own client;
the broker that forwarded it mutes the client. What a client asks before it has authenticated with
SASL counts against no quota: all who have not share a name, and could keep each other out.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from math import ceil
from typing import NamedTuple, cast

from ...clients.protocol.api import APIS, CONTROLLER_ONLY, ApiKey, ListenerKind
from ...clients.protocol.codec import encode
from ...clients.protocol.messages.fetch import FetchRequest, FetchResponse
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk, Message
from ...security.session import ANONYMOUS
from ..network.connection import ConnectedClient, DeferredResponse, Response
from ..quota.quotas import ClientQuotas, Kept, Quota
from ..request.context import BrokerContext, Deferred, NodeContext, RequestContext
from .apis import Apis
from .handler import Handler, HandlerResult, Outcome
from .mutation_quotas import MutationCharge, TokenBucket
from .muting import muted

_REQUEST_WAIT_MAX_S = 1.0
_SIZE_BYTES = 4
_ALWAYS = 0
_STRICT_SINCE: Mapping[int, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    # Auto-creation of topics uses the newest CreateTopics.
    ApiKey.METADATA: _ALWAYS,
}
"""The APIs that change partitions, and the first version refused above the quota (KIP-599)."""


class _Used(NamedTuple):
    """What a request used: bytes received, time on the event loop, partitions changed."""

    request_bytes: int
    busy_s: float
    mutation: MutationCharge | None


class ThrottlingApis(Apis):
    """An `Apis` that throttles clients."""

    _caches_requests = False
    _paces_fetches = False
    _pipelines = False

    def __init__(self, broker: NodeContext, quotas: ClientQuotas) -> None:
        super().__init__(broker)
        self.quotas = quotas
        self._buckets = Kept[tuple[str, str, str], TokenBucket](TokenBucket)
        # The size and the throttle time of the request that is being answered.
        self._request_bytes = 0
        self._wait_s = 0.0

    def answer(self, client: ConnectedClient, frame: memoryview) -> Response:
        """Answer one request, and throttle the client if it is above a quota."""
        self._request_bytes = len(frame) + _SIZE_BYTES
        self._wait_s = 0.0
        return self._muting(super().answer(client, frame))

    def _muting(self, answer: Response) -> Response:
        """The response, deferred or not; the client is muted after it for the throttle time."""
        if not isinstance(answer, DeferredResponse):
            return self._muted(answer)
        respond = answer.respond

        def respond_and_mute(done: asyncio.Future[object]) -> Response:
            self._wait_s = 0.0
            return self._muting(respond(done))

        return answer._replace(respond=respond_and_mute)

    def _muted(self, chunks: Sequence[Chunk]) -> Response:
        """The response; the client is muted after it for the throttle time."""
        if self._wait_s <= 0:
            return chunks
        return muted(self._loop, chunks, self._wait_s)

    def _handler(self, key: ApiKey, handle: Handler) -> Handler:
        if APIS[key].listeners == CONTROLLER_ONLY:
            return self._exempt(handle)
        strangers = frozenset(self._broker.config.sasl if key == ApiKey.API_VERSIONS else ())

        def measured(
            broker: BrokerContext, context: RequestContext, request: Message
        ) -> HandlerResult:
            if isinstance(request, FetchRequest) and _is_of_the_quorum(context):
                return handle(broker, context, request)
            if context.listener in strangers and context.principal == ANONYMOUS:
                return handle(broker, context, request)
            request_bytes = self._request_bytes
            started = self._loop.time()
            if isinstance(request, FetchRequest):
                self._bound(context, request)
            mutation = self._mutation(context)
            if mutation is not None:
                context = context._replace(charge_partitions=mutation.charge)

            def finish(outcome: Outcome, busy_s: float) -> Outcome:
                used = _Used(request_bytes, busy_s, mutation)
                if outcome is None or isinstance(outcome, Message):
                    return self._finish(context, outcome, used)
                work, then = outcome if isinstance(outcome, Deferred) else (outcome, _identity)

                def finish_later(done: object) -> Message:
                    return cast("Message", self._finish(context, then(done), used))

                # Charged when the response is made; `answer` mutes before another one is made.
                return Deferred(work, finish_later)

            result = handle(broker, context, request)
            if isinstance(result, Generator):
                return _timed(result, self._loop.time, finish)
            return finish(result, self._loop.time() - started)

        return measured

    def _exempt(self, handle: Handler) -> Handler:
        """The handler of what nodes ask; it charges the client of a request in an Envelope."""
        return lambda broker, context, request: handle(
            broker, context._replace(charge_forwarded=self._mutation), request
        )

    def _bound(self, context: RequestContext, request: FetchRequest) -> None:
        """Limit a response to what a whole window allows: a larger one could never be sent."""
        quota = self._quota("consumer_byte_rate", context)
        if quota is not None:
            request.max_bytes = min(request.max_bytes, max(int(quota.window), 1))

    def _mutation(self, context: RequestContext) -> MutationCharge | None:
        strict_since = _STRICT_SINCE.get(context.api_key)
        if strict_since is None:
            return None
        quota = self._quota("controller_mutation_rate", context)
        if quota is None:
            return None
        bucket = self._buckets[quota.shared_by]
        is_strict = context.api_version >= strict_since
        return MutationCharge(bucket, quota.limit, is_strict, self._loop.time)

    def _finish(
        self, context: RequestContext, response: Message | None, used: "_Used"
    ) -> Message | None:
        """Charge what the request used, and set the throttle time of the response."""
        now = self._loop.time()
        wait_s = 0.0
        quota = self._quota("request_percentage", context)
        if quota is not None:
            wait_s = min(self._use(quota, used.busy_s * 100, now), _REQUEST_WAIT_MAX_S)
        if used.mutation is not None and context.api_key != ApiKey.METADATA:
            # The active controller has charged what was forwarded to it.
            forwarded_s = getattr(response, "throttle_time_ms", 0) / 1000
            wait_s = max(wait_s, used.mutation.wait_s(now), forwarded_s)
        if context.api_key == ApiKey.PRODUCE:
            quota = self._quota("producer_byte_rate", context)
            if quota is not None:
                wait_s = max(wait_s, self._use(quota, used.request_bytes, now))
        elif isinstance(response, FetchResponse):
            fetch_wait_s = self._fetched(context, response, now)
            wait_s = max(wait_s, fetch_wait_s)
            if wait_s > 0:
                response = FetchResponse(session_id=response.session_id)
        wait_ms = ceil(wait_s * 1000)
        self._wait_s = wait_ms / 1000
        if wait_ms and response is not None and hasattr(response, "throttle_time_ms"):
            # Nearly every response has the field, but there is no common class for them.
            setattr(response, "throttle_time_ms", wait_ms)  # noqa: B010 (see above)
        return response

    def _fetched(self, context: RequestContext, response: FetchResponse, now: float) -> float:
        quota = self._quota("consumer_byte_rate", context)
        if quota is None:
            return 0.0
        nbytes = sum(size_of(chunk) for chunk in encode(response, context.api_version))
        wait_s = self._use(quota, nbytes, now)
        if wait_s > 0:
            # The records are not sent, so they do not count.
            self.quotas.meter(quota).record(-nbytes, now)
        return wait_s

    def _quota(self, key: str, context: RequestContext) -> Quota | None:
        user = context.principal.partition(":")[2]
        return self.quotas.quota(key, user, context.client_id or "")

    def _use(self, quota: Quota, amount: float, now: float) -> float:
        meter = self.quotas.meter(quota)
        meter.record(amount, now)
        return meter.excess_s(quota.limit, now)


def _timed(
    work: Generator[None, None, Outcome],
    time: Callable[[], float],
    finish: Callable[[Outcome, float], Outcome],
) -> Generator[None, None, Outcome]:
    """Run the work, and pass its result and its time on the event loop to `finish`."""
    busy_s = 0.0
    while True:
        started = time()
        try:
            next(work)
        except StopIteration as end:
            return finish(cast("Outcome", end.value), busy_s + time() - started)
        busy_s += time() - started
        yield


def _is_of_the_quorum(context: RequestContext) -> bool:
    return context.listener_kind is ListenerKind.CONTROLLER


def _identity(response: object) -> Message:
    return cast("Message", response)

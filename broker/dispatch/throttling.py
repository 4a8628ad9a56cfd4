"""Throttling: a client above a quota gets its response at once, and is muted for the throttle time.

Only an `Apis` of a broker with quotas has a `Throttle`, around each call of a handler; without
quotas it costs nothing. As in `KafkaApis`, a produce request counts by its size, a fetch by
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
from collections.abc import Callable, Generator, Mapping
from math import ceil
from typing import NamedTuple, cast

from ...clients.protocol.api import APIS, CONTROLLER_ONLY, ApiKey, ListenerKind
from ...clients.protocol.codec import encode
from ...clients.protocol.messages.fetch import FetchRequest, FetchResponse
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Message
from ...security.session import ANONYMOUS
from ..quota.quotas import ClientQuotas, Kept, Quota
from ..request.context import BrokerContext, Deferred, NodeContext, RequestContext
from .handler import Handler, Measured, MeasuredResult, Outcome, Throttled
from .mutation_quotas import MutationCharge, TokenBucket

_REQUEST_WAIT_MAX_S = 1.0
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


class Throttle:
    """What clients have used of their quotas, and how long each is throttled for it."""

    def __init__(self, broker: NodeContext, quotas: ClientQuotas) -> None:
        self.quotas = quotas
        self._buckets = Kept[tuple[str, str, str], TokenBucket](TokenBucket)
        self._sasl_listeners = frozenset(broker.config.sasl)
        self._time = asyncio.get_running_loop().time

    def handle(
        self,
        handle: Handler,
        broker: BrokerContext,
        context: RequestContext,
        request: Message,
        request_bytes: int,
    ) -> MeasuredResult:
        """Handle a request, and charge its client for what it uses."""
        if APIS[ApiKey(context.api_key)].listeners == CONTROLLER_ONLY:
            # It charges the client of a request in an Envelope.
            context = context._replace(charge_forwarded=self._mutation)
            return handle(broker, context, request)
        if self._is_exempt(context, request):
            return handle(broker, context, request)
        started = self._time()
        if isinstance(request, FetchRequest):
            self._limit_response(context, request)
        mutation = self._mutation(context)
        if mutation is not None:
            context = context._replace(charge_partitions=mutation.charge)

        def finish(outcome: Outcome, busy_s: float) -> Measured:
            used = _Used(request_bytes, busy_s, mutation)
            if outcome is None or isinstance(outcome, Message):
                return self._finish(context, outcome, used)
            work, then = outcome if isinstance(outcome, Deferred) else (outcome, _identity)

            def finish_later(done: object) -> Message:
                # Charged when the response is made; the dispatch takes either from a future.
                return cast("Message", self._finish(context, then(done), used))

            return Deferred(work, finish_later)

        result = handle(broker, context, request)
        if isinstance(result, Generator):
            return _measure(result, self._time, finish)
        return finish(result, self._time() - started)

    def _is_exempt(self, context: RequestContext, request: Message) -> bool:
        """Whether it is a fetch of the quorum, or asked before its client has authenticated."""
        if isinstance(request, FetchRequest):
            return context.listener_kind is ListenerKind.CONTROLLER
        return (
            context.api_key == ApiKey.API_VERSIONS
            and context.principal == ANONYMOUS
            and context.listener in self._sasl_listeners
        )

    def _limit_response(self, context: RequestContext, request: FetchRequest) -> None:
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
        return MutationCharge(bucket, quota.limit, is_strict, self._time)

    def _finish(
        self, context: RequestContext, response: Message | None, used: "_Used"
    ) -> Throttled:
        """Charge what the request used, and set the throttle time of the response."""
        now = self._time()
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
            fetch_wait_s = self._charge_fetch(context, response, now)
            wait_s = max(wait_s, fetch_wait_s)
            if wait_s > 0:
                response = FetchResponse(session_id=response.session_id)
        wait_ms = ceil(wait_s * 1000)
        if wait_ms and response is not None and hasattr(response, "throttle_time_ms"):
            # Nearly every response has the field, but there is no common class for them.
            setattr(response, "throttle_time_ms", wait_ms)  # noqa: B010 (see above)
        return Throttled(response, wait_ms / 1000)

    def _charge_fetch(self, context: RequestContext, response: FetchResponse, now: float) -> float:
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


def _measure(
    work: Generator[None, None, Outcome],
    time: Callable[[], float],
    finish: Callable[[Outcome, float], Measured],
) -> Generator[None, None, Measured]:
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


def _identity(response: object) -> Message:
    return cast("Message", response)

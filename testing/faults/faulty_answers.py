"""Stands before the dispatch of a broker for tests, and lets requests meet their faults.

A request without a fault goes on as it came: what tests see is the broker as it is, with its caches
and its pipelining. A broker that no test made has nothing of this (`broker.Dependencies`).
"""

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct as Format
from typing import TYPE_CHECKING, NamedTuple, cast

from ...broker.dispatch.muting import muted
from ...broker.network.connection import Answer, ConnectedClient
from ...broker.network.response import DeferredResponse, Refused, Response
from ...broker.request.context import BrokerContext, RequestContext
from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.api import ApiKey, request_class, response_class
from ...clients.protocol.codec import decode, decoder_of, encode
from ...clients.protocol.connection import lasting
from ...clients.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    response_header,
)
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk, Message
from ..cluster_access import CLIENT_ID as TESTING_CLIENT_ID
from .fault_rules import NO_FAULT, Decision, FaultKind
from .request_faults import RequestFaults
from .topics_of_requests import topics_of

if TYPE_CHECKING:
    from ...clients.protocol.messages.fetch import FetchRequest
    from ...clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
    from ...clients.protocol.messages.produce import ProduceRequest

OWN_CLIENTS = ("__remote_log_metadata_client", TESTING_CLIENT_ID)
"""How the client ids begin of those who keep the tier's metadata, whose module takes long to load,
and of the acts of `testing.Broker`. They meet no faults."""

_ELEMENTS_MAX = 1_000_000
_SIZE = Format(">i")
_THROTTLE_TIME = Format(">i")
_BY_A_TEST = "A test has set this error."


class _Request(NamedTuple):
    """A request, its client, and where its body begins."""

    client: ConnectedClient
    frame: memoryview
    header: RequestHeader
    body: int

    def decode_request(self) -> Message:
        """The request. Raises ProtocolError if it cannot be read."""
        key, version = self.header.api_key, self.header.api_version
        return decoder_of(request_class(key), version)(self.frame, self.body, _ELEMENTS_MAX)[0]


class FaultyAnswers:
    """An `answer` of the dispatch that lets requests meet their faults first."""

    def __init__(self, faults: RequestFaults, broker: BrokerContext, answer: Answer) -> None:
        self._faults = faults
        self._broker = broker
        self._answer = answer
        self._loop = asyncio.get_running_loop()

    def __call__(self, client: ConnectedClient, frame: memoryview) -> Response:
        """Answer one request. Raises Refused or ProtocolError, as `Apis.answer` does."""
        try:
            header, body = decode_request_header(frame)
        except KafkaError:
            # The dispatch knows what to say to it.
            return self._answer(client, frame)
        if (header.client_id or "").startswith(OWN_CLIENTS):
            return self._answer(client, frame)
        request = _Request(client, frame, header, body)
        decision = self._faults.decide(header, lambda: self._topics(request))
        if decision is NO_FAULT:
            return self._answer(client, frame)
        if decision.delay_s:
            return self._delay(request, decision)
        return self._throttle(request, decision, self._act(request, decision))

    def _topics(self, request: _Request) -> set[str] | None:
        decoded = request.decode_request()
        topics = topics_of(decoded, self._name_of)
        if request.header.api_key == ApiKey.FETCH and topics is not None:
            # A request within a session names only what has changed.
            session_id = cast("FetchRequest", decoded).session_id
            topics |= {
                partition.topic or self._name_of(partition.topic_id) or ""
                for partition in self._broker.fetch_sessions.partitions_of(session_id)
            }
        return topics

    def _name_of(self, topic_id: Uuid) -> str | None:
        topic = self._broker.controller.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _delay(self, request: _Request, decision: Decision) -> Response:
        done: asyncio.Future[object] = self._loop.create_future()
        timer = self._loop.call_later(decision.delay_s, _let_go_on, done)
        done.add_done_callback(lambda _: timer.cancel())
        return self._later(request, decision, done)

    def _later(
        self, request: _Request, decision: Decision, work: asyncio.Future[object]
    ) -> Response:
        """The answer to a request that meets the rest of its faults after the work."""
        kept = request._replace(frame=lasting(request.frame))
        now = decision._replace(delay_s=0.0)

        def respond(_: asyncio.Future[object]) -> Response:
            return self._throttle(kept, now, self._act(kept, now))

        return DeferredResponse(work, respond, held_bytes=len(kept.frame))

    def _act(self, request: _Request, decision: Decision) -> Response:
        """The answer, or what the decision puts in its place."""
        rule = decision.ending
        if rule is None:
            return self._answer(request.client, request.frame)
        if rule.kind is FaultKind.FAIL:
            return self._error_answer(request, KafkaError(rule.error, _BY_A_TEST))
        if rule.kind is FaultKind.SILENCE:
            return self._later(
                request, decision._replace(ending=None), self._faults.until_ended(rule)
            )
        if rule.kind is FaultKind.DROP_AFTER:
            return _drop(self._answer(request.client, request.frame))
        raise Refused("a test drops it before its request is handled")

    def _error_answer(self, request: _Request, error: KafkaError) -> Response:
        from .error_responses import error_response

        header, decoded = request.header, request.decode_request()
        if header.api_key == ApiKey.PRODUCE and not cast("ProduceRequest", decoded).acks:
            # As in Kafka: the client can notice an error only by its connection.
            raise Refused(f"a test fails a Produce request that gets no answer: {error}")
        if header.api_key == ApiKey.METADATA:
            response: Message = self._metadata(request, cast("MetadataRequest", decoded), error)
        else:
            response = error_response(decoded, header.api_version, error)
        return _to_frame(header, response)

    def _metadata(
        self, request: _Request, decoded: "MetadataRequest", error: KafkaError
    ) -> "MetadataResponse":
        """The error in each topic, beside the brokers: without them, a client could not go on."""
        from ...broker.handlers import metadata
        from ...clients.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

        header, client = request.header, request.client
        decoded.allow_auto_topic_creation = False
        context = RequestContext(*header[:2], header.client_id, client.host, client.listener)
        response = metadata.handle(self._broker, context, decoded)
        assert isinstance(response, MetadataResponse), "Nothing is created."
        response.topics = [
            MetadataResponseTopic(
                error_code=error.code,
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
            )
            for topic in response.topics
        ]
        return response

    def _throttle(self, request: _Request, decision: Decision, answer: Response) -> Response:
        seconds = decision.throttle_s
        if not seconds:
            return answer
        if isinstance(answer, DeferredResponse):
            if answer.at_once:
                _discard(answer)
                return self._throttle(request, decision, answer.at_once)
            inner = answer.respond

            def respond(done: asyncio.Future[object]) -> Response:
                return self._throttle(request, decision, inner(done))

            return answer._replace(respond=respond, is_pipelined=False)
        if not answer:
            return answer
        return muted(self._loop, _with_throttle_time(request.header, answer, seconds), seconds)


def faulty_answers(faults: RequestFaults) -> Callable[[BrokerContext, Answer], Answer]:
    """What lets the requests of a broker meet these faults (`broker.Dependencies`)."""
    return lambda broker, answer: FaultyAnswers(faults, broker, answer)


def _drop(answer: Response) -> Response:
    """Raise Refused instead of answering, once the request is handled."""
    if isinstance(answer, DeferredResponse) and not answer.at_once:
        inner = answer.respond

        def respond(done: asyncio.Future[object]) -> Response:
            return _drop(inner(done))

        return answer._replace(respond=respond)
    if isinstance(answer, DeferredResponse):
        _discard(answer)
    raise Refused("a test drops it instead of answering its request")


def _discard(answer: DeferredResponse) -> None:
    """End the pause after an answer."""
    if isinstance(answer.work, asyncio.Future):
        answer.work.cancel()
    else:
        answer.work.close()


def _let_go_on(future: asyncio.Future[object]) -> None:
    if not future.done():
        future.set_result(None)


def _to_frame(header: RequestHeader, response: Message) -> list[Chunk]:
    """A response as a frame."""
    chunks = encode(response, header.api_version)
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    size = len(head) + sum(map(size_of, chunks))
    return [_SIZE.pack(size) + head, *chunks]


def _with_throttle_time(
    header: RequestHeader, chunks: Sequence[Chunk], seconds: float
) -> Sequence[Chunk]:
    """The framed response with a throttle time, in milliseconds, if its version has one."""
    milliseconds = round(seconds * 1000)
    key, version = header.api_key, header.api_version
    first = chunks[0]
    assert isinstance(first, bytes | bytearray), "No response begins with records."
    if key == ApiKey.FETCH:
        # Its first field, before records that may be a section of a file.
        at = _SIZE.size + len(response_header(key, version, 0))
        stamped = bytearray(first)
        _THROTTLE_TIME.pack_into(stamped, at, milliseconds)
        return [bytes(stamped), *chunks[1:]]
    whole = memoryview(bytearray(b"".join(cast("Sequence[bytes]", chunks))))[_SIZE.size :]
    _, position = decode_response_header(key, version, whole)
    response, _ = decode(response_class(key), version, whole, position)
    if not hasattr(response, "throttle_time_ms"):
        return chunks
    # Nearly every response has the field, but there is no common class for them.
    setattr(response, "throttle_time_ms", milliseconds)  # noqa: B010 (see above)
    return _to_frame(header, response)

"""The active controller takes a client's request out of its envelope, and refuses bad ones."""

import pytest

from tierlog.broker.cluster.principal_data import encode_principal
from tierlog.broker.handlers import create_topics
from tierlog.broker.handlers.controller import envelope
from tierlog.broker.request.context import NodeContext, RequestContext
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import APIS, Api, ApiKey, ListenerKind
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.protocol.schema import Message
from tierlog.tests import wire
from tierlog.tests.broker.cluster.forwarded_requests import CONTROLLER_LISTENER, controller_node
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import creation
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

_PRINCIPAL = encode_principal("User:alice")
_ADDRESS = b"\x0a\x00\x00\x02"


def _request(message: Message, version: int, correlation_id: int = 99) -> bytes:
    header = RequestHeader(message.api_key, version, correlation_id, "admin")
    return encode_request_header(header) + encode_bytes(message, version)


def _answer(request: wire.EnvelopeRequest, *, is_active: bool = True) -> wire.EnvelopeResponse:
    """What a controller answers, which creates topics if it can."""
    answers: list[wire.EnvelopeResponse] = []

    async def story(loop: SimulatedLoop) -> None:
        node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
        if not is_active:
            await node.controller.stop()
        answers.append(
            await envelope.handle(controller_node(node.controller), CONTROLLER_LISTENER, request)
        )
        if is_active:
            await node.stop()

    simulate(story)
    return answers[0]


def _enveloped(
    data: bytes, principal: bytes | None = _PRINCIPAL, address: bytes = _ADDRESS
) -> wire.EnvelopeRequest:
    return wire.EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )


def test_the_response_has_the_header_of_the_request() -> None:
    answer = _answer(_enveloped(_request(creation("t"), 7)))
    assert answer.error_code == ErrorCode.NONE
    assert answer.response_data is not None
    view = memoryview(answer.response_data)
    correlation_id, position = decode_response_header(ApiKey.CREATE_TOPICS, 7, view)
    assert correlation_id == 99
    response, end = decode(wire.CreateTopicsResponse, 7, view, position)
    assert end == len(view)
    assert [(each.name, each.error_code) for each in response.topics] == [("t", 0)]


def test_the_handler_sees_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[RequestContext] = []

    def handle(_: NodeContext, context: RequestContext, _request: Message) -> Message:
        contexts.append(context)
        return wire.CreateTopicsResponse()

    monkeypatch.setattr(create_topics, "handle", handle)
    _answer(_enveloped(_request(creation("t"), 5)))
    [context] = contexts
    assert (context.api_key, context.api_version) == (ApiKey.CREATE_TOPICS, 5)
    assert (context.client_id, context.client_host) == ("admin", "10.0.0.2")
    assert context.principal == "User:alice"
    assert (context.listener, context.listener_kind) == ("CONTROLLER", ListenerKind.CONTROLLER)


_GOOD = _request(creation("t"), 7)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (_enveloped(_GOOD, None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_enveloped(_GOOD, b"\x00\x09"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_enveloped(_GOOD, address=b"\x0a"), ErrorCode.INVALID_REQUEST),
        (_enveloped(b""), ErrorCode.UNSUPPORTED_VERSION),
        (_enveloped(_GOOD[:12]), ErrorCode.UNSUPPORTED_VERSION),
        (_enveloped(_GOOD[:-3]), ErrorCode.UNSUPPORTED_VERSION),
        (_enveloped(b"\x7f\x00" + _GOOD[2:]), ErrorCode.UNSUPPORTED_VERSION),
        (_enveloped(b"\x00\x13\x00\x63" + _GOOD[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (_enveloped(_request(wire.MetadataRequest(topics=[]), 12)), ErrorCode.INVALID_REQUEST),
        (
            _enveloped(_request(_enveloped(_GOOD), 0)),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
    ids=[
        "no principal",
        "unreadable principal",
        "address of one byte",
        "nothing",
        "torn header",
        "torn body",
        "unknown API",
        "unknown version",
        "not forwardable",
        "envelope in an envelope",
    ],
)
def test_a_bad_envelope_is_refused(request_: wire.EnvelopeRequest, code: ErrorCode) -> None:
    answer = _answer(request_)
    assert answer.error_code == code
    assert answer.response_data is None


def test_a_request_has_bounded_elements() -> None:
    names = [f"t{each}" for each in range(envelope.ELEMENTS_MAX + 1)]
    answer = _answer(_enveloped(_request(creation(*names), 7)))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_that_is_not_active_says_so() -> None:
    answer = _answer(_enveloped(_GOOD), is_active=False)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    # What cannot be read is refused first, as in Kafka.
    answer = _answer(_enveloped(b""), is_active=False)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_lead_lost_before_the_decision_is_an_error_of_the_envelope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def deposed(
        _: NodeContext, _context: RequestContext, request: wire.CreateTopicsRequest
    ) -> wire.CreateTopicsResponse:
        codes = [ErrorCode.NONE, ErrorCode.NOT_CONTROLLER]
        return wire.CreateTopicsResponse(
            topics=[
                wire.CreatableTopicResult(name=each.name, error_code=code)
                for each, code in zip(request.topics, codes, strict=True)
            ]
        )

    monkeypatch.setattr(create_topics, "handle", deposed)
    answer = _answer(_enveloped(_request(creation("t", "u"), 7)))
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert answer.response_data is None


def test_every_forwardable_api_has_a_handler() -> None:
    for key in envelope.FORWARDABLE:
        api: Api = APIS[key]
        assert ListenerKind.CONTROLLER in api.listeners, api.name

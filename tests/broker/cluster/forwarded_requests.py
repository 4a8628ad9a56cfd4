"""A broker that does not decide, and the active controller that it forwards to, in one test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar, cast

from tierlog.broker.cluster.controller_channel import ControllerChannel
from tierlog.broker.handlers.controller import envelope
from tierlog.broker.request.context import BrokerContext, Member, NodeContext, RequestContext
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import ApiKey, ListenerKind
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tierlog.clients.protocol.schema import Message
from tierlog.replication.authorizer.authorizer import Authorizer
from tierlog.replication.control.controller import Controller
from tierlog.replication.metadata.quorum_member import QuorumMember

R = TypeVar("R", bound=Message)

CLIENT = RequestContext(ApiKey.CREATE_TOPICS, 7, "admin", "10.0.0.2", "PLAINTEXT")
CONTROLLER_LISTENER = RequestContext(
    ApiKey.ENVELOPE, 0, "broker", "10.0.0.1", "CONTROLLER", listener_kind=ListenerKind.CONTROLLER
)
_BOUND = {"tierlog.request.elements.max": 100_000, "tierlog.response.max.bytes": 1 << 20}
_VALUES = SimpleNamespace(integer=_BOUND.__getitem__)


NODE_ID = 5
_CONFIG = SimpleNamespace(values=_VALUES, node_id=NODE_ID)
_NO_QUORUM = cast("QuorumMember", None)
_NO_CHANNEL = cast("ControllerChannel", None)


def controller_node(controller: Controller, authorizer: Authorizer | None = None) -> NodeContext:
    """A process whose controller handles envelopes."""
    member = Member(_NO_QUORUM, None, _NO_CHANNEL)
    return cast(
        "NodeContext",
        SimpleNamespace(
            controller=controller,
            config=_CONFIG,
            member=member,
            authorizer=authorizer,
            identifies_clients=authorizer is not None,
        ),
    )


class DirectChannel:
    """Hands envelopes to a controller's handler, as they are on the wire."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self.envelopes: list[EnvelopeRequest] = []
        self.failure: KafkaError | None = None
        self.error = ErrorCode.NONE
        """An error of the envelope in place of a response."""

    async def request(self, message: Message, response: type[R], timeout_ms: int) -> R:
        assert timeout_ms == 60_000
        assert isinstance(message, EnvelopeRequest)
        self.envelopes.append(message)
        if self.failure is not None:
            raise self.failure
        if self.error:
            return cast("R", EnvelopeResponse(error_code=self.error))
        received, _ = decode(EnvelopeRequest, 0, encode_bytes(message, 0))
        answer = await envelope.handle(self._node, CONTROLLER_LISTENER, received)
        return decode(response, 0, encode_bytes(answer, 0))[0]


def forwarding_broker(
    channel: DirectChannel, is_active: Callable[[], bool] = lambda: False
) -> BrokerContext:
    """A broker in another process than the active controller."""

    class Standby:
        @property
        def is_active(self) -> bool:
            return is_active()

    member = Member(_NO_QUORUM, None, cast("ControllerChannel", channel))
    return cast(
        "BrokerContext",
        SimpleNamespace(controller=Standby(), config=_CONFIG, member=member, authorizer=None),
    )

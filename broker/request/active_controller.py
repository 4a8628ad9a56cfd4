"""Where the changes of a request are decided: here, or by the active controller elsewhere."""

from typing import TYPE_CHECKING

from ...clients.protocol.api import ListenerKind
from .context import BrokerContext, Member, NodeContext, RequestContext

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...clients.protocol.messages.create_topics import (
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from ...clients.protocol.schema import Message
    from ..cluster.forwarder import ForwardedClient

_CREATE_TOPICS_VERSION = 7


def is_decided_here(node: NodeContext, context: RequestContext) -> bool:
    """Whether this process decides: as the active controller, or as one that was addressed as such.

    A controller that is not active refuses what reaches its own listener (NOT_CONTROLLER).
    """
    return (
        node.member is None
        or node.controller.is_active
        or context.listener_kind is ListenerKind.CONTROLLER
    )


def member_of(node: NodeContext) -> Member:
    """What this process has as one of several in its cluster."""
    assert node.member is not None, "Only a member's requests are decided elsewhere."
    return node.member


def client_of(context: RequestContext) -> "ForwardedClient":
    """The client of a request, as the active controller hears of it."""
    from ..cluster.forwarder import ForwardedClient

    return ForwardedClient(context.client_id, context.principal, context.client_host)


async def create_topics_for(
    broker: BrokerContext, context: RequestContext, creation: "CreateTopicsRequest"
) -> "CreateTopicsResponse":
    """Create topics that a client's request needs (`AutoTopicCreationManager`).

    If another process decides, this broker may hear of the topics only later: the client gets a
    retriable error until then.
    """
    if is_decided_here(broker, context):
        return await broker.controller.create_topics(creation, context.charge_partitions)
    from ..cluster.forwarder import forward

    channel, client = member_of(broker).channel, client_of(context)
    return await _created_topics(
        creation, forward(channel, creation, _CREATE_TOPICS_VERSION, client)
    )


async def create_internal_topics(
    broker: BrokerContext, context: RequestContext, creation: "CreateTopicsRequest"
) -> "CreateTopicsResponse":
    """Create topics that this broker itself needs to serve a client, who need not be allowed to.

    So an active controller that checks gets the request of this broker, not that of the client.
    """
    if broker.authorizer is None or is_decided_here(broker, context):
        return await create_topics_for(broker, context, creation)
    from ...clients.protocol.messages.create_topics import CreateTopicsResponse
    from ..cluster.forwarder import FORWARDING_TIMEOUT_MS

    channel = member_of(broker).channel
    return await _created_topics(
        creation, channel.request(creation, CreateTopicsResponse, FORWARDING_TIMEOUT_MS)
    )


async def _created_topics(
    creation: "CreateTopicsRequest", answer: "Awaitable[Message]"
) -> "CreateTopicsResponse":
    from ...clients.errors import KafkaError
    from ...clients.protocol.messages.create_topics import CreateTopicsResponse
    from ...replication.control.topics.topic_control import refused_creation

    try:
        response = await answer
    except KafkaError as error:
        return refused_creation(creation, error)
    assert isinstance(response, CreateTopicsResponse), "It was decoded as the answer to this."
    return response

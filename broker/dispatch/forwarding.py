"""Forwards what administrators ask of a broker to the active controller (KIP-590).

    client -> broker: CreateTopics v7
    broker -> active controller: Envelope(CreateTopics v7, principal, address)
    active controller -> broker: Envelope(response v7) -> client

A broker whose own process is the active controller decides itself. If it loses the lead before it
has decided, the request is forwarded after all, so that clients never get NOT_CONTROLLER.

Changes of configurations are not here: a broker checks and keeps a part of them itself
(`config_changes.py`).
"""

import logging
from collections.abc import Awaitable
from typing import cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.api import ApiKey
from ...clients.protocol.schema import Message
from ...security.refusals import refusal_response
from ..cluster.forwarder import forward
from ..cluster.response_errors import error_codes
from ..request.active_controller import client_of, is_decided_here, member_of
from ..request.context import BrokerContext, RequestContext
from .handler import Handler, HandlerResult

_log = logging.getLogger(__name__)

FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What a broker's handlers leave to the active controller, whole requests at a time."""


def forwarding(handle: Handler) -> Handler:
    """The handler of an API in `FORWARDABLE`, in a process that may not be the active controller.

    Only for listeners of brokers: a controller refuses what it may not decide.
    """

    def forwarded(
        broker: BrokerContext, context: RequestContext, request: Message
    ) -> HandlerResult:
        if not is_decided_here(broker, context):
            return _forward(broker, context, request)
        result = handle(broker, context, request)
        if isinstance(result, Awaitable):
            return _here_or_there(broker, context, request, cast("Awaitable[Message]", result))
        return result

    return forwarded


async def _here_or_there(
    broker: BrokerContext, context: RequestContext, request: Message, work: Awaitable[Message]
) -> Message:
    response = await work
    if is_decided_here(broker, context) or ErrorCode.NOT_CONTROLLER not in error_codes(response):
        return response
    return await _forward(broker, context, request)


async def _forward(broker: BrokerContext, context: RequestContext, request: Message) -> Message:
    """The active controller's response, or the error in the form of the API.

    Raises KafkaError(UNSUPPORTED_VERSION) if the controller cannot read the request.
    """
    channel = member_of(broker).channel
    try:
        return await forward(channel, request, context.api_version, client_of(context))
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise
        _log.info("Could not forward a request to the active controller: %s", error)
        return refusal_response(request, error, context.api_version)

"""Envelope (key 58), version 0: a client's request, forwarded by its broker (KIP-590).

The request is executed as that of the client, with its principal and its address. As in Kafka's
`EnvelopeUtils`, the checks are, in this order: the principal (97), the address (42), the header
(35), whether the API is forwardable (42), the body (35). An error of the envelope has no response
in it; the broker then closes the client's connection (35), sends the request again (41), or answers
UNKNOWN_SERVER_ERROR.

A response that says NOT_CONTROLLER of any item becomes an error of the envelope, so that the broker
looks for the active controller and sends the request again.
"""

import asyncio
from collections.abc import Coroutine, Generator
from importlib import import_module
from math import ceil
from typing import NamedTuple, cast

from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.api import APIS, CONTROLLER_ONLY, Api, ApiKey, request_class
from ....clients.protocol.codec import decoder_of, encode_in_steps
from ....clients.protocol.header import (
    RequestHeader,
    decode_request_header,
    response_header,
)
from ....clients.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ....clients.protocol.schema import Message
from ...cluster.principal_data import decode_address, decode_principal
from ...cluster.response_errors import error_codes
from ...request.context import Deferred, NodeContext, RequestContext
from ...request.large_requests import run_slice

FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What may stand in an envelope (`ApiKeys.forwardable`)."""

ELEMENTS_MAX = 20_000
"""The most elements in the arrays of a forwarded request, as on a broker's own listener."""


class _Forwarded(NamedTuple):
    """A client's request, taken out of its envelope."""

    api: Api
    header: RequestHeader
    context: RequestContext
    request: Message


async def handle(
    node: NodeContext, context: RequestContext, request: EnvelopeRequest
) -> EnvelopeResponse:
    """Execute the client's request if this is the active controller."""
    try:
        forwarded = _unwrap(node, context, request)
        if not node.controller.is_active:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        response = await _charge(node, forwarded)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    if _is_not_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    header = forwarded.header
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    max_bytes = node.config.values.integer("tierlog.response.max.bytes")
    chunks = await _in_slices(encode_in_steps(response, header.api_version, max_bytes))
    return EnvelopeResponse(response_data=b"".join([head, *cast("list[bytes]", chunks)]))


def _unwrap(node: NodeContext, context: RequestContext, envelope: EnvelopeRequest) -> _Forwarded:
    """The request in an envelope. Raises KafkaError, see the top of this file."""
    principal = decode_principal(envelope.request_principal)
    host = decode_address(envelope.client_host_address)
    view = memoryview(envelope.request_data)
    try:
        header, position = decode_request_header(view, APIS)
    except KafkaError as error:
        raise _unreadable() from error
    api = APIS[header.api_key]
    if api.key not in FORWARDABLE:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"API {api.name} is not enabled or is not eligible for forwarding",
        )
    limit = min(node.config.values.integer("tierlog.request.elements.max"), ELEMENTS_MAX)
    try:
        decode = decoder_of(request_class(api.key), header.api_version)
        request, _ = decode(view, position, limit)
    except KafkaError as error:
        raise _unreadable() from error
    inner = context._replace(
        api_key=header.api_key,
        api_version=header.api_version,
        client_id=header.client_id,
        client_host=host,
        principal=principal,
    )
    return _Forwarded(api, header, inner, request)


def _unreadable() -> KafkaError:
    # Not INVALID_REQUEST: that is for the envelope itself.
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Failed to parse the request in the envelope")


async def _charge(node: NodeContext, forwarded: _Forwarded) -> Message:
    """The response, with the time for which the client's broker should throttle the client."""
    context = forwarded.context
    charge = None if context.charge_forwarded is None else context.charge_forwarded(context)
    if charge is None:
        return await _execute(node, forwarded)
    charged = context._replace(charge_partitions=charge.charge)
    response = await _execute(node, forwarded._replace(context=charged))
    wait_ms = ceil(charge.wait_s(asyncio.get_running_loop().time()) * 1000)
    if wait_ms and hasattr(response, "throttle_time_ms"):
        # All of the APIs that change partitions have the field, but no common class.
        setattr(response, "throttle_time_ms", wait_ms)  # noqa: B010 (see above)
    return response


async def _execute(node: NodeContext, forwarded: _Forwarded) -> Message:
    name = forwarded.api.key.name.lower()
    package = __package__ if forwarded.api.listeners == CONTROLLER_ONLY else _HANDLERS
    context = forwarded.context
    handle = import_module(f".{name}", package).handle
    if node.identifies_clients:
        from ...request.recorded_acts import with_audit

        handle = with_audit(forwarded.api.key, handle)
    if node.authorizer is not None:
        from ....security.api_checks import with_check

        handle = with_check(forwarded.api.key, context.listener_kind, handle)
    result = handle(node, context, forwarded.request)
    if isinstance(result, Generator):
        result = await _in_slices(cast("Generator[None, None, object]", result))
    if isinstance(result, Deferred):
        deferred = cast("Deferred[object]", result)
        result = deferred.then(await deferred.work)
    elif isinstance(result, Coroutine):
        result = await cast("Coroutine[object, object, object]", result)
    return cast("Message", result)


_HANDLERS = __name__.rsplit(".", 2)[0]


def _is_not_controller(response: Message) -> bool:
    return ErrorCode.NOT_CONTROLLER in error_codes(response)


async def _in_slices(work: Generator[None, None, object]) -> object:
    """The result of work in steps; other requests get their turn between slices."""
    while (done := run_slice(work)) is None:  # noqa: ASYNC110 (it lets others run)
        await asyncio.sleep(0)
    return done.value

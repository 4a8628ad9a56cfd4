"""JoinGroup (key 11), versions 0-9: a member joins a classic group, or rejoins it in a rebalance.

The response is sent when the generation begins.

v0: no rebalance timeout; the session timeout is used instead
v2: throttle time
v4: a member without an id gets MEMBER_ID_REQUIRED and an id, and must rejoin with it (KIP-394)
v5: static members (KIP-345)
v6: flexible
v7: protocol type in the response
v9: a returning static leader need not assign the partitions again (KIP-814)
"""

from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ...coordinator.group_actions import GroupProtocol, JoinRequest, JoinResult
from ...security.access import GROUP, READ, denies
from ..request.context import BrokerContext, Deferred, RequestContext

_NO_TIMEOUT = -1
_NO_GENERATION = -1
_FIRST_WITH_KNOWN_MEMBER_ID = 4
_FIRST_WITH_NULL_PROTOCOL_NAME = 7
_FIRST_SKIPPING_ASSIGNMENT = 9


def handle(
    broker: BrokerContext, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Deferred[JoinResult]:
    if denies(broker, context, READ, GROUP, request.group_id):
        return JoinGroupResponse(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            generation_id=_NO_GENERATION,
            protocol_name=None if context.api_version >= _FIRST_WITH_NULL_PROTOCOL_NAME else "",
        )
    coordinator = broker.group_coordinator
    client_id = context.client_id or ""
    session_timeout_ms = request.session_timeout_ms
    timeout_ms = request.rebalance_timeout_ms
    instance_id = request.group_instance_id
    join = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=client_id,
        # Kafka writes Java's InetAddress, which prints as "name/address" and mostly has no name.
        client_host=f"/{context.client_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms if timeout_ms == _NO_TIMEOUT else timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(GroupProtocol(entry.name, entry.metadata) for entry in request.protocols),
        new_member_id=coordinator.new_member_id(client_id if instance_id is None else instance_id),
        requires_known_member_id=context.api_version >= _FIRST_WITH_KNOWN_MEMBER_ID,
        supports_skipping_assignment=context.api_version >= _FIRST_SKIPPING_ASSIGNMENT,
    )
    answer = coordinator.join_group(join)
    if isinstance(answer, JoinResult):
        return _response(answer, context.api_version)
    return Deferred(answer, partial(_response, version=context.api_version))


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < _FIRST_WITH_NULL_PROTOCOL_NAME:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        # True only if requested, and so only in versions that have this field.
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )

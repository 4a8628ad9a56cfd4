"""SyncGroup (key 14), versions 0-5: distributes the leader's assignment to the members.

The response is sent once the leader's assignment is in the log.

v1: throttle time
v3: group instance id (KIP-345)
v4: flexible
v5: protocol type and name, which must match the group (KIP-559)
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...coordinator.group_actions import SyncRequest, SyncResult
from ...security.access import GROUP, READ, denies
from ..request.context import BrokerContext, Deferred, RequestContext

_FIRST_WITH_PROTOCOL = 5


def handle(
    broker: BrokerContext, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred[SyncResult]:
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _FIRST_WITH_PROTOCOL and not says_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if denies(broker, context, READ, GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    sync = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={entry.member_id: entry.assignment for entry in request.assignments},
    )
    answer = broker.group_coordinator.sync_group(sync)
    return _response(answer) if isinstance(answer, SyncResult) else Deferred(answer, _response)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )

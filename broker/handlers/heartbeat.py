"""Heartbeat (key 12), versions 0-4: keeps a member of a classic group alive.

The response is immediate: NONE, REBALANCE_IN_PROGRESS if the member must rejoin, or the reason why
the sender is not a member of this generation.

v1: throttle time
v3: group instance id (KIP-345)
v4: flexible
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...coordinator.group_actions import MemberIdentity
from ...security.access import GROUP, READ, denies
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    if denies(broker, context, READ, GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    identity = MemberIdentity(request.member_id, request.group_instance_id)
    error = broker.group_coordinator.heartbeat(request.group_id, identity, request.generation_id)
    return HeartbeatResponse(error_code=error)

"""Heartbeat (key 12): a member of a classic group says that it is alive.

Versions 0-4. Answered at once: NONE, REBALANCE_IN_PROGRESS to call the member to rejoin, or why it
is not a member of this generation. v3 carries the instance id (KIP-345).
"""

from ...clients.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..coordinator.group_actions import MemberIdentity
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    identity = MemberIdentity(request.member_id, request.group_instance_id)
    error = broker.group_coordinator.heartbeat(request.group_id, identity, request.generation_id)
    return HeartbeatResponse(error_code=error)

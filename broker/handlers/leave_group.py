"""LeaveGroup (key 13), versions 0-5: members leave a classic or a consumer group.

For a classic group, the response does not wait for the rebalance; for a consumer group, it is sent
once the change is in the log.

v0-v2: one member, whose error is top-level
v1: throttle time
v3: several members, each with an error; static members by instance id alone (KIP-345)
v4: flexible
"""

import asyncio
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from ...coordinator.group_actions import Left, MemberIdentity
from ...security.access import GROUP, READ, denies
from ..request.context import BrokerContext, Deferred, RequestContext

_FIRST_WITH_SEVERAL = 3


def handle(
    broker: BrokerContext, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Deferred[Left]:
    if denies(broker, context, READ, GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    several = context.api_version >= _FIRST_WITH_SEVERAL
    members = [
        MemberIdentity(member.member_id, member.group_instance_id) for member in request.members
    ]
    if not several:
        members = [MemberIdentity(request.member_id, None)]
    answer = broker.group_coordinator.leave_group(request.group_id, members)
    if isinstance(answer, asyncio.Future):
        return Deferred(answer, partial(_response, several, members))
    return _response(several, members, answer)


def _response(several: bool, members: list[MemberIdentity], answer: Left) -> LeaveGroupResponse:
    error, errors = answer
    if not several:
        return LeaveGroupResponse(error_code=error or errors[0])
    return LeaveGroupResponse(
        error_code=error,
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member_error,
            )
            for member, member_error in zip(members, errors, strict=False)
        ],
    )

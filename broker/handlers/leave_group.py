"""LeaveGroup (key 13): members leave a classic group.

Versions 0-5. Until v2 one member, whose error is the answer's; from v3 several, each with its own
error, and static members may be named by their instance id alone (KIP-345). The rebalance that
follows is not waited for. A group of the consumer protocol answers when the log has it.
"""

import asyncio
from functools import partial

from ...clients.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from ..coordinator.group_actions import Left, MemberIdentity
from ..request.context import BrokerContext, Deferred, RequestContext

_FIRST_WITH_SEVERAL = 3


def handle(
    broker: BrokerContext, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Deferred[Left]:
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

"""DeleteGroups (key 42), versions 0-2: deletes empty groups and their committed offsets.

The response is sent once the deletions are in the log. Groups that cannot be deleted get
GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP. A group named twice is deleted, and returned, once. Groups
that the client may not delete come last.

v2: flexible
"""

import asyncio
from collections.abc import Coroutine, Sequence

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ...coordinator.result_or_future import ResultOrFuture
from ...security.access import DELETE, GROUP, access_of
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Coroutine[object, object, DeleteGroupsResponse]:
    """Delete the groups."""
    group_ids = list(dict.fromkeys(request.groups_names))
    access = access_of(broker, context)
    denied: list[str] = []
    if access is not None:
        allowed = access.allowed(DELETE, GROUP, group_ids)
        denied = [each for each in group_ids if each not in allowed]
        group_ids = [each for each in group_ids if each in allowed]
    answers = [broker.group_coordinator.delete_group(group_id) for group_id in group_ids]
    settled = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
    if len(settled) == len(answers):
        return _response(group_ids, settled, denied)
    return _later(group_ids, answers, denied)


async def _later(
    group_ids: Sequence[str],
    answers: Sequence[ResultOrFuture[ErrorCode]],
    denied: Sequence[str],
) -> DeleteGroupsResponse:
    errors = [await answer if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return _response(group_ids, errors, denied)


def _response(
    group_ids: Sequence[str], errors: Sequence[ErrorCode], denied: Sequence[str]
) -> DeleteGroupsResponse:
    results = [*zip(group_ids, errors, strict=True)]
    results += [(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in denied]
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results
        ]
    )

"""DeleteAcls (key 31), versions 1-3: deletes access control entries. The controller decides.

v2: flexible
v3: the resource type USER (KIP-373)

Without an authorizer each filter is refused, as in Kafka.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...replication.authorizer.acl import Acl
from ...replication.control.access.acl_control import Deletion
from ..request.acl_filter import acl_filter
from ..request.authorized_operations import NO_AUTHORIZER
from ..request.context import NodeContext, RequestContext
from ..request.lazy_list import lazy_list


async def handle(
    node: NodeContext, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Delete what the filters match; each filter has its own result."""
    filters = [acl_filter(each) for each in request.filters]
    if node.authorizer is None:
        refused = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    deletions = await node.controller.delete_acls(filters)
    return DeleteAclsResponse(filter_results=[_result(deletion) for deletion in deletions])


def _result(deletion: Deletion) -> DeleteAclsFilterResult:
    if deletion.error is not None:
        return DeleteAclsFilterResult(
            error_code=deletion.error.code, error_message=deletion.error.message
        )
    return DeleteAclsFilterResult(
        error_message=None, matching_acls=lazy_list(_match, deletion.deleted)
    )


def _match(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )

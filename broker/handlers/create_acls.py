"""CreateAcls (key 30), versions 1-3: new access control entries. The controller decides.

v2: flexible
v3: the resource type USER (KIP-373)

Without an authorizer each entry is refused, as in Kafka.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ...replication.authorizer.acl import Acl
from ..request.acl_filter import acl_elements
from ..request.authorized_operations import NO_AUTHORIZER
from ..request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Create the valid entries; each has its own result."""
    acls = [_acl(creation) for creation in request.creations]
    if node.authorizer is None:
        refused = AclCreationResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return CreateAclsResponse(results=[refused] * len(request.creations))
    return CreateAclsResponse(
        results=[
            AclCreationResult()
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in await node.controller.create_acls(acls)
        ]
    )


def _acl(creation: AclCreation) -> Acl:
    """The entry. Raises KafkaError for the number of UNKNOWN, which Kafka does not read."""
    kind, pattern, operation, permission = acl_elements(
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
        "a new access control entry contains unknown elements",
    )
    return Acl(
        kind,
        creation.resource_name,
        pattern,
        creation.principal,
        creation.host,
        operation,
        permission,
    )

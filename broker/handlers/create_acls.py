"""CreateAcls (key 30), versions 1-3: refused, as in Kafka without an authorizer.

v2: flexible
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ..request.authorized_operations import NO_AUTHORIZER
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Refuse each entry."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))

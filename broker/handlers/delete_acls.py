"""DeleteAcls (key 31), versions 1-3: refused, as in Kafka without an authorizer.

v2: flexible
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..request.authorized_operations import NO_AUTHORIZER
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Refuse each filter."""
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))

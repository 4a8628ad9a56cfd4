"""DescribeAcls (key 29), versions 1-3: refused, as in Kafka without an authorizer.

v2: flexible
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..request.context import BrokerContext, RequestContext

_SENTENCE = "No Authorizer is configured on the broker"


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Refuse: without an authorizer there are no entries."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_SENTENCE)

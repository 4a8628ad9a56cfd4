"""DescribeAcls (key 29), versions 1-3: answered as Kafka does without an authorizer."""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..request.context import BrokerContext, RequestContext

_SENTENCE = "No Authorizer is configured on the broker"


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """There are no entries without an authorizer."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_SENTENCE)

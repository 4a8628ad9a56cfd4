"""DescribeAcls (key 29), versions 1-3: the access control entries that a filter matches.

v2: flexible
v3: the resource type USER (KIP-373)

Without an authorizer it is refused, as in Kafka. A broker answers from the metadata that it has.
"""

from collections.abc import Sequence
from itertools import groupby

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ...replication.authorizer.acl import Acl, matching
from ..request.acl_filter import acl_filter
from ..request.context import NodeContext, RequestContext
from ..request.lazy_list import lazy_list

_MESSAGE = "No Authorizer is configured on the broker"


def handle(
    node: NodeContext, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Return the entries, grouped by resource pattern."""
    sought = acl_filter(request)
    if node.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)
    acls = matching(node.controller.image.acls.values(), sought)
    groups = [list(group) for _, group in groupby(acls, key=lambda acl: acl[:3])]
    return DescribeAclsResponse(resources=lazy_list(_resource, groups))


def _resource(acls: Sequence[Acl]) -> DescribeAclsResource:
    kind, name, pattern = acls[0][:3]
    return DescribeAclsResource(
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        acls=lazy_list(_description, acls),
    )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )

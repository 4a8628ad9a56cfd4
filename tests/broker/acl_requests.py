"""Requests that create, list and delete access control entries, and what a broker answers."""

from tierlog.clients.errors import ErrorCode
from tierlog.tests import wire

from ..broker_process import RawClient

TOPIC, GROUP, ANY, ALL = 2, 3, 1, 2
READ, WRITE = 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3

Line = tuple[int, str, int, str, str, int, int]


def creation(
    name: str,
    operation: int = READ,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    kind: int = TOPIC,
    principal: str = "User:alice",
) -> wire.AclCreation:
    return wire.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


def create(
    client: RawClient, *creations: wire.AclCreation, version: int = 3
) -> list[tuple[int, str | None]]:
    request = wire.CreateAclsRequest(creations=list(creations))
    results = client.ask(request, version, wire.CreateAclsResponse).results
    return [(each.error_code, each.error_message) for each in results]


def sought(**changed: int | str) -> wire.DescribeAclsRequest:
    """A request for all entries, but for what is changed."""
    request = wire.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    for field, value in changed.items():
        setattr(request, field, value)
    return request


def describe(client: RawClient, version: int = 3, **changed: int | str) -> list[Line]:
    answer = client.ask(sought(**changed), version, wire.DescribeAclsResponse)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return [
        (
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def everything() -> wire.DeleteAclsFilter:
    return wire.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def delete(client: RawClient, *filters: wire.DeleteAclsFilter, version: int = 3) -> list[list[str]]:
    request = wire.DeleteAclsRequest(filters=list(filters))
    results = client.ask(request, version, wire.DeleteAclsResponse).filter_results
    assert {each.error_code for each in results} == {ErrorCode.NONE}
    return [[acl.resource_name for acl in each.matching_acls] for each in results]

"""DescribeUserScramCredentials (key 50), version 0: mechanisms and iterations, never a key.

A listener of controllers announces it, and answers UNKNOWN_SERVER_ERROR: Kafka's `ControllerApis`
has no handler of it.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.api import ListenerKind
from ...clients.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ...replication.control.access.scram_control import describe_scram_credentials
from ..request.context import NodeContext, RequestContext


def handle(
    node: NodeContext, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the users, or all of them."""
    if context.listener_kind is ListenerKind.CONTROLLER:
        nothing = DescribeUserScramCredentialsResult(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None
        )
        return DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
            error_message=None,
            results=[nothing] * len(request.users or ()),
        )
    names = None if request.users is None else [user.name for user in request.users]
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=user.name,
                error_code=ErrorCode.NONE if user.error is None else user.error.code,
                error_message="" if user.error is None else user.error.message,
                credential_infos=[
                    CredentialInfo(mechanism=mechanism, iterations=iterations)
                    for mechanism, iterations in user.iterations
                ],
            )
            for user in describe_scram_credentials(node.controller.image, names)
        ]
    )

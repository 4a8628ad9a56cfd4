"""AlterUserScramCredentials (key 51), version 0: sets and removes users' SCRAM credentials.

The controller decides. The request holds salted passwords, which go no further than the decision.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ..request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Make the valid changes; each user has its own result."""
    results = await node.controller.alter_scram_credentials(request)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message or None,
            )
            for name, error in results
        ]
    )

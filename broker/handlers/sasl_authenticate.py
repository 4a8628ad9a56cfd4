"""SaslAuthenticate (key 36), versions 0-2: too late for a connection that is served already.

See `sasl_handshake.py`.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ..request.context import NodeContext, RequestContext


def handle(
    node: NodeContext, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse it."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )

"""SaslHandshake (key 17), versions 0-1: too late for a connection that is served already.

A listener with SASL reads it before a client is authenticated, and when a session is to be proven
again (`security/sasl/`). What gets here is refused, and the connection stays open, as in Kafka.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ..request.context import NodeContext, RequestContext


def handle(
    node: NodeContext, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Refuse it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

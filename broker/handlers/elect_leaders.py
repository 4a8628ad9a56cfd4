"""ElectLeaders (key 43), versions 0-2: elects leaders on request (KIP-183, KIP-460).

v0: preferred leaders only
v1: unclean elections; top-level error
v2: flexible
"""

from ...clients.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Pass the request to the controller; it responds once the records are committed."""
    answer = await broker.controller.elect_leaders(request)
    if context.api_version == 0:
        # Version 0 has no top-level error.
        answer.error_code = 0
    return answer

"""ElectLeaders (key 43), versions 0-2: elections on request (KIP-183, KIP-460).

0 knows only the preferred leader; 1 brought unclean elections and the top-level error; 2 is
flexible.
"""

from ...clients.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Pass it to the controller; the response follows once the records are committed."""
    answer = await broker.controller.elect_leaders(request)
    if context.api_version == 0:
        # Version 0 says it partition by partition only.
        answer.error_code = 0
    return answer

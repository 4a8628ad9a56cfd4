"""DescribeClientQuotas (key 48), versions 0-1: the client quotas that are set (KIP-546).

v1: flexible; nothing else changed
"""

from ...clients.errors import KafkaError
from ...clients.protocol.messages.alter_client_quotas import EntityData
from ...clients.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from ...replication.control.configs.client_quotas import QuotaFilter, find_client_quotas
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the entities that match the filters."""
    filters = [
        QuotaFilter(component.entity_type, component.match_type, component.match)
        for component in request.components
    ]
    try:
        matches = find_client_quotas(broker.controller.image, filters, request.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in matches
        ],
    )

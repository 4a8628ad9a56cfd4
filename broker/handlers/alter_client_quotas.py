"""AlterClientQuotas (key 49), versions 0-1: sets and removes client quotas. The controller decides.

v1: flexible; nothing else changed
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntityData,
)
from ...replication.control.configs.client_quotas import QuotaAlteration
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Make the valid changes; each entity has its own result."""
    alterations = [
        QuotaAlteration(
            [(entity.entity_type, entity.entity_name) for entity in entry.entity],
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    results = await broker.controller.alter_client_quotas(alterations, request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryData(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                entity=_once(entry.entity),
            )
            for entry, error in zip(request.entries, results, strict=True)
        ]
    )


def _once(entity: list[EntityData]) -> list[EntityData]:
    """Each entity type once, sorted; if a type has several names, the last one counts."""
    named = {each.entity_type: each for each in entity}
    return [named[kind] for kind in sorted(named)]

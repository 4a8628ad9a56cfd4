"""DescribeClientQuotas (key 48): the quotas that are set, filtered by entity (KIP-546).

Versions: 1 flexible.
"""

from ..schema import Message, Struct, field, float64, int8, int16, int32
from .alter_client_quotas import EntityData


class ComponentData(Struct):
    """A condition on one entity type: 0 this name, 1 the default, 2 any name."""

    entity_type: str = field("0+")
    match_type: int8 = field("0+")
    match: str | None = field("0+", nullable="0+")


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    """The conditions; `strict` excludes entities that have other types as well."""

    components: list[ComponentData] = field("0+")
    strict: bool = field("0+")


class ValueData(Struct):
    """One quota."""

    key: str = field("0+")
    value: float64 = field("0+")


class EntryData(Struct):
    """An entity and its quotas."""

    entity: list[EntityData] = field("0+")
    values: list[ValueData] = field("0+")


class DescribeClientQuotasResponse(Message, key=48, versions="0-1", flexible="1+"):
    """The matching entities; null with an error."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entries: list[EntryData] | None = field("0+", nullable="0+")

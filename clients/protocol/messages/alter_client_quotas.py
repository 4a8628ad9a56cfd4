"""AlterClientQuotas (key 49): sets and removes quotas of entities (KIP-546).

Versions: 1 flexible.
"""

from ..schema import Message, Struct, field, float64, int16, int32


class EntityData(Struct):
    """One part of an entity; without a name, the default of its type."""

    entity_type: str = field("0+")
    entity_name: str | None = field("0+", nullable="0+")


class OpData(Struct):
    """One quota to set or remove."""

    key: str = field("0+")
    value: float64 = field("0+")
    remove: bool = field("0+")


class EntryData(Struct):
    """An entity and its quota changes."""

    entity: list[EntityData] = field("0+")
    ops: list[OpData] = field("0+")


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    """The entities with their changes."""

    entries: list[EntryData] = field("0+")
    validate_only: bool = field("0+")


class AlteredEntryData(Struct):
    """The result for one entity."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entity: list[EntityData] = field("0+")


# Kafka uses the same name for the entries of request and response.
AlteredEntryData.__name__ = "EntryData"


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    """The result for each entity."""

    throttle_time_ms: int32 = field("0+")
    entries: list[AlteredEntryData] = field("0+")

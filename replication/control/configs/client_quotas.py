"""Checks, sets and finds client quotas (KIP-257, KIP-546, KIP-612).

An entity is a user, a client id, both, or an address; a part without a name is the default of its
type. Each entity's quotas are numbers by key (`ClientQuotaControlManager`, `QuotaConfig`).
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.schema import Message
from ...metadata.cluster_image import ClusterImage, QuotaEntity
from ...metadata.metadata_records import ClientQuotaRecord, QuotaEntityData
from ..controller_config import Decision

USER, CLIENT_ID, IP = "user", "client-id", "ip"

_INT64_MAX = 2**63 - 1
_WHOLE, _FRACTIONAL = True, False
_USER_KEYS: Mapping[str, bool] = {
    "producer_byte_rate": _WHOLE,
    "consumer_byte_rate": _WHOLE,
    "request_percentage": _FRACTIONAL,
    "controller_mutation_rate": _FRACTIONAL,
}
_IP_KEYS: Mapping[str, bool] = {"connection_creation_rate": _WHOLE}


class QuotaAlteration(NamedTuple):
    """An entity, and the new value of each key; None removes it."""

    entity: Sequence[tuple[str, str | None]]
    values: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration], validate_only: bool
) -> Decision[Sequence[KafkaError | None]]:
    """Decide on each entity separately; the answer is an error or None for each, in order."""
    records: list[Message] = []
    results: list[KafkaError | None] = []
    for alteration in alterations:
        try:
            records += _decide(image, alteration)
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    return Decision([] if validate_only else records, results)


def _decide(image: ClusterImage, alteration: QuotaAlteration) -> list[Message]:
    named = dict(alteration.entity)
    keys = _keys_of(named)
    changed = [key for key, _ in alteration.values]
    if len(set(changed)) < len(changed):
        shown = ", ".join(f"{kind}={name}" for kind, name in sorted(named.items()))
        raise _refusal(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
    entity: QuotaEntity = tuple(sorted(named.items()))
    before = image.client_quotas.get(entity, {})
    data = [QuotaEntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    records: list[Message] = []
    for key, value in alteration.values:
        if value is None:
            if key in before:
                records.append(ClientQuotaRecord(entity=data, key=key, remove=True))
            continue
        _check_value(keys, key, value)
        if before.get(key) != value:
            records.append(ClientQuotaRecord(entity=data, key=key, value=value))
    return records


def _keys_of(entity: Mapping[str, str | None]) -> Mapping[str, bool]:
    """The keys that an entity may have. Raises KafkaError for an invalid entity."""
    if not entity:
        raise _refusal("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _refusal(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refusal(f"Empty {kind} not supported")
    if IP not in entity:
        return _USER_KEYS
    if len(entity) > 1:
        raise _refusal(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    address = entity[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _refusal(f"{address} is not a valid IP or resolvable host.") from None
    return _IP_KEYS


def _check_value(keys: Mapping[str, bool], key: str, value: float) -> None:
    if key not in keys:
        raise _refusal(f"Invalid configuration key {key}")
    if not value > 0:
        raise _refusal(f"Quota {key} must be greater than 0")
    if keys[key] is _WHOLE:
        if value > _INT64_MAX:
            raise _refusal(f"Proposed value for {key} is too large for a LONG.")
        if value != int(value):
            raise _refusal(f"{key} cannot be a fractional value.")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


class QuotaFilter(NamedTuple):
    """A condition on one entity type; `match` is 0 for this name, 1 for the default, 2 for any."""

    entity_type: str
    match: int
    name: str | None


def find_client_quotas(
    image: ClusterImage, filters: Sequence[QuotaFilter], strict: bool
) -> Iterable[tuple[QuotaEntity, Mapping[str, float]]]:
    """The entities that match every condition; if `strict`, only those with no other types.

    Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    conditions: dict[str, QuotaFilter] = {}
    for quota_filter in filters:
        _check_filter(quota_filter, conditions)
        conditions[quota_filter.entity_type] = quota_filter
    if IP in conditions and len(conditions) > 1:
        raise _refusal(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return [
        (entity, values)
        for entity, values in image.client_quotas.items()
        if _meets(dict(entity), conditions, strict)
    ]


def _check_filter(each: QuotaFilter, conditions: Mapping[str, QuotaFilter]) -> None:
    kind = each.entity_type
    if kind in conditions:
        raise _refusal(f"Entity type {kind} cannot appear more than once in the filter.")
    if not kind:
        raise _refusal("Invalid empty entity type.")
    if kind not in (USER, CLIENT_ID, IP):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if each.match == 0 and each.name is None:
        raise _refusal("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if each.match in (1, 2) and each.name is not None:
        what = "DEFAULT" if each.match == 1 else "SPECIFIED"
        raise _refusal(f"Request specified MATCH_TYPE_{what}, but also specified a match string.")
    if each.match not in (0, 1, 2):
        raise _refusal(f"Unknown match type {each.match}")


def _meets(
    entity: Mapping[str, str | None], conditions: Mapping[str, QuotaFilter], strict: bool
) -> bool:
    if strict and len(entity) > len(conditions):
        return False
    for kind, (_, match, name) in conditions.items():
        if kind not in entity or (match == 0 and entity[kind] != name):
            return False
        if match == 1 and entity[kind] is not None:
            return False
    return True

"""Administrative acts as the audit shows them: which requests are, and what each one names.

A request is shown by the fields in `_SHOWN` and no others: a value of a configuration or a salted
password is in none of its lines, and a field that is new to the protocol neither. Lists are cut
after `ITEMS_MAX` elements.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from ..clients.errors import ErrorCode
from ..clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from ..clients.protocol.api import ApiKey
from ..clients.protocol.schema import Struct
from ..clients.sasl.scram_keys import SCRAM_BY_CODE
from ..replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ..replication.metadata.cluster_image import ConfigResourceType
from .audit import escape

ITEMS_MAX = 10
"""The most elements of one list that a line shows; the others are counted."""

LINE_MAX = 2_000
"""The most characters of what is shown of a request."""

_Text = Callable[[int], str]


def _number(value: int) -> str:
    return str(value)


def _name_in(names: Mapping[int, str]) -> _Text:
    return lambda value: names.get(value, str(value))


def _fields(*names: str) -> dict[str, _Text]:
    return dict.fromkeys(names, _number)


_ACL = _fields(
    *("principal", "principal_filter", "host", "host_filter"),
    *("resource_name", "resource_name_filter"),
) | {
    field: _name_in({each.value: each.name for each in names})
    for field, names in (
        ("resource_type", ResourceType),
        ("resource_type_filter", ResourceType),
        ("resource_pattern_type", PatternType),
        ("pattern_type_filter", PatternType),
        ("operation", AclOperation),
        ("permission_type", AclPermission),
    )
}
_CONFIG = _fields("resources", "resource_name", "configs", "name", "config_operation") | {
    "resource_type": _name_in(
        {resource_type.value: resource_type.name for resource_type in ConfigResourceType}
    )
}
_PARTITIONS = _fields("topics", "name", "partitions", "partition_index")

_SHOWN: Mapping[int, Mapping[str, _Text]] = {
    ApiKey.CREATE_TOPICS: _fields(
        *("topics", "name", "num_partitions", "replication_factor", "configs")
    ),
    ApiKey.DELETE_TOPICS: _fields("topics", "name", "topic_id", "topic_names"),
    ApiKey.DELETE_RECORDS: _PARTITIONS | _fields("offset"),
    ApiKey.CREATE_ACLS: _ACL | _fields("creations"),
    ApiKey.DELETE_ACLS: _ACL | _fields("filters"),
    ApiKey.ALTER_CONFIGS: _CONFIG,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _PARTITIONS | _fields("dirs", "path"),
    ApiKey.CREATE_PARTITIONS: _fields("topics", "name", "count"),
    ApiKey.DELETE_GROUPS: _fields("groups_names"),
    ApiKey.ELECT_LEADERS: _fields("election_type", "topic_partitions", "topic", "partitions"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIG,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _PARTITIONS | _fields("replicas"),
    ApiKey.OFFSET_DELETE: _PARTITIONS | _fields("group_id"),
    ApiKey.ALTER_CLIENT_QUOTAS: _fields(
        *("entries", "entity", "entity_type", "entity_name", "ops", "key", "value", "remove")
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _fields("deletions", "upsertions", "name", "iterations")
    | {"mechanism": _name_in({code: mechanism.name for code, mechanism in SCRAM_BY_CODE.items()})},
    ApiKey.UPDATE_FEATURES: _fields("feature_updates", "feature", "max_version_level"),
    ApiKey.UNREGISTER_BROKER: _fields("broker_id"),
    ApiKey.ADD_RAFT_VOTER: _fields("voter_id", "listeners", "host", "port"),
    ApiKey.REMOVE_RAFT_VOTER: _fields("voter_id"),
}
"""The fields of each administrative act that a line shows, by the key of its API."""

ACTS = frozenset(_SHOWN)
"""The keys of the APIs whose requests are administrative acts."""

DENIALS = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""An act that met nothing else was denied: the line of that is the authorizer's."""


def act_text(key: int, request: Struct) -> str:
    """What a request names, on one line."""
    text = " ".join(_parts(request, _SHOWN[key]))
    return text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}…"


def outcome_text(codes: Mapping[int, int]) -> str:
    """What became of an act whose answer holds each error code so many times."""
    if not codes or set(codes) == {ErrorCode.NONE}:
        return "done"
    names = [_error_name(code) for code in sorted(codes) if code != ErrorCode.NONE]
    return f"{'done in part' if ErrorCode.NONE in codes else 'failed'}, {', '.join(names)}"


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _parts(struct: Struct, fields: Mapping[str, _Text]) -> Iterator[str]:
    for name in struct.__declared__:
        text = fields.get(name)
        value = getattr(struct, name)
        if text is None or value is None or value == ZERO_UUID or value == []:
            continue
        yield f"{name}={_value(value, text, fields)}"


def _value(value: object, text: _Text, fields: Mapping[str, _Text]) -> str:
    if isinstance(value, list):
        items = cast("list[object]", value)
        first = [_value(each, text, fields) for each in items[:ITEMS_MAX]]
        more = [f"{len(items) - ITEMS_MAX} more"] if len(items) > ITEMS_MAX else []
        return f"[{', '.join([*first, *more])}]"
    if isinstance(value, Struct):
        return " ".join(_parts(value, fields))
    if isinstance(value, bytes):
        return uuid_to_string(cast("Uuid", value))
    return text(value) if isinstance(value, int) else escape(str(value))

"""The response to a request that fails as a whole, for every API (`getErrorResponse`).

The error stands where Kafka puts it. If the response of that version has an error of the whole
request, it stands there alone; otherwise in each item that the request names: topics, partitions,
groups, resources. So the lists of a response are made from those of its request, and an item keeps
what identifies it. What an error leaves unknown, offsets for example, is -1.

Fetch is the exception: consumers look for a partition's error in the partition. Only a request that
names none, because its session does, has the error at the top.

`security/refusals.py` has the responses of the APIs that are forwarded to a controller.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from ...clients.errors import KafkaError
from ...clients.protocol.api import response_class
from ...clients.protocol.messages.fetch import FetchRequest, FetchResponse
from ...clients.protocol.schema import FieldSpec, Message, Struct, fields_of
from ...security.refusals import has_form, refusal_response

if TYPE_CHECKING:
    from ...clients.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir
    from ...clients.protocol.messages.fetch import FetchableTopicResponse

_ERROR_CODES = frozenset({"error_code", "partition_error_code"})
_IDENTITIES: Mapping[str, tuple[str, ...]] = {
    "name": ("name",),
    "topic": ("topic",),
    "topic_id": ("topic_id",),
    "topic_name": ("name",),
    "index": ("index",),
    "partition": ("partition",),
    "partition_index": ("partition_index", "partition"),
    "group_id": ("group_id",),
    "transactional_id": ("transactional_id",),
    "producer_id": ("producer_id",),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
}
"""What identifies an item of a response, and the fields of the request that hold it."""
_LISTS: Mapping[str, tuple[str, ...]] = {
    "coordinators": ("coordinator_keys",),
    "groups": ("groups", "group_ids"),
    "markers": ("markers",),
    "partition_responses": ("partition_data",),
    "partitions": ("partitions", "partition_indexes"),
    "responses": ("topic_data", "topics", "resources"),
    "results": ("groups_names", "resources", "dirs"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "topics": ("topics",),
    "transaction_states": ("transactional_ids",),
}
"""The lists of items in responses, and the lists of requests that they follow."""
_UNKNOWN = frozenset(
    {
        *("base_offset", "high_watermark", "low_watermark", "committed_offset", "offset"),
        *("timestamp", "generation_id", "producer_id", "producer_epoch", "node_id", "port"),
    }
)
"""The numbers that are -1 beside an error."""


def error_response(request: Message, version: int, error: KafkaError) -> Message:
    """The response of this version that says that the request failed with this error."""
    if has_form(request):
        return refusal_response(request, error, version)
    if not isinstance(request, FetchRequest):
        cls = response_class(request.api_key)
        return cast("Message", _item(cls, request, version, error))
    if not request.topics:
        return FetchResponse(error_code=error.code, session_id=request.session_id)
    (responses,) = (spec for spec in fields_of(FetchResponse) if spec.name == "responses")
    items = _items(responses, request, version, error)
    return FetchResponse(responses=cast("list[FetchableTopicResponse]", items))


def _item(cls: type[Struct], source: object, version: int, error: KafkaError) -> Struct:
    """A response, or an item of one, for the request or the item of it that it answers."""
    values: dict[str, object] = {}
    specs = [spec for spec in fields_of(cls) if spec.versions.includes(version)]
    has_own_error = any(spec.name in _ERROR_CODES for spec in specs)
    for spec in specs:
        if spec.name in _ERROR_CODES:
            values[spec.name] = error.code
        elif spec.name == "error_message":
            values[spec.name] = error.message
        elif spec.name in _LISTS and not has_own_error:
            values[spec.name] = _items(spec, source, version, error)
        else:
            identity = _identity(cls, spec, source)
            if identity is not None:
                values[spec.name] = identity
            elif spec.name in _UNKNOWN:
                values[spec.name] = -1
    return cls(**values)


def _items(spec: FieldSpec, source: object, version: int, error: KafkaError) -> list[Struct]:
    element = spec.type.element
    if element is None or element.struct is None:
        return []
    items: list[Struct] = []
    for name in _LISTS[spec.name]:
        if (each := getattr(source, name, None)) is not None:
            items += [_item(element.struct, part, version, error) for part in _parts(name, each)]
    return items


def _parts(name: str, values: list[object]) -> list[object]:
    if name == "dirs":
        # AlterReplicaLogDirs has topics below directories, and its response topics alone.
        return [topic for value in values for topic in cast("AlterReplicaLogDir", value).topics]
    return values


def _identity(cls: type[Struct], spec: FieldSpec, source: object) -> object:
    """What identifies an item: a field of its source, or its source, where that is a value."""
    if isinstance(source, Message):
        return None
    if isinstance(source, Struct):
        for name in _IDENTITIES.get(spec.name, ()):
            if name in source.__declared__:
                return cast("object", getattr(source, name))
        return None
    first = next(field for field in fields_of(cls) if not field.name.startswith("error_"))
    return source if spec is first else None

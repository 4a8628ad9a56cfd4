"""The topics that a request names, whatever its API."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, cast

from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...clients.protocol.api import ApiKey
from ...clients.protocol.schema import FieldSpec, Message, Struct, fields_of

if TYPE_CHECKING:
    from ...clients.protocol.messages.metadata import MetadataRequest

_NAME_FIELDS = frozenset({"topic", "topic_name", "topic_names", "subscribed_topic_names"})
_ID_FIELD = "topic_id"

NameOf = Callable[[Uuid], str | None]
"""Returns the name of the topic with this id, if there is one."""


def topics_of(request: Message, name_of: NameOf) -> set[str] | None:
    """The names of the topics in a request; None if it means all topics."""
    if request.api_key == ApiKey.METADATA and not cast("MetadataRequest", request).topics:
        # An empty list means all topics in version 0, and none later.
        return None
    return set(_names_in(type(request), request, name_of))


@cache
def can_name_topics(cls: type[Struct]) -> bool:
    """Whether requests of a class name topics at all."""
    return any(
        _is_topic(cls, spec) or (part is not None and can_name_topics(part))
        for spec in fields_of(cls)
        for part in (_struct_in(spec),)
    )


def _is_topic(cls: type[Struct], spec: FieldSpec) -> bool:
    if spec.name == "name":
        return "Topic" in cls.__name__ and "Config" not in cls.__name__
    return spec.name in _NAME_FIELDS or spec.name == _ID_FIELD


def _struct_in(spec: FieldSpec) -> type[Struct] | None:
    return spec.type.struct or (spec.type.element.struct if spec.type.element else None)


def _names_in(cls: type[Struct], struct: Struct, name_of: NameOf) -> Iterator[str]:
    for spec in fields_of(cls):
        value: object = getattr(struct, spec.name)
        part = _struct_in(spec)
        if _is_topic(cls, spec):
            yield from _as_names(value, name_of)
        elif part is not None:
            for each in cast("list[object]", value) if isinstance(value, list) else (value,):
                if isinstance(each, Struct):
                    yield from _names_in(part, each, name_of)


def _as_names(value: object, name_of: NameOf) -> Iterator[str]:
    if isinstance(value, bytes):
        name = None if value == ZERO_UUID else name_of(Uuid(value))
        if name is not None:
            yield name
    elif isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _as_names(each, name_of)

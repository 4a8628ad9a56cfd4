"""One meaningful request for every API that we serve, for whichever version is asked for.

A story prepares both clusters in the same way, in names of its own version, and gives the request
that is then sent to both. Requests are written as dictionaries of Kafka's field names; fields that
the version lacks are left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey, request_class
from tierlog.clients.protocol.messages.metadata import MetadataResponse
from tierlog.clients.protocol.schema import FieldType, Message, Struct, fields_of
from tierlog.clients.record.builder import RecordBatchBuilder

from ..waiting import wait_until
from .side_by_side import OUR_OWN, Plain, plain
from .twins import Side, Twins

KNOWN = "known"
RECORDS = 5
Ask = Callable[[Side], Message]
Reading = tuple[Message, int]
Story = Callable[[Twins, int], Ask]


@dataclass(frozen=True, slots=True)
class Entry:
    """How one API is exercised; `seen_in` reads what the request changes."""

    story: Story
    ignoring: frozenset[str] = frozenset()
    errors: frozenset[int] = frozenset({0})
    seen_in: Callable[[Side, int], Reading] | None = None
    is_kafkas: bool = True
    """Whether an Apache Kafka without plugins answers it, too."""


ENTRIES: dict[ApiKey, Entry] = {}


def story(
    key: ApiKey,
    *,
    ignoring: tuple[str, ...] = (),
    errors: tuple[int, ...] = (0,),
    seen_in: Callable[[Side, int], Reading] | None = None,
    is_kafkas: bool = True,
) -> Callable[[Story], Story]:
    """Put the function below into the table."""

    def enter(story: Story) -> Story:
        assert key not in ENTRIES
        ENTRIES[key] = Entry(story, frozenset(ignoring), frozenset(errors), seen_in, is_kafkas)
        return story

    return enter


def request(key: ApiKey, version: int, /, **values: object) -> Message:
    """A request with these values, but for those that its version does not have."""
    return _filled(request_class(key)(), version, values)


def _filled(struct: Struct, version: int, values: Mapping[str, object]) -> Message:
    specs = {spec.name: spec for spec in fields_of(type(struct))}
    for name, value in values.items():
        if specs[name].versions.includes(version):
            setattr(struct, name, _made(specs[name].type, version, value))
    return cast("Message", struct)


def _made(field_type: FieldType, version: int, value: object) -> object:
    if value is None:
        return None
    if field_type.element is not None:
        element = field_type.element
        return [_made(element, version, item) for item in cast("list[object]", value)]
    if field_type.struct is not None:
        return _filled(field_type.struct(), version, cast("dict[str, object]", value))
    return value


def always(key: ApiKey, version: int, /, **values: object) -> Ask:
    """The same request for both."""
    return lambda _: request(key, version, **values)


def ask(side: Side, key: ApiKey, version: int, /, **values: object) -> Plain:
    """One side's answer."""
    sent = side.client.send(request(key, version, **values), version)
    return plain(side.client.receive(sent), OUR_OWN - {"session_id"})


def topic_id(side: Side, name: str) -> Uuid:
    """Each side's own id of a topic."""
    asked = request(ApiKey.METADATA, 12, topics=[{"name": name}])
    return side.client.ask(asked, 12, MetadataResponse).topics[0].topic_id


def topic(twins: Twins, name: str, *, partitions: int = 1, records: int = 0) -> None:
    """Make a topic on both sides and wait until it can be used; with records in partition 0."""
    for side in twins.sides:
        made = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        ask(side, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
        wait_until(partial(_has_leaders, side, name, partitions), 30, f"no leader of {name}")
        if records:
            ask(side, ApiKey.PRODUCE, 9, **production(name, records))


def _has_leaders(side: Side, name: str, partitions: int) -> bool:
    asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    listed = ask(side, ApiKey.LIST_OFFSETS, 5, topics=[{"name": name, "partitions": asked}])
    return error_codes(listed) == {0}


def production(
    name: str, records: int, topic_id: Uuid | None = None, timestamp: int = 1_700_000_000_000
) -> dict[str, object]:
    """The values of a Produce request."""
    builder = RecordBatchBuilder(producer_id=5, producer_epoch=3, base_sequence=0)
    for offset in range(records):
        builder.append(timestamp + offset, b"key", b"value")
    where: dict[str, object] = {"name": name, "topic_id": topic_id}
    if topic_id is None:
        del where["topic_id"]
    data = [{"index": 0, "records": builder.build()}]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": [where | {"partition_data": data}]}


def error_codes(answer: Plain) -> set[int]:
    """Every error code that an answer holds."""
    found: set[int] = set()
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                found.add(cast("int", value))
            else:
                found |= error_codes(value)
    elif isinstance(answer, list):
        for item in answer:
            found |= error_codes(item)
    return found


# -- What is read before and after ------------------------------------------------------------


def by_id(side: Side, name: str) -> dict[str, object]:
    """A topic by name, and by its id in versions that have ids."""
    return {"name": name, "topic_id": topic_id(side, name)}


def end_of(prefix: str) -> Callable[[Side, int], Reading]:
    """Where the log of the version's own topic ends."""

    def read(_: Side, version: int) -> Reading:
        partition = {"partition_index": 0, "timestamp": -1}
        topics = [{"name": f"{prefix}-{version}", "partitions": [partition]}]
        return request(ApiKey.LIST_OFFSETS, 5, topics=topics), 5

    return read


def metadata_of(prefix: str) -> Callable[[Side, int], Reading]:
    """What the cluster knows of the version's own topic."""

    def read(_: Side, version: int) -> Reading:
        return request(ApiKey.METADATA, 12, topics=[{"name": f"{prefix}-{version}"}]), 12

    return read


def configs_of(prefix: str) -> Callable[[Side, int], Reading]:
    """One property of the version's own topic."""

    def read(_: Side, version: int) -> Reading:
        resource = {
            "resource_type": 2,
            "resource_name": f"{prefix}-{version}",
            "configuration_keys": ["retention.ms"],
        }
        return request(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]), 4

    return read


def group_of(prefix: str) -> Callable[[Side, int], Reading]:
    """The version's own group."""

    def read(_: Side, version: int) -> Reading:
        return request(ApiKey.DESCRIBE_GROUPS, 5, groups=[f"{prefix}-{version}"]), 5

    return read


def offsets_of(prefix: str) -> Callable[[Side, int], Reading]:
    """What the version's own group has committed."""

    def read(_: Side, version: int) -> Reading:
        groups = [{"group_id": f"{prefix}-{version}", "topics": None}]
        return request(ApiKey.OFFSET_FETCH, 9, groups=groups), 9

    return read

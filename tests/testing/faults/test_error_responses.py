"""A request that fails as a whole is answered as Kafka answers it, whatever its API and version."""

from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import SERVED_ON, Api, ListenerKind, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.schema import FieldType, Message, Struct, fields_of
from tierlog.testing.faults.error_responses import error_response
from tierlog.tests import wire

ERROR = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "by a test")
_TOPIC_ID = Uuid(bytes(range(16)))
_VALUES: dict[str, object] = {
    "string": "a",
    "uuid": _TOPIC_ID,
    "bool": True,
    "bytes": b"",
    "float64": 1.0,
}
APIS = list(SERVED_ON[ListenerKind.BROKER].values())


def value_of(kind: FieldType, version: int) -> object:
    if kind.struct is not None:
        return filled(kind.struct, version)
    if kind.element is not None:
        return [value_of(kind.element, version)]
    return memoryview(b"") if kind.kind == "records" else _VALUES.get(kind.kind, 1)


def filled(cls: type[Struct], version: int) -> Struct:
    """A struct with a value in each field of this version, and an item in each list."""
    return cls(
        **{
            spec.name: value_of(spec.type, version)
            for spec in fields_of(cls)
            if spec.versions.includes(version)
        }
    )


def errors_in(cls: type[Struct], struct: Struct) -> Iterator[int]:
    for spec in fields_of(cls):
        value: object = getattr(struct, spec.name)
        part = spec.type.struct or (spec.type.element.struct if spec.type.element else None)
        if spec.name.endswith("error_code") and spec.name != "topic_config_error_code":
            assert isinstance(value, int)
            yield value
        elif part is not None:
            for each in cast("list[object]", value) if isinstance(value, list) else (value,):
                if isinstance(each, Struct):
                    yield from errors_in(part, each)


def sent(request: Message, version: int) -> Message:
    """The error response as a client decodes it."""
    cls = response_class(request.api_key)
    encoded = encode_bytes(error_response(request, version, ERROR), version)
    decoded, end = decode(cls, version, memoryview(bytearray(encoded)), 0)
    assert end == len(encoded)
    return decoded


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_version_of_every_api_can_say_that_it_failed(api: Api) -> None:
    for version in range(api.lowest_version, api.highest_version + 1):
        if api.name == "Produce" and version < 3:
            continue  # No message class: the connection is closed.
        request = filled(request_class(api.key), version)
        assert isinstance(request, Message)
        errors = list(errors_in(response_class(api.key), sent(request, version)))
        if api.name == "DescribeLogDirs" and version < 3:
            # As in Kafka: there is no place for an error of the whole request.
            assert set(errors) <= {0}
        else:
            assert ERROR.code in errors, f"version {version}"
            assert set(errors) <= {ERROR.code, 0}


def produced(version: int) -> Message:
    partitions = [wire.PartitionProduceData(index=index) for index in (0, 3)]
    topic = wire.TopicProduceData(name="orders", topic_id=_TOPIC_ID, partition_data=partitions)
    return sent(wire.ProduceRequest(acks=-1, topic_data=[topic]), version)


def test_produce_has_the_error_in_each_partition_that_it_names() -> None:
    assert repr(produced(9)).count("error_code=6") == 2
    first = repr(produced(9))
    assert "name='orders'" in first
    assert "index=0, error_code=6, base_offset=-1, log_append_time_ms=-1" in first
    assert "index=3, error_code=6, base_offset=-1, log_append_time_ms=-1" in first
    assert repr(_TOPIC_ID) in repr(produced(13))


def test_fetch_has_the_error_in_each_partition_or_at_the_top_if_its_session_names_them() -> None:
    topic = wire.FetchTopic(
        topic="orders", partitions=[wire.FetchPartition(partition=2, fetch_offset=5)]
    )
    answer = repr(sent(wire.FetchRequest(topics=[topic]), 11))
    assert answer.startswith("FetchResponse(throttle_time_ms=0, error_code=0, session_id=0")
    assert "partition_index=2, error_code=6, high_watermark=-1" in answer
    incremental = sent(wire.FetchRequest(session_id=77, session_epoch=4), 11)
    assert "error_code=6, session_id=77, responses=[]" in repr(incremental)


def test_a_commit_has_the_error_in_each_partition() -> None:
    partitions = [wire.OffsetCommitRequestPartition(partition_index=4, committed_offset=9)]
    topic = wire.OffsetCommitRequestTopic(name="orders", partitions=partitions)
    answer = repr(sent(wire.OffsetCommitRequest(group_id="g", topics=[topic]), 8))
    assert "name='orders'" in answer
    assert "partition_index=4, error_code=6" in answer


def test_an_offset_fetch_has_the_error_where_its_version_has_a_place() -> None:
    topic = wire.OffsetFetchRequestTopic(name="orders", partition_indexes=[4])
    oldest = repr(sent(wire.OffsetFetchRequest(group_id="g", topics=[topic]), 1))
    assert "partition_index=4, committed_offset=-1" in oldest
    assert "error_code=6" in oldest
    older = repr(sent(wire.OffsetFetchRequest(group_id="g", topics=[topic]), 7))
    assert "topics=[], error_code=6" in older
    newer = repr(
        sent(wire.OffsetFetchRequest(groups=[wire.OffsetFetchRequestGroup(group_id="g")]), 8)
    )
    assert "OffsetFetchResponseGroup(group_id='g', topics=[], error_code=6)" in newer


def test_a_coordinator_is_not_given_in_the_form_of_the_version() -> None:
    older = repr(sent(wire.FindCoordinatorRequest(key="g"), 3))
    assert "error_code=6, error_message='by a test', node_id=-1, host='', port=-1" in older
    newer = repr(sent(wire.FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4))
    assert "Coordinator(key='g', node_id=-1, host='', port=-1, error_code=6" in newer
    assert "Coordinator(key='h', node_id=-1, host='', port=-1, error_code=6" in newer


def test_partitions_are_refused_to_a_transaction() -> None:
    topic = wire.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])
    request = wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=[topic]
    )
    answer = repr(sent(request, 3))
    assert "name='orders'" in answer
    assert "partition_index=0, partition_error_code=6" in answer
    assert "partition_index=1, partition_error_code=6" in answer

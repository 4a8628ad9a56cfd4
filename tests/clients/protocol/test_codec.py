"""Messages survive the wire, and nothing that comes over it can do more harm than ProtocolError."""

import random
import tracemalloc
from collections.abc import Generator
from typing import TypeVar, cast

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError, ProtocolError
from tierlog.clients.protocol.codec import (
    decode,
    decode_in_steps,
    decoder_of,
    encode,
    encode_bytes,
    encode_in_steps,
)
from tierlog.clients.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    SnapshotId,
)
from tierlog.clients.protocol.messages.find_coordinator import FindCoordinatorResponse
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest
from tierlog.clients.protocol.messages.init_producer_id import InitProducerIdRequest
from tierlog.clients.protocol.messages.join_group import JoinGroupRequest
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.clients.protocol.primitives import (
    TooManyElementsError,
    read_unsigned_varint,
    size_of,
    unsigned_varint,
)
from tierlog.clients.protocol.schema import Message, Struct, field, int8, int32

from .served_messages import identify, message_versions, random_message

T = TypeVar("T")


class Inner(Struct):
    """A struct that may be null."""

    number: int32 = field("0+")


class Example(Message, versions="0-2", flexible="1+"):
    """What no served message has yet: a nullable struct, a tag from version 2 on."""

    inner: Inner | None = field("0+", nullable="0+", default=None)
    level: int8 = field("0+", default=5)
    note: str = field("2+", tag=3, ignorable=True)


class FileSlice:
    """Something that is sent without being read."""

    position = 0
    nbytes = 1_000_000


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_a_message_comes_back_as_it_was_sent(cls: type[Message], version: int) -> None:
    for seed in range(5):
        message = random_message(cls, version, seed)
        encoded = encode_bytes(message, version)
        padded = b"before" + encoded + b"behind"
        decoded, end = decode(cls, version, padded, position=6)
        assert decoded == message
        assert end == 6 + len(encoded)


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_a_damaged_message_is_a_protocol_error_or_another_message(
    cls: type[Message], version: int
) -> None:
    chance = random.Random(f"{cls.__name__} {version}")
    encoded = encode_bytes(random_message(cls, version, "damage"), version)
    for _ in range(40):
        damaged = bytearray(encoded)
        for _ in range(chance.randint(1, 4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        del damaged[chance.randrange(len(damaged) + 1) :]
        try:
            _, end = decode(cls, version, damaged)
        except ProtocolError:
            continue
        assert end <= len(damaged)


@given(st.sampled_from(message_versions()), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_a_protocol_error_or_a_message(
    case: tuple[type[Message], int], noise: bytes
) -> None:
    cls, version = case
    try:
        _, end = decode(cls, version, noise)
    except ProtocolError:
        return
    assert end <= len(noise)


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_a_message_cut_short_anywhere_is_a_protocol_error(cls: type[Message], version: int) -> None:
    encoded = encode_bytes(random_message(cls, version, "cut"), version)
    for size in range(0, len(encoded), 1 + len(encoded) // 60):
        with pytest.raises(ProtocolError):
            decode(cls, version, encoded[:size])


@pytest.mark.parametrize(
    ("cls", "version", "hostile"),
    [
        pytest.param(MetadataRequest, 5, b"\x7f\xff\xff\xff", id="elements"),
        pytest.param(MetadataRequest, 9, b"\xff\xff\xff\xff\x0f", id="compact elements"),
        pytest.param(MetadataRequest, 9, b"\xff\xff\xff\xff\xff\x0f", id="six bytes of varint"),
        pytest.param(HeartbeatRequest, 0, b"\x7f\xffgroup", id="string"),
        pytest.param(HeartbeatRequest, 4, b"\xff\xff\xff\xff\x0fgroup", id="compact string"),
        pytest.param(ProduceRequest, 3, b"\xff\xff\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\1", id="records"),
        pytest.param(
            MetadataRequest, 9, b"\1\0\0\0\xff\xff\xff\xff\x0f", id="count of tagged fields"
        ),
        pytest.param(
            MetadataRequest, 9, b"\1\0\0\0\1\7\xff\xff\xff\xff\x0f", id="size of a tagged field"
        ),
    ],
)
def test_announcing_much_and_sending_little_allocates_little(
    cls: type[Message], version: int, hostile: bytes
) -> None:
    with pytest.raises(ProtocolError):
        decode(cls, version, hostile)
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode(cls, version, hostile)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_null_where_it_is_not_allowed_is_a_protocol_error() -> None:
    # Metadata version 0 has no null topics; from version 1 on they mean "all of them".
    null = b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError, match="topics is null"):
        decode(MetadataRequest, 0, null)
    request, _ = decode(MetadataRequest, 1, null)
    assert request.topics is None


def test_strings_are_at_most_32767_bytes_in_every_version() -> None:
    for version in (3, 4):
        allowed = HeartbeatRequest(group_id="g" * 32767)
        assert decode(HeartbeatRequest, version, encode_bytes(allowed, version))[0] == allowed
        with pytest.raises(ValueError, match=r"HeartbeatRequest|longer"):
            encode_bytes(HeartbeatRequest(group_id="g" * 32768), version)
    too_long = unsigned_varint(32769) + b"g" * 32768 + bytes(100)
    with pytest.raises(ProtocolError, match="group_id"):
        decode(HeartbeatRequest, 4, too_long)


def test_bytes_that_are_not_utf_8_are_replaced_as_kafka_does() -> None:
    encoded = encode_bytes(HeartbeatRequest(group_id="a?c"), 0).replace(b"?", b"\xff")
    assert decode(HeartbeatRequest, 0, encoded)[0].group_id == "a\ufffdc"


def test_tagged_fields_that_we_do_not_know_are_skipped() -> None:
    request = FetchRequest(cluster_id="c", topics=[FetchTopic(partitions=[FetchPartition()])])
    encoded = encode_bytes(request, 18)
    assert encoded.endswith(b"\x01\x00\x02\x02c")
    extended = encoded.removesuffix(b"\x01\x00\x02\x02c") + b"\x02\x00\x02\x02c\x63\x03new"
    decoded, end = decode(FetchRequest, 18, extended)
    assert decoded == request
    assert end == len(extended)


def test_a_tagged_field_that_does_not_fill_its_size_is_a_protocol_error() -> None:
    encoded = encode_bytes(FetchRequest(cluster_id="c"), 12)
    with pytest.raises(ProtocolError, match="cluster_id"):
        decode(FetchRequest, 12, encoded.removesuffix(b"\x02\x02c") + b"\x03\x02c-")


def test_tagged_fields_are_written_by_tag_and_only_when_set() -> None:
    partition = PartitionData(
        snapshot_id=SnapshotId(end_offset=1, epoch=2), diverging_epoch=EpochEndOffset(epoch=3)
    )
    plain = encode_bytes(_response(PartitionData()), 12)
    tagged = encode_bytes(_response(partition), 12)
    epoch = b"\x00\x0d" + b"\x00\x00\x00\x03" + b"\xff" * 8 + b"\x00"
    snapshot = b"\x02\x0d" + bytes(7) + b"\x01" + b"\x00\x00\x00\x02" + b"\x00"
    assert tagged == plain[:-3] + b"\x02" + epoch + snapshot + plain[-2:]
    # A struct equal to the default counts as not set, whoever made it.
    equal = PartitionData(diverging_epoch=EpochEndOffset(epoch=-1, end_offset=-1))
    assert encode_bytes(_response(equal), 12) == plain


def _response(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=list(partitions))])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_nullable_struct_is_marked_present_or_null(version: int) -> None:
    for message in (Example(), Example(inner=Inner(number=7))):
        encoded = encode_bytes(message, version)
        assert encoded[0] == (0xFF if message.inner is None else 1)
        assert decode(Example, version, encoded) == (message, len(encoded))


def test_a_set_field_that_the_version_lacks_is_refused_unless_ignorable() -> None:
    # A transaction's producer id means something; that an epoch fence is lost is bearable.
    request = InitProducerIdRequest(transactional_id="t", producer_id=5)
    with pytest.raises(KafkaError, match="producer_id") as raised:
        encode(request, 2)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert encode_bytes(Example(note="lost"), 1) == encode_bytes(Example(), 1)


@pytest.mark.parametrize("version", [-1, 3, 19, 32767])
def test_a_version_that_a_message_lacks_is_unsupported(version: int) -> None:
    for act in (
        lambda: encode(FetchRequest(), version),
        lambda: decode(FetchRequest, version, bytes(100)),
    ):
        with pytest.raises(KafkaError) as raised:
            act()
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "request_",
    [
        JoinGroupRequest(session_timeout_ms=1 << 31),
        JoinGroupRequest(group_id=None),  # type: ignore[arg-type]  # a caller's mistake
        JoinGroupRequest(member_id=b"member"),  # type: ignore[arg-type]  # a caller's mistake
    ],
    ids=["too large", "null", "another type"],
)
def test_a_value_that_does_not_fit_its_field_is_a_value_error(request_: JoinGroupRequest) -> None:
    with pytest.raises(ValueError, match="JoinGroupRequest version 0"):
        encode(request_, 0)


def test_decoded_records_are_a_view_of_the_buffer_they_came_in() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(records=b"records of a batch")]
            )
        ]
    )
    buffer = bytearray(encode_bytes(request, 9))
    decoded, _ = decode(ProduceRequest, 9, memoryview(buffer))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is buffer
    records[:7] = b"RECORDS"
    assert b"RECORDS of a batch" in buffer


def test_encoded_records_are_passed_by_reference() -> None:
    view, region, array = memoryview(b"view"), FileSlice(), bytearray(b"array")
    partitions = [
        PartitionData(partition_index=index, records=records)
        for index, records in enumerate((view, b"", None, region, array))
    ]
    chunks = encode(_response(*partitions), 12)
    assert [chunk for chunk in chunks if chunk is view or chunk is region or chunk is array] == [
        view,
        region,
        array,
    ]
    assert len(chunks) == 7
    # The compact length before the region announces its size plus one.
    before = chunks[2]
    assert isinstance(before, bytes)
    assert before.endswith(unsigned_varint(region.nbytes + 1))


@given(st.integers(min_value=0, max_value=(1 << 35) - 1))
def test_variable_length_integers_survive(value: int) -> None:
    encoded = unsigned_varint(value)
    assert read_unsigned_varint(encoded + b"\xff", 0) == (value, len(encoded))


def test_metadata_topics_are_asked_by_id_or_by_name() -> None:
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, 13, encode_bytes(by_name, 13))[0] == by_name


def outcome(steps: Generator[None, None, T]) -> T:
    """What a generator returns at last."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_in_steps_a_message_is_the_same(cls: type[Message], version: int) -> None:
    message = random_message(cls, version, 1)
    in_steps = outcome(encode_in_steps(message, version, 1 << 30))
    whole = encode_bytes(message, version)
    assert b"".join(cast("list[bytes]", in_steps)) == whole
    view = memoryview(whole)
    assert outcome(decode_in_steps(cls, version, view, 0, 1 << 30)) == (message, len(view))


@pytest.mark.parametrize("version", [4, 9])
def test_a_decoder_takes_no_more_elements_than_allowed(version: int) -> None:
    topics = [MetadataRequestTopic(name=str(number)) for number in range(10)]
    view = memoryview(encode_bytes(MetadataRequest(topics=topics), version))
    decoder = decoder_of(MetadataRequest, version)
    assert decoder(view, 0, 10)[1] == len(view)
    with pytest.raises(TooManyElementsError):
        decoder(view, 0, 9)
    with pytest.raises(TooManyElementsError):
        outcome(decode_in_steps(MetadataRequest, version, view, 0, 9))


def test_elements_of_all_arrays_count_together_and_so_do_tagged_fields() -> None:
    partitions = [FetchPartition(partition=number) for number in range(3)]
    topics = [FetchTopic(topic=name, partitions=partitions) for name in "ab"]
    view = memoryview(encode_bytes(FetchRequest(topics=topics, cluster_id="c"), 12))
    decoder = decoder_of(FetchRequest, 12)
    # Two topics, six partitions, one tagged field.
    assert decoder(view, 0, 9)[1] == len(view)
    with pytest.raises(TooManyElementsError):
        decoder(view, 0, 8)
    unknown = encode_bytes(HeartbeatRequest(), 4)[:-1] + b"\3" + b"\x70\0" * 3
    heartbeat = decoder_of(HeartbeatRequest, 4)
    assert heartbeat(memoryview(unknown), 0, 3)[1] == len(unknown)
    with pytest.raises(TooManyElementsError):
        heartbeat(memoryview(unknown), 0, 2)


def test_an_encoder_in_steps_writes_no_more_bytes_than_allowed() -> None:
    topics = [MetadataRequestTopic(name="x" * 1_000) for _ in range(20_000)]
    message = MetadataRequest(topics=topics)
    size = len(encode_bytes(message, 9))
    chunks = outcome(encode_in_steps(message, 9, size))
    assert sum(map(size_of, chunks)) == size
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=f"would exceed {size // 4} bytes"):
            outcome(encode_in_steps(message, 9, size // 4))
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def test_an_error_message_that_is_too_long_is_cut() -> None:
    for version in (1, 3):
        response = FindCoordinatorResponse(error_message="\N{SNOWMAN}" * 32_767)
        encoded = encode_bytes(response, version)
        assert len(encoded) < 4_200
        assert b"..." in encoded

"""Records of groups of the consumer protocol are read back as they were written."""

import struct

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError, ProtocolError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.coordinator.consumer.consumer_records import (
    ClassicMemberValue,
    ConsumerGroupEntry,
    CurrentAssignmentEntry,
    GroupEpochValue,
    GroupMetadataEntry,
    MemberEntry,
    MemberValue,
    PartitionMetadataEntry,
    RegexEntry,
    RegexValue,
    TargetEpochValue,
    TargetMemberEntry,
    TargetMetadataEntry,
    by_topic,
    consumer_record,
    read_consumer_record,
)
from tierlog.coordinator.consumer.consumer_schemas import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from tierlog.coordinator.consumer.reconciliation import CurrentAssignment, MemberState
from tierlog.coordinator.group_actions import GroupProtocol
from tierlog.coordinator.group_records import HIGHEST_EPOCH, GroupRecord

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
EPOCHS = st.integers(-2, 2**31 - 1)
TIMES = st.integers(0, 2**63 - 1)
NAMES = st.text(max_size=20)
PARTITION = st.tuples(st.sampled_from((A, B)), st.integers(0, 2**31 - 1))
PARTITIONS = st.frozensets(PARTITION, max_size=5)
HELD = st.dictionaries(PARTITION, EPOCHS, max_size=5)
CLASSIC = st.builds(
    ClassicMemberValue,
    st.integers(0, 2**31 - 1),
    st.lists(st.builds(GroupProtocol, NAMES, st.binary()), max_size=3).map(tuple),
)
MEMBER = st.builds(
    MemberValue,
    st.none() | NAMES,
    st.none() | NAMES,
    NAMES,
    NAMES,
    st.lists(NAMES, max_size=3).map(tuple),
    st.none() | NAMES,
    st.integers(-1, 2**31 - 1),
    st.none() | NAMES,
    st.none() | CLASSIC,
)
STATES = st.sampled_from(MemberState)
ENTRIES: st.SearchStrategy[ConsumerGroupEntry] = st.one_of(
    st.builds(
        GroupMetadataEntry,
        NAMES,
        st.none()
        | st.builds(
            GroupEpochValue, st.integers(0, HIGHEST_EPOCH), st.integers(-(2**63), 2**63 - 1)
        ),
    ),
    st.builds(PartitionMetadataEntry, NAMES, st.just(True)),
    st.builds(MemberEntry, NAMES, NAMES, st.none() | MEMBER),
    st.builds(TargetMetadataEntry, NAMES, st.none() | st.builds(TargetEpochValue, EPOCHS, TIMES)),
    st.builds(TargetMemberEntry, NAMES, NAMES, st.none() | PARTITIONS),
    st.builds(
        CurrentAssignmentEntry,
        NAMES,
        NAMES,
        st.none() | st.builds(CurrentAssignment, EPOCHS, EPOCHS, STATES, HELD, HELD),
    ),
    st.builds(
        RegexEntry,
        NAMES,
        NAMES,
        st.none() | st.builds(RegexValue, st.lists(NAMES).map(tuple), TIMES, TIMES),
    ),
)


def kind_of(record: GroupRecord) -> int:
    (kind,) = struct.unpack_from(">h", record.key)
    return int(kind)


def read(record: GroupRecord) -> ConsumerGroupEntry | None:
    return read_consumer_record(kind_of(record), record.key, record.value)


@given(ENTRIES)
def test_what_was_written_is_read_back(entry: ConsumerGroupEntry) -> None:
    assert read(consumer_record(entry)) == entry


def test_the_types_are_kafkas() -> None:
    entries: list[ConsumerGroupEntry] = [
        GroupMetadataEntry("g", None),
        PartitionMetadataEntry("g", True),
        MemberEntry("g", "m", None),
        TargetMetadataEntry("g", None),
        TargetMemberEntry("g", "m", None),
        CurrentAssignmentEntry("g", "m", None),
        RegexEntry("g", "a.*", None),
    ]
    assert [kind_of(consumer_record(entry)) for entry in entries] == [3, 4, 5, 6, 7, 8, 16]
    assert all(consumer_record(entry).value is None for entry in entries)


def test_other_types_are_left_to_others() -> None:
    for kind in (0, 1, 2, 9, 15, 17, -1, 32767):
        assert read_consumer_record(kind, struct.pack(">h", kind), b"anything") is None


def test_what_kafka_before_4_1_kept_of_topics_is_read_past() -> None:
    record = consumer_record(PartitionMetadataEntry("g", True))
    assert read_consumer_record(4, record.key, b"\0\0anything") == PartitionMetadataEntry(
        "g", False
    )


def test_a_value_of_another_version_is_refused() -> None:
    record = consumer_record(GroupMetadataEntry("g", GroupEpochValue(3)))
    assert record.value is not None
    for value in (b"\0\1" + record.value[2:], b"\xff\xff" + record.value[2:], b"\0", b""):
        with pytest.raises(KafkaError) as caught:
            read_consumer_record(3, record.key, value)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_keys_and_values_that_end_early_are_refused() -> None:
    record = consumer_record(RegexEntry("g", "a.*", RegexValue(("ab",), 5, 6)))
    assert record.value is not None
    with pytest.raises(ProtocolError):
        read_consumer_record(16, record.key[:-1], record.value)
    with pytest.raises(ProtocolError):
        read_consumer_record(16, record.key, record.value[:-3])


def current(*assigned: TopicPartitions, state: int = 0) -> ConsumerGroupEntry | None:
    """What is read from a record of a member at epoch 7 that holds this."""
    key = consumer_record(CurrentAssignmentEntry("g", "m", None)).key
    message = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7, previous_member_epoch=6, state=state, assigned_partitions=list(assigned)
    )
    return read_consumer_record(8, key, b"\0\0" + encode_bytes(message, 0))


def test_partitions_without_an_epoch_of_their_own_have_the_members() -> None:
    entry = current(
        TopicPartitions(topic_id=A, partitions=[0, 1]),
        TopicPartitions(topic_id=B, partitions=[0, 1], assignment_epochs=[3]),
    )
    assert isinstance(entry, CurrentAssignmentEntry)
    assert entry.value is not None
    assert entry.value.assigned == {(A, 0): 7, (A, 1): 7, (B, 0): 7, (B, 1): 7}


def test_a_state_of_a_newer_kafka_is_unknown() -> None:
    entry = current(state=42)
    assert isinstance(entry, CurrentAssignmentEntry)
    assert entry.value is not None
    assert entry.value.state is MemberState.UNKNOWN


@given(PARTITIONS)
def test_the_same_partitions_give_the_same_bytes(partitions: frozenset[tuple[Uuid, int]]) -> None:
    topics = by_topic(partitions)
    assert list(topics) == sorted(topics)
    assert all(numbers == sorted(numbers) for numbers in topics.values())
    assert {(topic, number) for topic, numbers in topics.items() for number in numbers} == (
        partitions
    )

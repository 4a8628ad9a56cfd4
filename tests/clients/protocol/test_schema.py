"""Declarations behave like plain classes: keywords, defaults, equality, slots, no surprises."""

import pytest

from tierlog.clients.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from tierlog.clients.protocol.messages.metadata import MetadataResponse
from tierlog.clients.protocol.schema import Struct, VersionRange, fields_of, version_range

from .served_messages import identify, message_classes


def test_fields_that_are_not_named_have_kafkas_defaults() -> None:
    request = FetchRequest(max_wait_ms=500)
    assert request.max_wait_ms == 500
    assert request.min_bytes == 0
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None
    assert request.rack_id == ""
    assert request.topics == []
    assert request.replica_state.replica_epoch == -1


def test_lists_are_fresh_in_every_instance() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic(topic="t"))
    assert second.topics == []


def test_a_struct_that_nobody_set_is_shared_and_refuses_assignment() -> None:
    first, second = PartitionData(), PartitionData()
    assert first.current_leader is second.current_leader
    with pytest.raises(AttributeError, match="construct a new one"):
        first.current_leader.leader_id = 3
    assert second.current_leader.leader_id == -1
    first.current_leader = LeaderIdAndEpoch(leader_id=3)
    assert second.current_leader == LeaderIdAndEpoch()


def test_structs_are_equal_by_value_and_only_to_their_kind() -> None:
    assert FetchPartition(partition=1) == FetchPartition(partition=1)
    assert FetchPartition(partition=1) != FetchPartition(partition=2)
    assert EpochEndOffset(epoch=1) != LeaderIdAndEpoch(leader_id=1)
    assert PartitionData().diverging_epoch == EpochEndOffset()
    assert EpochEndOffset() == PartitionData().diverging_epoch
    with pytest.raises(TypeError, match="unhashable"):
        hash(FetchPartition())


def test_a_struct_prints_as_it_is_constructed() -> None:
    assert repr(EpochEndOffset(epoch=4)) == "EpochEndOffset(epoch=4, end_offset=-1)"
    assert repr(PartitionData().diverging_epoch) == "EpochEndOffset(epoch=-1, end_offset=-1)"


def test_misspelt_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="max_bites"):
        FetchRequest(max_bites=1)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(AttributeError):
        FetchRequest().max_bites = 1  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize(
    ("text", "expected"), [("3+", (3, 32767)), ("0-12", (0, 12)), ("7", (7, 7)), (None, (0, -1))]
)
def test_version_texts_are_those_of_kafkas_json(
    text: str | None, expected: tuple[int, int]
) -> None:
    assert version_range(text) == VersionRange(*expected)


def test_messages_know_their_key_and_versions() -> None:
    assert (FetchResponse.api_key, FetchResponse.versions) == (1, "4-18")
    assert (MetadataResponse.api_key, MetadataResponse.flexible_versions) == (3, "9+")


@pytest.mark.parametrize("cls", message_classes(), ids=identify)
def test_an_annotation_allows_null_exactly_where_some_version_does(cls: type[Struct]) -> None:
    for spec in fields_of(cls):
        annotation = str(cls.__annotations__[spec.name])
        if spec.type.kind != "records":
            assert ("None" in annotation) == (spec.nullable.highest >= 0), spec.name
        inner = spec.type.element or spec.type
        if inner.struct is not None:
            test_an_annotation_allows_null_exactly_where_some_version_does(inner.struct)

"""The life of a remote segment as KIP-405 tells it, and what its metadata must not be."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    MAX_SEGMENT_BYTES,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    is_valid_partition_delete_transition,
    is_valid_segment_transition,
)

PARTITION = TopicIdPartition(Uuid(b"T" * 16), "orders", 3)
SEGMENT_ID = RemoteLogSegmentId(PARTITION, Uuid(b"S" * 16))


def metadata(
    *,
    offsets: tuple[int, int] = (0, 100),
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    size: int = 1000,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=SEGMENT_ID,
        start_offset=offsets[0],
        end_offset=offsets[1],
        max_timestamp_ms=5,
        broker_id=1,
        event_timestamp_ms=9,
        segment_size_bytes=size,
        segment_leader_epochs=epochs,
        custom_metadata=custom_metadata,
    )


ALLOWED_SEGMENT_STEPS = {
    (None, 0),
    (0, 0),
    (0, 1),
    (0, 2),
    (1, 1),
    (1, 2),
    (2, 2),
    (2, 3),
    (3, 3),
}
ALLOWED_PARTITION_STEPS = {(None, 0), (0, 0), (0, 1), (1, 1), (1, 2), (2, 2)}


@pytest.mark.scenario("4.9")
@pytest.mark.parametrize("target", RemoteLogSegmentState)
@pytest.mark.parametrize("current", [None, *RemoteLogSegmentState])
def test_a_segment_takes_only_the_steps_of_the_kip(
    current: RemoteLogSegmentState | None, target: RemoteLogSegmentState
) -> None:
    expected = (current, target) in ALLOWED_SEGMENT_STEPS
    assert is_valid_segment_transition(current, target) is expected


@pytest.mark.scenario("4.9")
@pytest.mark.parametrize("target", RemotePartitionDeleteState)
@pytest.mark.parametrize("current", [None, *RemotePartitionDeleteState])
def test_a_partition_is_deleted_in_order(
    current: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState
) -> None:
    expected = (current, target) in ALLOWED_PARTITION_STEPS
    assert is_valid_partition_delete_transition(current, target) is expected


@pytest.mark.parametrize(
    ("offsets", "epochs", "size"),
    [
        pytest.param((0, 9), (), 10, id="no leader epochs (KAFKA-20961)"),
        pytest.param((-1, 9), ((0, 0),), 10, id="negative start"),
        pytest.param((9, 8), ((0, 9),), 10, id="ends before it starts"),
        pytest.param((0, 9), ((0, 0),), MAX_SEGMENT_BYTES + 1, id="2 GiB"),
        pytest.param((0, 9), ((0, 0),), -1, id="negative size"),
        pytest.param((0, 9), ((1, 0), (0, 5)), 10, id="epochs descend"),
        pytest.param((0, 9), ((0, 5), (1, 0)), 10, id="offsets descend"),
        pytest.param((0, 9), ((-1, 0),), 10, id="negative epoch"),
    ],
)
def test_metadata_that_cannot_be_is_refused(
    offsets: tuple[int, int], epochs: tuple[tuple[int, int], ...], size: int
) -> None:
    with pytest.raises(KafkaError) as refused:
        metadata(offsets=offsets, epochs=epochs, size=size)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_segment_of_one_byte_less_than_2_gib_is_accepted() -> None:
    assert metadata(size=MAX_SEGMENT_BYTES).segment_size_bytes == 2**31 - 1


def test_an_epoch_ends_where_the_next_one_in_the_segment_begins() -> None:
    segment = metadata(epochs=((0, 0), (1, 20), (2, 80)))
    assert [segment.end_offset_of_epoch(epoch) for epoch in (0, 1, 2)] == [19, 79, 100]


def test_custom_metadata_of_the_copy_survives_later_updates() -> None:
    segment = metadata()
    for state, custom in [
        (RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"where it went"),
        (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, None),
    ]:
        segment = segment.updated(
            RemoteLogSegmentMetadataUpdate(
                segment_id=SEGMENT_ID,
                event_timestamp_ms=11,
                state=state,
                broker_id=2,
                custom_metadata=custom,
            )
        )
    assert segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    assert (segment.custom_metadata, segment.broker_id) == (b"where it went", 2)


def test_an_update_cannot_announce_a_copy() -> None:
    with pytest.raises(KafkaError, match="COPY_SEGMENT_STARTED"):
        RemoteLogSegmentMetadataUpdate(
            segment_id=SEGMENT_ID,
            event_timestamp_ms=1,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            broker_id=1,
        )


def test_a_partition_delete_names_a_topic_id() -> None:
    with pytest.raises(KafkaError, match="topic id"):
        RemotePartitionDeleteMetadata(
            topic_id_partition=TopicIdPartition(ZERO_UUID, "orders", 0),
            state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
            event_timestamp_ms=1,
            broker_id=1,
        )


def test_ids_print_as_kafka_prints_them() -> None:
    assert str(SEGMENT_ID) == "VFRUVFRUVFRUVFRUVFRUVA:orders-3:U1NTU1NTU1NTU1NTU1NTUw"

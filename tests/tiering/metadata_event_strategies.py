"""Any event that the metadata topic may carry, for property tests."""

from hypothesis import strategies as st

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    MAX_SEGMENT_BYTES,
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
UUIDS = st.binary(min_size=16, max_size=16).map(Uuid).filter(lambda uuid: uuid != ZERO_UUID)
TOPICS = st.text("abcdefXYZ0189._-", min_size=1, max_size=249).filter(
    lambda name: name not in (".", "..")
)
PARTITIONS = st.builds(TopicIdPartition, UUIDS, TOPICS, st.integers(0, 2**31 - 1))
SEGMENT_IDS = st.builds(RemoteLogSegmentId, PARTITIONS, UUIDS)
CUSTOM = st.none() | st.binary(min_size=1, max_size=128)


@st.composite
def _segments(draw: st.DrawFn) -> RemoteLogMetadata:
    offsets = sorted(draw(st.lists(OFFSETS, min_size=2, max_size=6)))
    epochs = sorted(
        draw(
            st.lists(
                st.integers(0, 2**31 - 1),
                unique=True,
                min_size=len(offsets) - 1,
                max_size=len(offsets) - 1,
            )
        )
    )
    return RemoteLogSegmentMetadata(
        segment_id=draw(SEGMENT_IDS),
        start_offset=offsets[0],
        end_offset=offsets[-1],
        max_timestamp_ms=draw(INT64),
        broker_id=draw(INT32),
        event_timestamp_ms=draw(INT64),
        segment_size_bytes=draw(st.integers(0, MAX_SEGMENT_BYTES)),
        segment_leader_epochs=tuple(zip(epochs, offsets, strict=False)),
        state=draw(st.sampled_from(RemoteLogSegmentState)),
        custom_metadata=draw(CUSTOM),
        txn_index_empty=draw(st.booleans()),
    )


_UPDATES: st.SearchStrategy[RemoteLogMetadata] = st.builds(
    RemoteLogSegmentMetadataUpdate,
    segment_id=SEGMENT_IDS,
    event_timestamp_ms=INT64,
    state=st.sampled_from(list(RemoteLogSegmentState)[1:]),
    broker_id=INT32,
    custom_metadata=CUSTOM,
)

_PARTITION_DELETES: st.SearchStrategy[RemoteLogMetadata] = st.builds(
    RemotePartitionDeleteMetadata,
    topic_id_partition=PARTITIONS,
    state=st.sampled_from(RemotePartitionDeleteState),
    event_timestamp_ms=INT64,
    broker_id=INT32,
)

EVENTS: st.SearchStrategy[RemoteLogMetadata] = _segments() | _UPDATES | _PARTITION_DELETES

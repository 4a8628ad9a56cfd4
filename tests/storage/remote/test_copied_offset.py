"""How far the tier has a log is the same whether it is asked once or again and again."""

from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.copied_offset import CopiedOffset
from tierlog.storage.remote.remote_lineage import LogExtent, copied_up_to
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

PARTITION = TopicIdPartition(Uuid(b"T" * 16), "orders", 0)
STATE = RemoteLogSegmentState


def apply(remote: RemoteLog, number: int, state: RemoteLogSegmentState) -> None:
    """An event of one of a few segments of five records each; some overlap the next."""
    start = 5 * (number % 8)
    segment_id = RemoteLogSegmentId(PARTITION, Uuid(number.to_bytes(16, "big")))
    if state is STATE.COPY_SEGMENT_STARTED:
        remote.apply_copy_started(
            RemoteLogSegmentMetadata(
                segment_id=segment_id,
                start_offset=start,
                end_offset=start + 4 + 3 * (number // 8),
                max_timestamp_ms=0,
                broker_id=0,
                event_timestamp_ms=0,
                segment_size_bytes=1,
                segment_leader_epochs=((number // 12, start),),
            )
        )
    else:
        remote.apply_update(
            RemoteLogSegmentMetadataUpdate(
                segment_id=segment_id, event_timestamp_ms=0, state=state, broker_id=0
            )
        )


STEPS = st.tuples(
    st.integers(0, 15), st.sampled_from(list(STATE)), st.integers(0, 10), st.integers(20, 50)
)


@given(st.lists(STEPS, max_size=60))
def test_asking_again_and_again_makes_no_difference(
    steps: list[tuple[int, RemoteLogSegmentState, int, int]],
) -> None:
    remote = RemoteLog(PARTITION)
    copied, log_start, local_start = CopiedOffset(remote), 0, 0
    for number, state, moved, end in steps:
        apply(remote, number, state)
        log_start = max(log_start, moved - 6)
        local_start = max(local_start, log_start + moved)
        bounds = LogExtent(log_start, local_start, end)
        history = [(0, log_start)] if end < 40 else [(0, log_start), (1, 40)]
        assert copied.of(history, bounds) == copied_up_to(remote, history, bounds)

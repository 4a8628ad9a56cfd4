"""What a tiered log claims to have and nobody could read."""

from tierlog.storage.remote.log_gaps import begun_copies_in_gaps, first_gap, log_has_gap
from tierlog.storage.remote.remote_lineage import LogExtent
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.storage.remote.lineage_segments import remote_log, segment

HISTORY = [(0, 0), (2, 15)]
BOUNDS = LogExtent(log_start_offset=5, local_log_start_offset=30, log_end_offset=50)


def test_a_log_whose_tier_reaches_its_disk_has_no_gap() -> None:
    log = remote_log(segment(1, 0, 9, [(0, 0)]), segment(2, 10, 35, [(0, 10), (2, 15)]))
    assert not log_has_gap(log, HISTORY, BOUNDS)
    assert log_has_gap(log, HISTORY, BOUNDS._replace(local_log_start_offset=40))
    assert not log_has_gap(remote_log(), HISTORY, LogExtent(30, 30, 50))


def test_the_first_offset_that_is_missing_is_reported() -> None:
    log = remote_log(segment(1, 0, 9, [(0, 0)]), segment(2, 12, 14, [(0, 12)]))
    assert first_gap(log, HISTORY, 5, 30) == 10
    assert first_gap(log, HISTORY, 12, 30) == 15
    assert first_gap(log, HISTORY, 12, 15) is None
    # Records of another epoch than the history's are other records.
    assert first_gap(remote_log(segment(1, 0, 40, [(1, 0)])), HISTORY, 5, 30) == 5


def test_a_copy_that_never_ended_may_be_the_only_one() -> None:
    covered = segment(2, 10, 14, [(0, 10)])
    log = remote_log(segment(1, 0, 14, [(0, 0)]))
    begun = {
        3: segment(3, 15, 20, [(2, 15)]),
        4: segment(4, 21, 40, [(2, 21)]),
        # On the disk, below the log start, of another history, or beyond the end of the log:
        5: segment(5, 30, 40, [(2, 30)]),
        6: segment(6, 0, 4, [(0, 0)]),
        7: segment(7, 15, 20, [(1, 15)]),
        8: segment(8, 15, 60, [(2, 15)]),
    }
    # Copied while the log began at 16, in its midst:
    begun[9] = segment(9, 15, 20, [(2, 16)])
    for each in (covered, *begun.values()):
        log.apply_copy_started(each)
    assert begun_copies_in_gaps(log, HISTORY, BOUNDS) == [begun[3], begun[4], begun[9]]
    deleted = RemoteLogSegmentMetadataUpdate(
        segment_id=begun[3].segment_id,
        event_timestamp_ms=1,
        state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        broker_id=0,
    )
    log.apply_update(deleted)
    assert begun_copies_in_gaps(log, HISTORY, BOUNDS) == [begun[4], begun[9]]

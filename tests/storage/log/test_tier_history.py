"""The leader epochs of a log that has lost them, as the segments in the tier tell them."""

from tierlog.storage.log.tier_history import mended_history
from tierlog.storage.remote.remote_lineage import LogExtent
from tierlog.tests.storage.remote.lineage_segments import remote_log, segment


def test_segments_tell_their_epochs_down_to_the_log_start() -> None:
    remote = remote_log(segment(1, 0, 9, [(0, 0)]), segment(2, 10, 29, [(0, 10), (2, 13)]))
    assert mended_history(remote, (), LogExtent(0, 30, 40)) == [(0, 0), (2, 13)]
    assert mended_history(remote, (), LogExtent(5, 30, 40)) == [(0, 5), (2, 13)]


def test_a_segment_tells_nothing_below_the_log_start_of_its_copy() -> None:
    """Its epochs begin at 8, where another copy still has what lies below."""
    remote = remote_log(
        segment(1, 0, 6, [(0, 0)]),
        segment(2, 0, 9, [(0, 8)]),
        segment(3, 7, 8, [(0, 7)]),
        segment(4, 10, 29, [(2, 10)]),
    )
    assert mended_history(remote, (), LogExtent(0, 30, 40)) == [(0, 0), (2, 10)]
    remote = remote_log(segment(1, 0, 9, [(0, 0), (1, 7)]), segment(2, 7, 21, [(1, 10), (2, 12)]))
    assert mended_history(remote, (), LogExtent(0, 22, 40)) == [(0, 0), (1, 7), (2, 12)]

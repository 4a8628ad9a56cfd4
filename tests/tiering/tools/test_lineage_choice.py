"""Which segments are a partition's log, decided from the segments alone.

The stories are those of KIP-405's fetch scenarios: what a follower may fetch there is what must
come back here.
"""

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.tiering.segments import PARTITION, segment_metadata
from tierlog.tiering.tools.lineage_choice import (
    Hole,
    after_last_hole,
    choose_lineage,
    remote_log_of,
    tail_of,
)


def segment(
    number: int, first: int, last: int, *epochs: tuple[int, int], written: int = 0
) -> RemoteLogSegmentMetadata:
    found = segment_metadata(number, offsets=(first, last), epochs=epochs or ((0, first),))
    return replace(found, event_timestamp_ms=written or number)


def ids(segments: tuple[RemoteLogSegmentMetadata, ...]) -> list[int]:
    return [int.from_bytes(each.id, "big") for each in segments]


def test_one_leader_one_log() -> None:
    segments = [segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29)]
    lineage = choose_lineage(segments, [(0, 0)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (0, 30)
    assert ids(lineage.segments) == [1, 2, 3]
    assert lineage.left_out == ()
    assert lineage.holes == ()
    assert lineage.history == ((0, 0),)


def test_the_log_starts_where_its_first_segment_does() -> None:
    """Retention has taken the older ones; that is no hole."""
    lineage = choose_lineage([segment(2, 10, 19, (3, 10))], [(1, 4), (3, 7)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (10, 20)
    assert lineage.history == ((3, 10),)
    assert lineage.holes == ()


def test_a_missing_segment_is_a_hole_and_the_log_may_begin_after_it() -> None:
    segments = [segment(1, 0, 9), segment(3, 20, 29), segment(5, 40, 49)]
    lineage = choose_lineage(segments, [(0, 0)])
    assert lineage.holes == (Hole(10, 19), Hole(30, 39))
    shorter = after_last_hole(lineage)
    assert (shorter.log_start_offset, shorter.log_end_offset) == (40, 50)
    assert ids(shorter.segments) == [5]
    assert ids(shorter.left_out) == [1, 3]
    assert shorter.history == ((0, 40),)
    assert after_last_hole(shorter) is shorter


def test_a_log_that_began_in_the_midst_of_a_segment_begins_there() -> None:
    lineage = choose_lineage([segment(1, 0, 9, (0, 5)), segment(2, 10, 19)], [(0, 5)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (5, 20)
    assert ids(lineage.segments) == [1, 2]
    assert lineage.history == ((0, 5),)
    assert lineage.holes == ()


def test_what_was_deleted_before_a_segment_was_copied_is_no_hole() -> None:
    """Its leader epochs begin where the log began then, so all below had been deleted."""
    segments = [segment(1, 0, 9), segment(3, 15, 24, (0, 20)), segment(4, 25, 29, (1, 25))]
    lineage = choose_lineage(segments, [(0, 0), (1, 25)])
    assert lineage.holes == ()
    assert (lineage.log_start_offset, lineage.log_end_offset) == (20, 30)
    assert ids(lineage.segments) == [3, 4]
    assert ids(lineage.left_out) == [1]
    # A hole above stays one.
    lineage = choose_lineage([*segments, segment(5, 40, 49, (1, 40))], [(0, 0), (1, 25)])
    assert lineage.holes == (Hole(30, 39),)
    assert lineage.log_start_offset == 20


def test_where_another_copy_has_what_was_deleted_it_comes_back() -> None:
    segments = [segment(1, 0, 9), segment(2, 10, 19), segment(3, 15, 24, (0, 20))]
    lineage = choose_lineage(segments, [(0, 0)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (0, 25)
    assert lineage.holes == ()


def test_a_copy_made_twice_is_kept_once() -> None:
    """The first was stored, but its COPY_SEGMENT_FINISHED got lost with the broker."""
    segments = [segment(1, 0, 9), segment(2, 0, 9), segment(3, 10, 19)]
    lineage = choose_lineage(segments, [(0, 0)])
    assert len(lineage.segments) == 2
    assert len(lineage.left_out) == 1
    assert lineage.holes == ()


def test_scenario_3_the_branch_that_was_cut_off_keeps_what_both_share() -> None:
    """Offset 0 is in seg-0-1 only; its offset 1 is of the dead branch."""
    dead, alive = segment(1, 0, 1, (0, 0)), segment(2, 1, 1, (1, 1))
    lineage = choose_lineage([dead, alive], [(0, 0), (1, 1)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (0, 2)
    assert ids(lineage.segments) == [1, 2]
    assert lineage.holes == ()


def test_scenario_4_an_unclean_election_leaves_the_longer_branch_behind() -> None:
    """The newest leader is right, though the old branch reaches further."""
    old, new = segment(1, 0, 2, (0, 0)), segment(2, 0, 1, (0, 0), (1, 1))
    lineage = choose_lineage([old, new], [(0, 0), (1, 1)])
    assert lineage.log_end_offset == 2
    # Offset 0 is the same in both.
    assert ids(lineage.segments)[-1] == 2
    assert lineage.highest_epoch == 1


def test_scenario_5_the_history_of_the_last_leader_decides() -> None:
    first = segment(1, 0, 3, (0, 0))
    diverged = segment(2, 0, 3, (0, 0), (1, 2))
    last = segment(3, 4, 5, (0, 4), (2, 5))
    lineage = choose_lineage([first, diverged, last], [(0, 0), (2, 5)])
    assert (lineage.log_start_offset, lineage.log_end_offset) == (0, 6)
    assert 1 in ids(lineage.segments)
    assert 3 in ids(lineage.segments)
    assert lineage.holes == ()


def test_a_new_leader_must_be_above_the_dead_branches_too() -> None:
    """The branch with the highest epoch is the tail, so nothing can be above it."""
    segments = [segment(1, 0, 9, (0, 0)), segment(2, 10, 12, (7, 10))]
    assert choose_lineage(segments, [(0, 0), (7, 10)]).highest_epoch == 7


def test_the_tail_is_of_the_newest_leader_then_the_longest_then_the_youngest() -> None:
    long, newer = segment(1, 0, 99, (3, 0)), segment(2, 0, 9, (4, 0))
    assert tail_of([long, newer]) is newer
    longer = segment(3, 5, 30, (4, 5))
    assert tail_of([long, newer, longer]) is longer
    again = segment(4, 5, 30, (4, 5), written=99)
    assert tail_of([longer, again]) is again


@st.composite
def one_leaders_cuts(draw: st.DrawFn) -> tuple[list[RemoteLogSegmentMetadata], set[int], int]:
    """Segments of leaders that cut one history differently; some are lost."""
    end = draw(st.integers(1, 40))
    starts = sorted(draw(st.sets(st.integers(1, end - 1) if end > 1 else st.just(1), max_size=3)))
    history = [(0, 0), *((epoch + 1, start) for epoch, start in enumerate(starts) if start < end)]
    segments: list[RemoteLogSegmentMetadata] = []
    for number in range(draw(st.integers(1, 8))):
        first = draw(st.integers(0, end - 1))
        last = draw(st.integers(first, end - 1))
        epochs = [(epoch_of_offset(history, first), first)]
        epochs += [(epoch, start) for epoch, start in history if first < start <= last]
        segments.append(segment(number + 1, first, last, *epochs))
    held = {offset for each in segments for offset in range(each.start_offset, each.end_offset + 1)}
    return segments, held, tail_of(segments).end_offset + 1


@given(one_leaders_cuts())
@settings(max_examples=300)
def test_every_offset_that_some_segment_holds_comes_back(
    case: tuple[list[RemoteLogSegmentMetadata], set[int], int],
) -> None:
    segments, held, end = case
    tail = tail_of(segments)
    starts = {start: epoch for each in segments for epoch, start in each.segment_leader_epochs}
    history: list[tuple[int, int]] = []
    for start, epoch in sorted(starts.items()):
        if start <= tail.end_offset and (not history or history[-1][0] != epoch):
            history.append((epoch, start))
    lineage = choose_lineage(segments, history)
    assert lineage.log_end_offset == end
    kept = remote_log_of(PARTITION, lineage.segments)
    missing = {offset for hole in lineage.holes for offset in range(hole.first, hole.last + 1)}
    for offset in range(lineage.log_start_offset, end):
        readable = kept.segment_for(epoch_of_offset(history, offset), offset)
        assert (readable is None) == (offset in missing)
        if readable is not None:
            assert offset in held
    assert missing.isdisjoint(held & set(range(lineage.log_start_offset, end)))

"""What counts as this log's own history in the tier, compared with Kafka's own answers."""

from pathlib import Path

import pytest

from tierlog.storage.remote.remote_lineage import (
    Lineage,
    LogExtent,
    OffsetAndEpoch,
    copied_up_to,
    epoch_of_offset,
    highest_remote_offset,
    remote_log_start_offset,
    without_empty_epochs,
)
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

from .lineage_segments import PARTITION, Epochs, remote_log, segment


def parse(text: str) -> Epochs:
    pairs = (entry.strip().split(":") for entry in text.split(","))
    return [(int(epoch), int(start)) for epoch, start in pairs]


@pytest.mark.scenario("4.4")
def test_the_answer_is_kafkas_for_each_recorded_case() -> None:
    recorded = Path(__file__).with_name("remote_lineage_answers.txt").read_text()
    cases = [line.split(";") for line in recorded.splitlines() if not line.startswith("#")]
    assert len(cases) == 300
    for epochs, offsets, history, log_end_offset, expected in cases:
        start, end = offsets.strip().split("-")
        each = segment(1, int(start), int(end), parse(epochs))
        answer = Lineage(parse(history)).holds(each, int(log_end_offset))
        assert str(answer).lower() == expected.strip(), (epochs, offsets, history, log_end_offset)


@pytest.mark.scenario("4.4")
@pytest.mark.parametrize(
    ("offsets", "epochs", "history", "within"),
    [
        ((14, 150), [(5, 14), (7, 15), (9, 100)], [(7, 51), (9, 100)], True),
        ((14, 150), [(5, 14), (7, 15), (9, 100)], [(7, 51), (9, 101)], False),
        ((0, 2), [(0, 0)], [(0, 0), (1, 1)], False),
        ((0, 3), [(0, 0), (1, 2)], [(0, 0), (2, 5)], False),
        ((0, 9), [(3, 0)], [(1, 0), (2, 5)], False),
    ],
    ids=["overlap KAFKA-16890", "next epoch differs", "dead branch", "other branch", "later epoch"],
)
def test_a_segment_counts_only_where_it_tells_the_same_story(
    offsets: tuple[int, int], epochs: Epochs, history: Epochs, within: bool
) -> None:
    assert Lineage(history).holds(segment(1, *offsets, epochs), 1000) is within


def test_an_empty_history_holds_nothing() -> None:
    assert not Lineage([]).holds(segment(1, 0, 9, [(0, 0)]), 100)


@pytest.mark.scenario("4.4")
def test_a_segment_that_reaches_the_log_end_is_not_ours() -> None:
    each = segment(1, 0, 9, [(0, 0)])
    assert [Lineage([(0, 0)]).holds(each, end) for end in (9, 10)] == [False, True]


@pytest.mark.scenario("4.1")
@pytest.mark.parametrize(
    ("history", "remote", "expected"),
    [
        ([(0, 0), (1, 500)], segment(1, 0, 200, [(0, 0)]), OffsetAndEpoch(200, 0)),
        ([(0, 0), (1, 500)], None, OffsetAndEpoch(-1, -1)),
        ([(0, 0), (1, 150), (2, 300)], segment(1, 0, 200, [(0, 0)]), OffsetAndEpoch(149, 0)),
        ([(0, 0)], segment(1, 0, 900, [(0, 0)]), OffsetAndEpoch(799, 0)),
        ([], segment(1, 0, 9, [(0, 0)]), OffsetAndEpoch(-1, -1)),
    ],
    ids=["next copy from 201", "nothing copied", "unclean election", "past our log end", "empty"],
)
def test_a_new_leader_goes_on_where_its_own_history_ends_in_the_tier(
    history: Epochs, remote: RemoteLogSegmentMetadata | None, expected: OffsetAndEpoch
) -> None:
    log = remote_log(*([remote] if remote else []))
    assert highest_remote_offset(log, history, 800) == expected


@pytest.mark.scenario("3.6")
def test_copying_restarts_after_the_last_epoch_that_has_a_copy() -> None:
    log = remote_log(segment(1, 0, 2, [(0, 0)]), segment(2, 3, 4, [(1, 3)]))
    history = [(0, 0), (1, 3), (2, 6), (3, 7)]
    assert highest_remote_offset(log, history, 8) == OffsetAndEpoch(4, 1)


@pytest.mark.scenario("4.2")
@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ([segment(1, 500, 539, [(1, 500)]), segment(2, 540, 700, [(1, 540), (2, 550)])], 500),
        ([], 250),
        ([segment(1, 600, 700, [(2, 600)])], 600),
    ],
)
def test_the_log_begins_with_the_oldest_epoch_that_has_a_copy(
    remote: list[RemoteLogSegmentMetadata], expected: int
) -> None:
    history = [(0, 0), (1, 250), (2, 550)]
    assert remote_log_start_offset(remote_log(*remote), history, 250) == expected


@pytest.mark.scenario("4.2")
def test_a_copy_that_is_not_finished_is_no_beginning() -> None:
    log = RemoteLog(PARTITION)
    log.apply_copy_started(segment(1, 100, 200, [(0, 100)]))
    assert remote_log_start_offset(log, [(0, 0), (1, 250)], 250) == 250


def test_epoch_of_an_offset() -> None:
    history = [(0, 0), (1, 3), (4, 5)]
    assert [epoch_of_offset(history, offset) for offset in (0, 2, 3, 5, 99)] == [0, 0, 1, 4, 4]
    assert epoch_of_offset([(2, 10)], 9) == -1


@pytest.mark.scenario("4.4")
def test_epochs_without_records_are_left_out() -> None:
    assert without_empty_epochs([(0, 0), (1, 5), (2, 5), (3, 5), (4, 9)]) == [
        (0, 0),
        (3, 5),
        (4, 9),
    ]


def delete(log: RemoteLog, each: RemoteLogSegmentMetadata) -> None:
    log.apply_update(
        RemoteLogSegmentMetadataUpdate(
            segment_id=each.segment_id,
            event_timestamp_ms=2,
            state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
            broker_id=0,
        )
    )


def test_copied_reaches_to_the_first_hole_however_much_lies_behind_it() -> None:
    first, second, third = (
        segment(number, number * 10, number * 10 + 9, [(0, number * 10)]) for number in range(3)
    )
    log = remote_log(first, second, third)
    everything_local = LogExtent(0, 0, 100)
    assert copied_up_to(log, [(0, 0)], everything_local) == 29
    delete(log, second)
    assert copied_up_to(log, [(0, 0)], everything_local) == 9
    assert copied_up_to(log, [(0, 0)], LogExtent(0, 20, 100)) == 29


@pytest.mark.parametrize(
    ("bounds", "copied"),
    [
        (LogExtent(0, 0, 100), 29),
        (LogExtent(15, 15, 100), 29),
        (LogExtent(30, 30, 100), 29),
        (LogExtent(50, 50, 100), 29),
        (LogExtent(0, 0, 25), 24),
    ],
    ids=["all", "start inside", "all expired", "start above", "log end inside"],
)
def test_what_lies_below_the_log_start_needs_no_copy(bounds: LogExtent, copied: int) -> None:
    log = remote_log(segment(1, 0, 9, [(0, 0)]), segment(2, 10, 29, [(0, 10)]))
    assert copied_up_to(log, [(0, bounds.log_start_offset)], bounds) == copied


def test_nothing_copied_is_minus_one() -> None:
    assert copied_up_to(remote_log(), [(0, 0)], LogExtent(0, 0, 100)) == -1
    assert copied_up_to(remote_log(), [(0, 7)], LogExtent(7, 7, 100)) == -1
    assert copied_up_to(remote_log(), [], LogExtent(0, 0, 0)) == -1

"""Which remote segments go, for which reason, and that none goes early."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_retention import (
    DeleteReason,
    Exempt,
    LineageSize,
    LogFacts,
    RetentionDecision,
    RetentionLimits,
    decide_retention,
    local_only_bytes,
)
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

PARTITION = TopicIdPartition(Uuid(b"T" * 16), "orders", 0)
STATE = RemoteLogSegmentState
UNLIMITED = RetentionLimits(-1, -1)
NOW_MS = 1_000_000
Epochs = list[tuple[int, int]]
LOG_START, TIME, SIZE = DeleteReason.LOG_START, DeleteReason.TIME, DeleteReason.SIZE
DEAD_LINEAGE, UNFINISHED = DeleteReason.DEAD_LINEAGE, DeleteReason.UNFINISHED


def segment(
    start: int, end: int, epochs: Epochs | None = None, *, size: int = 100, at_ms: int = 0
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, Uuid(start.to_bytes(8, "big") * 2)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=at_ms,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_bytes=size,
        segment_leader_epochs=tuple(epochs or [(0, start)]),
    )


def numbered(each: RemoteLogSegmentMetadata, number: int) -> RemoteLogSegmentMetadata:
    """Another copy."""
    return replace(
        each, segment_id=RemoteLogSegmentId(PARTITION, Uuid(number.to_bytes(16, "little")))
    )


def move(remote: RemoteLog, each: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
    remote.apply_update(
        RemoteLogSegmentMetadataUpdate(
            segment_id=each.segment_id, event_timestamp_ms=1, state=state, broker_id=0
        )
    )


def tier(*segments: RemoteLogSegmentMetadata) -> RemoteLog:
    remote = RemoteLog(PARTITION)
    for each in segments:
        remote.apply_copy_started(each)
        move(remote, each, STATE.COPY_SEGMENT_FINISHED)
    return remote


def facts(
    end: int, *, start: int = 0, history: Epochs | None = None, local_only: int = 0
) -> LogFacts:
    return LogFacts(history or [(0, start)], start, end, end, local_only)


def answer(decision: RetentionDecision) -> tuple[int, list[tuple[int, DeleteReason]]]:
    expired = [(each.segment.start_offset, each.reason) for each in decision.expired]
    return decision.log_start_offset, expired


TENS = [segment(base, base + 9, at_ms=base * 100) for base in range(0, 50, 10)]


def test_without_limits_nothing_goes() -> None:
    assert answer(decide_retention(tier(*TENS), facts(60), UNLIMITED, 10**12)) == (0, [])


@pytest.mark.scenario("2.6")
def test_what_is_older_than_the_limit_goes_and_the_log_starts_after_it() -> None:
    limits = RetentionLimits(NOW_MS - 2000, -1)
    decision = decide_retention(tier(*TENS), facts(60), limits, NOW_MS)
    assert answer(decision) == (20, [(0, TIME), (10, TIME)])


def test_exactly_the_limit_is_not_too_old() -> None:
    """The comparison is strict (KAFKA-20091)."""
    limits = RetentionLimits(NOW_MS, -1)
    assert answer(decide_retention(tier(*TENS), facts(60), limits, NOW_MS)) == (0, [])
    assert answer(decide_retention(tier(*TENS), facts(60), limits, NOW_MS + 1)) == (10, [(0, TIME)])


@pytest.mark.scenario("2.6")
def test_a_record_from_the_future_keeps_its_segment_and_all_after_it() -> None:
    future = replace(TENS[1], max_timestamp_ms=NOW_MS + 1)
    remote = tier(TENS[0], future, *TENS[2:])
    decision = decide_retention(remote, facts(60), RetentionLimits(1, -1), NOW_MS)
    assert answer(decision) == (10, [(0, TIME)])


@pytest.mark.scenario("2.6")
def test_the_oldest_go_while_the_log_is_too_large_without_them() -> None:
    limits = RetentionLimits(-1, 320)
    decision = decide_retention(tier(*TENS), facts(60, local_only=50), limits, NOW_MS)
    assert answer(decision) == (20, [(0, SIZE), (10, SIZE)])
    kept = decide_retention(tier(*TENS), facts(60, local_only=20), RetentionLimits(-1, 421), 0)
    assert answer(kept) == (0, [])


@pytest.mark.scenario("4.5")
def test_what_goes_by_age_counts_towards_the_size_as_well() -> None:
    limits = RetentionLimits(NOW_MS - 1000, 300)
    decision = decide_retention(tier(*TENS), facts(60), limits, NOW_MS)
    assert answer(decision) == (20, [(0, TIME), (10, SIZE)])


@pytest.mark.scenario("3.7")
def test_what_ends_below_the_log_start_goes_and_what_reaches_it_stays() -> None:
    decision = decide_retention(tier(*TENS), facts(60, start=25), UNLIMITED, NOW_MS)
    assert answer(decision) == (25, [(0, LOG_START), (10, LOG_START)])


def test_what_lies_below_the_log_start_costs_no_other_segment_its_place() -> None:
    decision = decide_retention(tier(*TENS), facts(60, start=20), RetentionLimits(-1, 300), NOW_MS)
    assert answer(decision) == (20, [(0, LOG_START), (10, LOG_START)])


def test_no_segment_of_a_newer_epoch_goes_by_the_log_start() -> None:
    """A newer leader's segment is that leader's business."""
    remote = tier(segment(0, 9, [(0, 0), (5, 4)]))
    decision = decide_retention(remote, facts(60, start=25), UNLIMITED, NOW_MS)
    assert answer(decision) == (25, [])


@pytest.mark.scenario("4.5")
def test_a_dead_branch_neither_counts_nor_holds_anything_up() -> None:
    """KAFKA-15351: the branch of epoch 1 began at 5, ours of epoch 2 at 20."""
    remote = tier(
        segment(0, 9, [(0, 0), (1, 5)], size=10_000),
        numbered(segment(0, 9), 7),
        segment(10, 19),
        segment(20, 29, [(2, 20)]),
    )
    lineage: Epochs = [(0, 0), (2, 20)]
    assert LineageSize(remote).of(facts(40, history=lineage)) == 300
    limits = RetentionLimits(-1, 200)
    decision = decide_retention(remote, facts(40, history=lineage), limits, NOW_MS)
    assert answer(decision) == (10, [(0, SIZE)])
    assert decision.expired[0].segment.segment_size_bytes == 100


@pytest.mark.scenario("4.5")
def test_segments_of_a_lost_history_go_though_nothing_has_a_limit() -> None:
    remote = tier(segment(0, 99, [(0, 0), (1, 50)]), segment(100, 199, [(1, 100), (2, 150)]))
    lineage: Epochs = [(2, 0)]
    decision = decide_retention(remote, facts(10, history=lineage), UNLIMITED, NOW_MS)
    assert answer(decision) == (0, [(0, DEAD_LINEAGE)])


def test_a_history_that_begins_above_the_log_start_proves_nothing() -> None:
    remote = tier(segment(0, 99, [(0, 0)]))
    lost = LogFacts([(3, 100)], 0, 120, 120, 0)
    assert answer(decide_retention(remote, lost, UNLIMITED, NOW_MS)) == (0, [])
    assert answer(decide_retention(remote, lost._replace(history=[]), UNLIMITED, 0)) == (0, [])


def test_an_empty_log_lets_what_was_left_below_its_start_go() -> None:
    remote = tier(segment(0, 9))
    remote.apply_copy_started(segment(10, 19))
    remote.apply_copy_started(segment(20, 29))
    empty = LogFacts([], 20, 20, 20, 0)
    assert answer(decide_retention(remote, empty, UNLIMITED, NOW_MS)) == (20, [(10, UNFINISHED)])


def test_a_deletion_that_has_begun_is_ended_whatever_the_limits() -> None:
    remote = tier(*TENS)
    move(remote, TENS[0], STATE.DELETE_SEGMENT_STARTED)
    decision = decide_retention(remote, facts(60, start=10), UNLIMITED, NOW_MS)
    assert answer(decision) == (10, [(0, UNFINISHED)])


def test_a_deletion_that_has_begun_costs_no_other_segment_its_place() -> None:
    """Its bytes count no more, or each failed deletion would take the next segment too."""
    remote = tier(*TENS)
    limits = RetentionLimits(-1, 400)
    assert answer(decide_retention(remote, facts(60), limits, NOW_MS)) == (10, [(0, SIZE)])
    move(remote, TENS[0], STATE.DELETE_SEGMENT_STARTED)
    decision = decide_retention(remote, facts(60, start=10), limits, NOW_MS)
    assert answer(decision) == (10, [(0, UNFINISHED)])


def test_what_this_broker_has_in_hand_is_left_alone() -> None:
    """KAFKA-16511, KAFKA-17062: a segment that is being copied here."""
    remote = tier(*TENS)
    copying = segment(50, 59)
    remote.apply_copy_started(copying)
    in_hand = Exempt({copying.id, TENS[0].id})
    decision = decide_retention(remote, facts(70, start=20), UNLIMITED, NOW_MS, in_hand)
    assert answer(decision) == (20, [(10, LOG_START)])
    # When copying goes on it removes what it left; otherwise nobody else would.
    remote.apply_copy_started(numbered(segment(40, 49), 99))
    for copies, expected in ((True, []), (False, [(40, UNFINISHED)])):
        decision = decide_retention(remote, facts(70), UNLIMITED, NOW_MS, Exempt((), copies))
        assert answer(decision) == (0, expected)
        # What finished segments do not hold may be in that copy alone.
        assert [each.segment for each in decision.withheld] == ([] if copies else [copying])


@pytest.mark.scenario("4.5")
def test_a_copy_that_others_cover_counts_for_nothing_until_the_log_start_passes_it() -> None:
    short = numbered(segment(0, 4, at_ms=10**9), 9)
    remote = tier(short, *TENS)
    assert not remote.serves(short)
    assert LineageSize(remote).of(facts(60)) == 500
    assert answer(decide_retention(remote, facts(60), RetentionLimits(-1, 500), 0)) == (0, [])
    by_age = decide_retention(remote, facts(60), RetentionLimits(NOW_MS - 1500, -1), NOW_MS)
    assert answer(by_age) == (20, [(0, LOG_START), (0, TIME), (10, TIME)])
    passed = decide_retention(remote, facts(60, start=20), UNLIMITED, NOW_MS)
    assert [each.reason for each in passed.expired] == [LOG_START] * 3


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    known = facts(60)._replace(high_watermark=15)
    decision = decide_retention(tier(*TENS), known, RetentionLimits(0, -1), NOW_MS)
    assert answer(decision) == (15, [(0, TIME)])


@pytest.mark.scenario("4.5")
def test_a_local_segment_counts_unless_the_tier_has_each_of_its_records() -> None:
    """KAFKA-20732: counted twice, what is local and remote would be too large together."""
    remote = tier(segment(0, 9), segment(20, 29))
    local = [(0, 10, 1), (10, 20, 2), (20, 30, 4), (25, 35, 8), (35, 35, 0)]
    assert local_only_bytes(remote, [(0, 0)], local) == 2 + 8
    assert local_only_bytes(remote, [(0, 0), (1, 25)], [(20, 30, 4)]) == 4


@st.composite
def tiers(draw: st.DrawFn) -> tuple[RemoteLog, int, list[RemoteLogSegmentMetadata]]:
    """A run of segments, perhaps with a second copy of some; the log's start and its segments."""
    made: list[RemoteLogSegmentMetadata] = []
    offset = 0
    for _ in range(draw(st.integers(1, 8))):
        end = offset + draw(st.integers(0, 9))
        size, at_ms = draw(st.integers(1, 50)), draw(st.integers(NOW_MS - 50, NOW_MS + 10))
        made.append(segment(offset, end, size=size, at_ms=at_ms))
        offset = end + 1
    copies = [numbered(each, 1000 + each.start_offset) for each in made if draw(st.booleans())]
    remote = tier(*made, *copies)
    for each in made:
        if draw(st.integers(0, 9)) == 0:
            move(remote, each, STATE.DELETE_SEGMENT_STARTED)
    return remote, draw(st.integers(0, offset)), made


@given(tiers(), st.integers(-1, 60), st.integers(-1, 300), st.integers(0, 100))
def test_nothing_within_retention_is_deleted(
    made: tuple[RemoteLog, int, list[RemoteLogSegmentMetadata]],
    retention_ms: int,
    retention_bytes: int,
    local_only: int,
) -> None:
    remote, start, segments = made
    end = segments[-1].end_offset + 1
    known = LogFacts([(0, start)], start, end, end, local_only)
    limits = RetentionLimits(retention_ms, retention_bytes)
    before = LineageSize(remote).of(known)
    decision = decide_retention(remote, known, limits, NOW_MS)
    assert start <= decision.log_start_offset <= end
    freed = 0
    for each, reason in decision.expired:
        if reason is UNFINISHED:
            assert each.state is not STATE.COPY_SEGMENT_FINISHED
            continue
        assert each.end_offset < decision.log_start_offset
        freed += each.segment_size_bytes if reason in (TIME, SIZE) else 0
        if reason is TIME:
            assert retention_ms >= 0
            assert each.max_timestamp_ms < NOW_MS - retention_ms
        elif reason is SIZE:
            assert before + local_only - freed >= retention_bytes >= 0
        else:
            assert reason is LOG_START
            assert each.end_offset < start or not remote.serves(each)
    assert len({each.segment.id for each in decision.expired}) == len(decision.expired)
    again = decide_retention(
        remote, known._replace(log_start_offset=decision.log_start_offset), limits, NOW_MS
    )
    assert again.log_start_offset >= decision.log_start_offset


EVENTS = st.tuples(st.integers(0, 11), st.sampled_from(list(STATE)), st.integers(0, 60))


@given(st.lists(EVENTS, max_size=60), st.booleans())
def test_the_running_size_is_the_size(
    events: list[tuple[int, RemoteLogSegmentState, int]], has_branch: bool
) -> None:
    """Segments 0 to 5 are one after the other, the others overlap them or are of a branch."""
    history: Epochs = [(0, 0), (2, 30)] if has_branch else [(0, 0)]
    twins = RemoteLog(PARTITION), RemoteLog(PARTITION)
    size, log_start = LineageSize(twins[0]), 0
    for number, state, start in events:
        base = 10 * (number % 6)
        end = base + (9 if number < 6 else 4 + 3 * (number - 6))
        epochs: Epochs = [(number % 3, base)] if number > 8 else [(0, base)]
        each = numbered(segment(base, end, epochs, size=number + 1), number + 1)
        for remote in twins:
            if state is STATE.COPY_SEGMENT_STARTED:
                remote.apply_copy_started(each)
            else:
                move(remote, each, state)
        log_start = max(log_start, start if start % 7 == 0 else 0)
        lineage = [(0, log_start), *history[1:]] if log_start < 30 else history[-1:]
        known = facts(100, start=log_start, history=lineage)
        assert size.of(known) == LineageSize(twins[1]).of(known)


def test_two_who_ask_in_turn_get_the_same_answer() -> None:
    remote = tier(*TENS)
    first, second = LineageSize(remote), LineageSize(remote)
    assert first.of(facts(60)) == 500
    move(remote, TENS[0], STATE.DELETE_SEGMENT_STARTED)
    assert second.of(facts(60)) == 400
    assert first.of(facts(60)) == 400


def test_who_has_not_asked_for_long_looks_at_everything() -> None:
    remote = RemoteLog(PARTITION)
    size = LineageSize(remote)
    for base in range(0, 20_000, 10):
        each = segment(base, base + 9, size=1)
        remote.apply_copy_started(each)
        move(remote, each, STATE.COPY_SEGMENT_FINISHED)
        if base == 100:
            assert size.of(facts(1000)) == 1
        if base < 15_000:
            move(remote, each, STATE.DELETE_SEGMENT_STARTED)
            move(remote, each, STATE.DELETE_SEGMENT_FINISHED)
    assert size.of(facts(30_000)) == 500


def test_a_history_that_begins_anew_kills_no_segment_that_is_the_last_of_its_offsets() -> None:
    """One flipped bit in leader-epoch-checkpoint makes `0 0` to `1 0`."""
    remote = tier(*TENS)
    flipped = LogFacts([(1, 0)], 0, 60, 60, 0, 50)
    decision = decide_retention(remote, flipped, UNLIMITED, NOW_MS)
    assert answer(decision) == (0, [])
    assert [each.segment.start_offset for each in decision.withheld] == [0, 10, 20, 30, 40]


def test_a_dead_lineage_goes_where_the_log_has_its_offsets_otherwise() -> None:
    """Below its start, in its local part, or in segments of its own."""
    dead = [numbered(segment(base, base + 9), 100 + base) for base in range(0, 50, 10)]
    ours = [segment(base, base + 9, [(1, base)]) for base in (10, 20)]
    log = LogFacts([(1, 10)], 10, 60, 60, 0, 30)
    decision = decide_retention(tier(*dead, *ours), log, UNLIMITED, NOW_MS)
    assert answer(decision)[1] == [(base, DEAD_LINEAGE) for base in range(0, 50, 10)]
    assert not decision.withheld
    without_one = decide_retention(tier(*dead, ours[1]), log, UNLIMITED, NOW_MS)
    assert [each.segment.start_offset for each in without_one.withheld] == [10]


def test_a_deletion_that_only_an_event_began_does_not_go_on() -> None:
    """Whoever lets a segment of a living log go raises the log's start first."""
    remote = tier(*TENS)
    for victim in TENS[1:3]:
        move(remote, victim, STATE.DELETE_SEGMENT_STARTED)
    log = LogFacts([(0, 0)], 0, 60, 60, 0, 50)
    decision = decide_retention(remote, log, UNLIMITED, NOW_MS)
    assert answer(decision) == (0, [])
    assert [each.segment.start_offset for each in decision.withheld] == [10, 20]
    raised = decide_retention(remote, log._replace(log_start_offset=20), UNLIMITED, NOW_MS)
    assert answer(raised) == (20, [(10, UNFINISHED), (0, LOG_START)])
    local = decide_retention(remote, log._replace(local_log_start_offset=10), UNLIMITED, NOW_MS)
    assert answer(local)[1] == [(10, UNFINISHED), (20, UNFINISHED)]


def test_a_copy_that_never_ended_goes_where_a_finished_one_has_its_records() -> None:
    remote = tier(*TENS)
    remote.apply_copy_started(numbered(segment(0, 9), 99))
    log = LogFacts([(0, 0)], 0, 60, 60, 0, 50)
    assert answer(decide_retention(remote, log, UNLIMITED, NOW_MS))[1] == [(0, UNFINISHED)]

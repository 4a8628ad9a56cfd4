"""A log as its writers and readers see it: appends, rolls, isolation and its bounds."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.config import LogConfig
from tierlog.storage.log.fetch_data import FetchIsolation, RemoteRead
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.storage.log_home import (
    NOW_MS,
    SMALL,
    LogHome,
    append,
    content,
    everything,
    fetch,
    filled,
    idempotent,
    offsets_in,
    only_batch,
    plain,
)

LOG_END = FetchIsolation.LOG_END


def rolls(log: UnifiedLog, now_ms: int) -> bool:
    """Roll the log if a record of this moment would; whether it did."""
    if not log.local.should_roll(0, log.log_end_offset, now_ms, now_ms):
        return False
    log.roll(now_ms)
    return True


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


@pytest.fixture
def log(tmp_path: Path) -> UnifiedLog:
    return LogHome(tmp_path).open()


def test_offsets_are_dense_and_the_answer_names_them(log: UnifiedLog) -> None:
    first = append(log, plain(3, timestamp=NOW_MS - 5))
    second = append(log, plain(2))
    assert (first.first_offset, first.last_offset, first.max_timestamp) == (0, 2, NOW_MS - 5)
    assert (second.first_offset, second.last_offset) == (3, 4)
    assert (first.log_append_time_ms, first.is_duplicate) == (-1, False)
    assert log.log_end_offset == 5


def test_the_stored_bytes_are_the_sent_bytes(log: UnifiedLog) -> None:
    sent = [plain(count) for count in (1, 2, 3)]
    for view in sent:
        append(log, view)
    assert everything(log) == b"".join(sent)


def test_a_retry_is_answered_with_the_first_answer(log: UnifiedLog) -> None:
    append(log, plain(4))
    append(log, idempotent(0, 3))
    again = append(log, idempotent(0, 3))
    assert (again.is_duplicate, again.first_offset, again.last_offset) == (True, 4, 6)
    assert again.log_append_time_ms == NOW_MS
    assert log.log_end_offset == 7


def test_a_gap_in_the_sequence_changes_nothing(log: UnifiedLog) -> None:
    append(log, idempotent(0))
    with pytest.raises(KafkaError) as caught:
        append(log, idempotent(5))
    assert code_of(caught) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1


def test_a_retry_is_recognised_after_failover_to_a_follower(tmp_path: Path) -> None:
    leader = LogHome(tmp_path).open()
    append(leader, idempotent(0, 2))
    other = tmp_path / "follower"
    other.mkdir()
    follower = LogHome(other).open()
    follower.append_as_follower(memoryview(everything(leader)), NOW_MS)
    again = append(follower, idempotent(0, 2))
    assert (again.is_duplicate, again.first_offset) == (True, 0)


def test_a_follower_keeps_the_leader_s_bytes(tmp_path: Path) -> None:
    leader = filled(LogHome(tmp_path), 30)
    other = tmp_path / "follower"
    other.mkdir()
    follower = LogHome(other).open()
    copied = everything(leader)
    assert len(copied) > SMALL.segment_bytes
    info = follower.append_as_follower(memoryview(copied), NOW_MS)
    assert (info.first_offset, info.last_offset) == (0, 59)
    assert everything(follower) == copied
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    with pytest.raises(KafkaError) as caught:
        follower.append_as_follower(memoryview(copied), NOW_MS)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_refuses_damaged_bytes(tmp_path: Path) -> None:
    view = plain()
    view[-1] ^= 1
    log = LogHome(tmp_path).open()
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(view, NOW_MS)
    assert code_of(caught) is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_a_batch_larger_than_a_segment_is_refused(log: UnifiedLog) -> None:
    with pytest.raises(KafkaError) as caught:
        append(log, plain(size=2000))
    assert code_of(caught) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_flush_messages_makes_every_nth_record_durable(tmp_path: Path) -> None:
    log = LogHome(tmp_path, replace(SMALL, flush_messages=3)).open()
    points: list[int] = []
    for _ in range(7):
        append(log, plain())
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6]


def segments(log: UnifiedLog) -> list[int]:
    return log.local.segments.base_offsets


def test_a_segment_never_exceeds_its_size(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 40)
    assert len(segments(log)) > 3
    assert all(segment.size <= SMALL.segment_bytes for segment in log.local.segments)


def test_a_segment_rolls_by_the_age_of_its_records(tmp_path: Path) -> None:
    log = LogHome(tmp_path, LogConfig(segment_ms=1000)).open()
    append(log, plain(timestamp=NOW_MS))
    append(log, plain(timestamp=NOW_MS + 1000))
    assert segments(log) == [0]
    append(log, plain(timestamp=NOW_MS + 1001))
    assert segments(log) == [0, 2]


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    home = LogHome(tmp_path, LogConfig(segment_index_bytes=36, index_interval_bytes=0))
    log = filled(home, 12)
    assert len(segments(log)) > 2


def test_records_without_timestamps_age_with_their_file(tmp_path: Path) -> None:
    log = LogHome(tmp_path, LogConfig(segment_ms=1000)).open()
    append(log, plain(timestamp=-1))
    assert not rolls(log, NOW_MS + 1000)
    assert rolls(log, NOW_MS + 1001)
    assert segments(log) == [0, 1]


def test_an_empty_segment_is_never_rolled(log: UnifiedLog) -> None:
    log.roll(NOW_MS)
    assert not rolls(log, NOW_MS + 10**12)
    assert segments(log) == [0]


def test_a_roll_leaves_a_snapshot_of_the_producers(log: UnifiedLog) -> None:
    append(log, idempotent(0, 3))
    log.roll(NOW_MS)
    assert list(log.producers.snapshot_offsets) == [3]


def test_a_segment_rolls_before_its_offsets_outgrow_its_index(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path))
    base = log.local.active_segment.base_offset
    assert not log.local.should_roll(1, base + 2**31 - 1, NOW_MS, NOW_MS)
    assert log.local.should_roll(1, base + 2**31, NOW_MS, NOW_MS)


def test_a_full_time_index_rolls_the_segment(tmp_path: Path) -> None:
    # An entry of the time index is larger than one of the other, and made only for a later time.
    config = LogConfig(segment_index_bytes=240, index_interval_bytes=0)
    (tmp_path / "same").mkdir()
    (tmp_path / "later").mkdir()
    same, later = (LogHome(tmp_path / name, config).open() for name in ("same", "later"))
    for number in range(60):
        append(same, plain(timestamp=NOW_MS))
        append(later, plain(timestamp=NOW_MS + number))
    assert len(segments(later)) > len(segments(same)) > 1


def test_the_youngest_record_is_found_in_any_segment(log: UnifiedLog) -> None:
    for timestamp in (NOW_MS, NOW_MS + 500, NOW_MS + 100):
        append(log, plain(timestamp=timestamp))
        log.roll(NOW_MS)
    assert log.offset_for_timestamp(-3) == TimestampAndOffset(NOW_MS + 500, 1, 0)


def test_jitter_brings_rolls_forward(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=500)
    rolled: list[bool] = []
    for name in "abcdefghijklmnop":
        (tmp_path / name).mkdir()
        log = LogHome(tmp_path / name, config).open()
        append(log, plain(timestamp=NOW_MS))
        rolled.append(rolls(log, NOW_MS + 750))
    assert set(rolled) == {True, False}


def test_jitter_spreads_rolls_and_never_delays_them(tmp_path: Path) -> None:
    log = LogHome(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=500)).open()
    append(log, plain(timestamp=NOW_MS))
    assert not rolls(log, NOW_MS + 500)
    assert rolls(log, NOW_MS + 1001)


def test_every_offset_leads_to_the_batch_that_holds_it(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 30)
    for offset in range(60):
        assert offsets_in(fetch(log, offset))[0] == offset - offset % 2


def test_reading_at_or_above_the_bound_is_empty_and_no_error(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path))
    log.update_high_watermark(10)
    assert content(fetch(log, 10)) == b""
    assert content(fetch(log, 15)) == b""
    assert content(fetch(log, 20)) == b""
    assert offsets_in(fetch(log, 15, LOG_END))[0] == 14


@pytest.mark.parametrize("offset", [-1, 21, 10**9])
def test_reading_outside_the_log_is_out_of_range(tmp_path: Path, offset: int) -> None:
    log = filled(LogHome(tmp_path))
    with pytest.raises(KafkaError) as caught:
        fetch(log, offset)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_first_batch_may_exceed_the_limit_if_the_reader_allows(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path))
    assert offsets_in(fetch(log, 5, max_bytes=1)) == [4]
    strict = log.read(5, 1, LOG_END, min_one_message=False)
    assert not isinstance(strict, RemoteRead)
    assert (strict.nbytes, strict.first_entry_incomplete) == (0, True)


def test_a_fetch_carries_the_bounds_of_the_log(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path))
    log.update_high_watermark(12)
    found = fetch(log, 3)
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (12, 12, 0)
    assert found.aborted_transactions is None


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=25),
    limit=st.integers(0, 1500),
    start=st.integers(0, 100),
    watermark=st.integers(0, 100),
)
def test_fetches_are_whole_batches_within_limit_and_bound(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    limit: int,
    start: int,
    watermark: int,
) -> None:
    log = LogHome(tmp_path_factory.mktemp("log")).open()
    sent = [plain(count) for count in counts]
    for view in sent:
        append(log, view)
    ends = [only_batch(view).next_offset for view in sent]
    bound = max((end for end in [0, *ends] if end <= watermark), default=0)
    log.update_high_watermark(bound)
    start = min(start, log.log_end_offset)
    found = log.read(start, limit, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert not isinstance(found, RemoteRead)
    expected: list[memoryview] = []
    for view, end in zip(sent, ends, strict=True):
        if end <= start or start >= bound:
            continue
        base = only_batch(view).base_offset
        is_rolled = expected and log.local.segments.floor(base) is not log.local.segments.floor(
            only_batch(expected[0]).base_offset
        )
        size = sum(map(len, expected)) + len(view)
        if end > bound or is_rolled or (expected and size > limit):
            break
        expected.append(view)
    assert content(found) == b"".join(expected)
    log.release()


@pytest.mark.parametrize("index_interval", [1, 300, 100_000])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_any_limit_from_any_offset_to_any_watermark(
    tmp_path: Path, index_interval: int, is_reopened: bool
) -> None:
    config = LogConfig(segment_bytes=2500, index_interval_bytes=index_interval)
    home = LogHome(tmp_path, config)
    log = home.open()
    sent = [plain(1 + step % 3, size=10 * (step % 7)) for step in range(30)]
    for view in sent:
        append(log, view)
    if is_reopened:
        log.close(NOW_MS)
        log = home.open()
    headers = [only_batch(view) for view in sent]
    for number, first in enumerate(headers):
        for bound in (headers[-1].next_offset, headers[(number + 30) // 2].base_offset):
            log.update_high_watermark(bound)
            segment = log.local.segments.floor(first.base_offset)
            for limit in range(0, 1200, 97):
                taken = b""
                for header in headers[number:]:
                    fits = not taken or len(taken) + header.size_in_bytes <= limit
                    is_same = log.local.segments.floor(header.base_offset) is segment
                    if not (fits and is_same and header.next_offset <= bound):
                        break
                    taken += header.view
                found = fetch(log, first.last_offset, max_bytes=limit)
                assert content(found) == taken


def test_what_is_readable_is_counted_across_segments(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path), 30)
    assert log.read_position(0, LOG_END) == log.size_in_bytes
    assert log.read_position(60, LOG_END) == 0
    assert log.read_position(2, LOG_END) == log.size_in_bytes - len(plain(2))
    log.update_high_watermark(4)
    assert log.read_position(0, FetchIsolation.HIGH_WATERMARK) == 2 * len(plain(2))


def test_a_fetch_stays_readable_while_its_segment_is_deleted(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path, replace(SMALL, retention_bytes=0)), 30)
    found = fetch(log, 0)
    expected = content(found)
    assert log.delete_old_segments(NOW_MS) > 1
    log.delete_pending(NOW_MS + 10**9)
    assert content(found) == expected


def test_the_high_watermark_stays_within_the_log(tmp_path: Path) -> None:
    log = filled(LogHome(tmp_path))
    assert log.update_high_watermark(10**6) == 20
    assert log.update_high_watermark(-5) == 0


def test_the_log_start_moves_forward_only_and_never_beyond_the_watermark(log: UnifiedLog) -> None:
    for epoch in range(5):
        append(log, plain(2), epoch)
    assert log.maybe_increment_log_start_offset(5)
    assert not log.maybe_increment_log_start_offset(3)
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 5)
    assert log.leader_epochs.entries[0] == (2, 5)
    with pytest.raises(KafkaError):
        fetch(log, 4)
    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(11)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_epoch_ends_follow_the_history(log: UnifiedLog) -> None:
    append(log, plain(2), 1)
    append(log, plain(3), 4)
    assert log.end_offset_for_epoch(1) == (1, 2)
    assert log.end_offset_for_epoch(3) == (1, 2)
    assert log.end_offset_for_epoch(4) == (4, 5)
    assert log.end_offset_for_epoch(5) == (-1, -1)

"""Compaction, rule by rule (CL1 to CL5): what a cleaning keeps, what it drops and when."""

from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import Record, RecordBatch
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog

from ..compacted_log import (
    COMPACTED,
    HOUR_MS,
    all_batches,
    clean,
    keyed,
    offsets,
    put,
    roll,
    run,
    surviving,
)
from ..log_home import (
    NOW_MS,
    LogHome,
    append,
    content,
    end_transaction,
    everything,
    fetch,
    idempotent,
    plain,
)


def compacted(tmp_path: Path) -> UnifiedLog:
    return LogHome(tmp_path, COMPACTED).open()


@pytest.fixture
def log(tmp_path: Path) -> UnifiedLog:
    return compacted(tmp_path)


def test_the_last_record_of_each_key_stays_at_its_offset(log: UnifiedLog) -> None:
    put(log, ("a", "1"), ("b", "1"), ("a", "2"))
    put(log, ("c", "1"), ("b", "2"))
    put(log, ("a", "3"))
    roll(log)
    assert clean(log) == 6
    assert surviving(log) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)


def test_a_batch_that_loses_records_covers_its_offsets_as_before(log: UnifiedLog) -> None:
    put(log, ("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), ("c", "1"))
    put(log, ("c", "2"))
    roll(log)
    clean(log)
    first = all_batches(log)[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 4, 2)


def test_an_untouched_batch_stays_byte_for_byte(log: UnifiedLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    before = everything(log)
    roll(log)
    clean(log)
    assert everything(log) == before


@pytest.mark.parametrize("codec", CompressionType)
def test_batches_of_every_codec_are_compacted_and_stay_in_it(
    log: UnifiedLog, codec: CompressionType
) -> None:
    append(log, keyed(("a", "x" * 50), ("b", "x" * 50), ("a", "y" * 50), compression=codec))
    roll(log)
    clean(log)
    assert [batch.compression_type for batch in all_batches(log)] == [codec]
    assert offsets(log) == [1, 2]


def test_long_keys_that_begin_alike_are_distinguished(log: UnifiedLog) -> None:
    long = "k" * 40
    put(log, (long + "1", "x"), (long + "2", "x"), (long + "1", "y"), (long[:15], "z"))
    roll(log)
    clean(log)
    assert offsets(log) == [1, 2, 3]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    home = LogHome(tmp_path, replace(COMPACTED, cleanup_policy=("delete",)))
    log = home.open()
    batch = memoryview(bytearray(plain(2)))
    append(log, batch)
    append(log, _keyless())
    put(log, ("z", "1"))
    roll(log)
    log.update_config(COMPACTED)
    clean(log)
    assert [key for _, key, _ in surviving(log)] == ["k0", "k1", "z"]


def _keyless() -> memoryview:
    return memoryview(build_batch([Record(0, NOW_MS, None, b"v")]))


def test_the_active_segment_is_never_touched(log: UnifiedLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", "2"), ("a", "3"))
    assert clean(log) == 1
    assert offsets(log) == [0, 1, 2]


def test_a_segment_with_an_open_transaction_waits_and_all_that_follow(log: UnifiedLog) -> None:
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    append(log, idempotent(0, 2, txn=True))
    roll(log)
    put(log, ("a", "3"))
    roll(log)
    log.flush()
    assert measure(log, 0, NOW_MS).first_uncleanable_offset == 2
    assert clean(log) == 2
    assert offsets(log) == [1, 2, 3, 4]


def test_nothing_is_superseded_by_a_record_that_is_not_durable_yet(log: UnifiedLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    log.flush()
    put(log, ("a", "2"))
    roll(log)
    assert measure(log, 0, NOW_MS).first_uncleanable_offset == 1
    log.flush()
    assert measure(log, 0, NOW_MS).first_uncleanable_offset == 2


def test_what_the_offset_map_has_not_seen_stays_as_it_is(tmp_path: Path) -> None:
    log = LogHome(tmp_path, replace(COMPACTED, cleanup_policy=("delete",))).open()
    put(log, ("a", "1"))
    put(log, ("b", "1"))
    append(log, _keyless())
    put(log, ("c", "1"))
    roll(log)
    log.update_config(COMPACTED)
    assert clean(log, slots=1) == 1
    assert offsets(log) == [0, 1, 2, 3]
    clean(log, first_dirty=1)
    assert offsets(log) == [0, 1, 3]


def test_a_tombstone_stays_until_the_horizon_that_its_first_cleaning_sets(log: UnifiedLog) -> None:
    put(log, ("a", "1"), ("a", None), ("b", "1"))
    put(log, ("c", "1"))
    roll(log)
    clean(log, now_ms=NOW_MS)
    assert surviving(log) == [(1, "a", None), (2, "b", "1"), (3, "c", "1")]
    horizon = NOW_MS + HOUR_MS
    assert [batch.delete_horizon_ms for batch in all_batches(log)] == [horizon, None]
    clean(log, now_ms=horizon - 1)
    assert offsets(log) == [1, 2, 3]
    assert all_batches(log)[0].delete_horizon_ms == horizon, "set once"
    clean(log, now_ms=horizon)
    assert offsets(log) == [2, 3]


def test_the_horizon_leaves_the_records_times_as_they_were(log: UnifiedLog) -> None:
    put(log, ("a", None), ("b", "1"))
    roll(log)
    clean(log, now_ms=NOW_MS + 77)
    (batch,) = all_batches(log)
    assert [each.timestamp for each in batch.records()] == [NOW_MS, NOW_MS]
    assert batch.max_timestamp == NOW_MS


def test_a_tombstone_that_a_value_follows_goes_at_once(log: UnifiedLog) -> None:
    put(log, ("a", None), ("a", "1"))
    roll(log)
    clean(log)
    assert surviving(log) == [(1, "a", "1")]


def test_the_last_batch_of_an_active_producer_stays_though_it_is_empty(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    append(log, idempotent(0, 2))
    append(log, idempotent(2, 2))
    put(log, ("k0", "new"), ("k1", "new"))
    roll(log)
    clean(log)
    assert offsets(log) == [4, 5]
    kept = all_batches(log)[0]
    assert (kept.base_offset, kept.last_offset, kept.record_count) == (2, 3, 0)
    assert (kept.producer_id, kept.base_sequence, kept.last_sequence) == (7, 2, 3)
    log.close(NOW_MS)
    for path in home.path.glob("*.snapshot"):
        path.unlink()
    again = home.open()
    entry = again.producers.get(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset) == (3, 3)


def test_a_retry_is_still_recognised_after_its_batch_was_emptied(log: UnifiedLog) -> None:
    append(log, idempotent(0, 2))
    put(log, ("k0", "new"), ("k1", "new"))
    roll(log)
    clean(log)
    assert append(log, idempotent(0, 2)).first_offset == 0
    assert log.log_end_offset == 4


def test_a_forgotten_producers_emptied_batch_goes(log: UnifiedLog) -> None:
    append(log, idempotent(0, 2))
    put(log, ("k0", "new"), ("k1", "new"))
    roll(log)
    log.producers.remove_expired(NOW_MS + 100 * 24 * HOUR_MS)
    clean(log)
    assert [batch.base_offset for batch in all_batches(log)] == [2]


def test_the_last_batch_of_the_cleaned_part_stays_so_that_readers_get_past_it(
    log: UnifiedLog,
) -> None:
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    append(log, idempotent(2, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    roll(log)
    log.producers.remove_expired(NOW_MS + 100 * 24 * HOUR_MS)
    for now_ms in (NOW_MS, NOW_MS + 2 * HOUR_MS, NOW_MS + 4 * HOUR_MS):
        clean(log, now_ms=now_ms)
    (last,) = all_batches(log)
    assert (last.last_offset, last.record_count) == (5, 0)
    assert RecordBatch(memoryview(content(fetch(log, 0)))).next_offset == log.log_end_offset


def test_aborted_records_go_and_supersede_nothing(log: UnifiedLog) -> None:
    put(log, ("k0", "committed"), ("k1", "committed"))
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    roll(log)
    clean(log)
    assert surviving(log) == [(0, "k0", "committed"), (1, "k1", "committed")]


def test_committed_records_supersede_like_others(log: UnifiedLog) -> None:
    put(log, ("k0", "old"), ("k1", "old"))
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.COMMIT)
    roll(log)
    clean(log)
    assert offsets(log) == [2, 3]


def test_an_abort_marker_stays_with_its_entry_while_a_batch_of_its_transaction_does(
    log: UnifiedLog,
) -> None:
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    put(log, ("z", "1"))
    roll(log)
    before = log.aborted_transactions(0, 10)
    # The batch is its producer's last: it stays, empty, and the marker for it.
    clean(log, now_ms=NOW_MS)
    clean(log, now_ms=NOW_MS + 3 * HOUR_MS)
    assert [(b.base_offset, b.record_count) for b in all_batches(log)] == [(0, 0), (2, 1), (3, 1)]
    assert fetch(log, 0, FetchIsolation.TXN_COMMITTED).aborted_transactions == before
    assert len(before) == 1


def test_a_marker_alone_gets_a_horizon_and_goes_when_it_has_passed(log: UnifiedLog) -> None:
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    append(log, idempotent(2, 1, txn=True))
    end_transaction(log, ControlRecordType.COMMIT)
    put(log, ("z", "1"))
    roll(log)
    clean(log)
    first = all_batches(log)[0]
    assert (first.is_control, first.base_offset) == (True, 2)
    assert first.delete_horizon_ms is None, "this cleaning still found records of it"
    clean(log, now_ms=NOW_MS)
    assert all_batches(log)[0].delete_horizon_ms == NOW_MS + HOUR_MS
    assert log.aborted_transactions(0, 10) == [], "nothing is left to be filtered"
    clean(log, now_ms=NOW_MS + HOUR_MS - 1)
    assert all_batches(log)[0].base_offset == 2
    clean(log, now_ms=NOW_MS + HOUR_MS)
    assert [batch.base_offset for batch in all_batches(log)] == [3, 4, 5]


def test_of_a_producer_without_data_the_marker_of_its_epoch_stays(log: UnifiedLog) -> None:
    """What shows the producer's epoch; a marker of an earlier epoch shows nothing any more."""
    append(log, idempotent(0, 2, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    end_transaction(log, ControlRecordType.ABORT, epoch=1)
    put(log, ("z", "1"))
    roll(log)
    for now_ms in (NOW_MS, NOW_MS, NOW_MS + HOUR_MS):
        clean(log, now_ms=now_ms)
    assert [batch.base_offset for batch in all_batches(log)] == [3, 4]


def test_a_small_offset_map_cleans_in_several_rounds(log: UnifiedLog) -> None:
    for number in range(12):
        put(log, (f"k{number % 4}", f"v{number}"))
    roll(log)
    first_dirty, rounds = 0, 0
    while first_dirty < 12:
        following = clean(log, first_dirty=first_dirty, slots=2)
        assert following > first_dirty
        first_dirty, rounds = following, rounds + 1
    assert rounds > 1
    assert offsets(log) == [8, 9, 10, 11]


def test_small_segments_become_few(log: UnifiedLog) -> None:
    for number in range(20):
        put(log, (f"k{number % 2}", f"v{number}"))
        roll(log)
    assert len(log.local.segments) == 21
    clean(log)
    clean(log)
    assert len(log.local.segments) == 2
    assert offsets(log) == [18, 19]


def test_a_segment_that_is_damaged_stops_the_cleaning_and_stays(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    path = home.path / home.names(".log")[0]
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(KafkaError) as refused:
        clean(log)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert path.read_bytes() == damaged


def test_damaged_bytes_do_not_come_out_with_a_new_checksum(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    put(log, ("a", "1"), ("b", "precious"))
    put(log, ("a", "2"))
    roll(log)
    path = home.path / home.names(".log")[0]
    damaged = path.read_bytes().replace(b"precious", b"presious")
    path.write_bytes(damaged)
    with pytest.raises(KafkaError) as refused:
        clean(log)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert path.read_bytes() == damaged


def test_a_reader_of_a_replaced_segment_reads_on(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    before, reading = everything(log), fetch(log, 0)
    clean(log)
    log.delete_pending(NOW_MS + HOUR_MS)
    assert not home.names(".deleted")
    assert content(reading) == before
    assert content(fetch(log, 0)) != before


@pytest.mark.parametrize("event", ["retention", "truncation", "deletion"])
def test_work_on_segments_that_are_gone_is_thrown_away(tmp_path: Path, event: str) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    put(log, ("a", "1"), ("a", "2"))
    roll(log)
    put(log, ("a", "3"))
    log.flush()
    cleaning = LogCleaning(measure(log, 0, NOW_MS), CleanerConfig(), NOW_MS)
    run(cleaning.read_keys())
    (group,) = cleaning.groups()
    run(cleaning.clean(group))
    if event == "retention":
        log.maybe_increment_log_start_offset(2)
        log.delete_old_segments(NOW_MS)
    elif event == "truncation":
        log.truncate_to(1)
    else:
        log.release()
    before = home.names(".log")
    assert not cleaning.swap(group, NOW_MS)
    assert home.names(".log") == before
    assert not home.names(".swap")


def test_an_index_of_a_cleaned_log_survives_a_flush_and_a_restart(tmp_path: Path) -> None:
    home = LogHome(tmp_path, COMPACTED)
    log = home.open()
    for number in range(12):
        put(log, (f"k{number}", "v"), (f"k{number}", "w"))
    roll(log)
    clean(log)
    left = surviving(log)
    log.flush()
    log.close(NOW_MS)
    again = home.open()
    again.update_high_watermark(again.log_end_offset)
    assert surviving(again) == left
    for offset, _, _ in left:
        first = RecordBatch(memoryview(content(fetch(again, offset))))
        assert first.base_offset <= offset <= first.last_offset

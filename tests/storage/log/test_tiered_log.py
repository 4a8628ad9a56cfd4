"""A log whose older part is in the remote tier, and offsets looked up by time."""

from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.log.fetch_data import FetchIsolation, RemoteRead, RemoteTimestampLookup
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.partition_directory import write_topic_id
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.storage.log_home import (
    NOW_MS,
    TIERED,
    LogHome,
    append,
    end_transaction,
    fetch,
    filled,
    idempotent,
    offsets_in,
    plain,
)


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_timestamps_lead_to_the_first_record_as_young(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    for step in range(30):
        append(log, plain(2, timestamp=NOW_MS + 10 * step), step // 10)
    assert log.offset_for_timestamp(0) == TimestampAndOffset(NOW_MS, 0, 0)
    assert log.offset_for_timestamp(NOW_MS + 101) == TimestampAndOffset(NOW_MS + 110, 22, 1)
    assert log.offset_for_timestamp(NOW_MS + 290) == TimestampAndOffset(NOW_MS + 290, 58, 2)
    assert log.offset_for_timestamp(NOW_MS + 291) is None


def test_the_named_offsets(tmp_path: Path) -> None:
    log = LogHome(tmp_path).open()
    assert log.offset_for_timestamp(-3) is None
    for timestamp in (NOW_MS, NOW_MS + 7, NOW_MS + 7, NOW_MS + 2):
        append(log, plain(2, timestamp=timestamp), 1)
    log.maybe_increment_log_start_offset(1)
    assert log.offset_for_timestamp(-1) == TimestampAndOffset(-1, 8, 1)
    assert log.offset_for_timestamp(-2) == TimestampAndOffset(-1, 1, 1)
    assert log.offset_for_timestamp(-3) == TimestampAndOffset(NOW_MS + 7, 2, 1)
    assert log.offset_for_timestamp(-4) == TimestampAndOffset(-1, 1, 1)
    assert log.offset_for_timestamp(-5) == TimestampAndOffset(-1, -1, -1)


def tiered(home: LogHome) -> UnifiedLog:
    """A log whose first segments are only in the tier."""
    log = home.open()
    for step in range(30):
        append(log, plain(2, timestamp=NOW_MS + step), step // 10)
    log.update_config(replace(TIERED, local_retention_bytes=0, retention_bytes=-1))
    log.bounds.update_highest_remote(39)
    log.delete_old_segments(NOW_MS)
    return log


def test_offsets_that_only_the_tier_has_are_handed_up(tmp_path: Path) -> None:
    log = tiered(LogHome(tmp_path, TIERED))
    assert (log.log_start_offset, log.log_end_offset) == (0, 60)
    start = log.local_log_start_offset
    assert 0 < start <= 40
    found = log.read(25, 1000, FetchIsolation.TXN_COMMITTED, min_one_message=True)
    assert isinstance(found, RemoteRead)
    assert (found.offset, found.leader_epoch, found.max_bytes) == (25, 1, 1000)
    assert (found.log_start_offset, found.local_log_start_offset) == (0, start)
    assert (found.isolation, found.high_watermark) == (FetchIsolation.TXN_COMMITTED, 60)
    assert offsets_in(fetch(log, start)) != []


def test_timestamps_are_looked_for_in_the_tier_first(tmp_path: Path) -> None:
    log = tiered(LogHome(tmp_path, TIERED))
    found = log.offset_for_timestamp(NOW_MS + 2)
    assert isinstance(found, RemoteTimestampLookup)
    local = found.local_result
    assert local is not None
    assert (found.starting_offset, local.offset) == (0, log.local_log_start_offset)
    assert log.offset_for_timestamp(-4) == TimestampAndOffset(-1, found.local_log_start_offset, 1)
    assert log.offset_for_timestamp(-5) == TimestampAndOffset(-1, 39, 1)
    assert log.offset_for_timestamp(-6) == TimestampAndOffset(-1, 40, 2)


def test_local_deletion_does_not_cut_the_epoch_history(tmp_path: Path) -> None:
    log = tiered(LogHome(tmp_path, TIERED))
    assert log.leader_epochs.entries[0] == (0, 0)
    log.maybe_increment_log_start_offset(30)
    assert log.leader_epochs.entries[0] == (1, 30)


@pytest.mark.scenario("4.3")
def test_segments_are_copied_when_closed_and_wholly_stable(tmp_path: Path) -> None:
    log = LogHome(tmp_path, TIERED).open()
    for _ in range(3):
        append(log, plain(2))
        log.roll(NOW_MS)
    append(log, idempotent(0, 2, txn=True))
    log.roll(NOW_MS)
    append(log, plain(2))
    candidates = log.copy_candidates(0)
    assert [segment.base_offset for segment in candidates] == [0, 2, 4]
    assert [log.end_offset_of(segment) for segment in candidates] == [2, 4, 6]
    assert [segment.base_offset for segment in log.copy_candidates(3)] == [2, 4]
    end_transaction(log, ControlRecordType.COMMIT)
    assert [segment.base_offset for segment in log.copy_candidates(6)] == [6]


def test_a_look_up_in_the_tier_names_the_topic_id_that_the_log_has_now(tmp_path: Path) -> None:
    """It is written anew where partition.metadata was lost."""
    log = filled(LogHome(tmp_path, TIERED), 60)
    topic_id = Uuid(bytes(range(1, 17)))
    write_topic_id(log, topic_id)
    log.bounds.update_highest_remote(log.log_end_offset - 10)
    log.bounds.advance_local_log_start(20)
    lookup = log.offset_for_timestamp(NOW_MS)
    assert isinstance(lookup, RemoteTimestampLookup)
    assert lookup.topic_id_partition.topic_id == log.topic_id == topic_id

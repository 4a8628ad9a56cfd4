"""The model of a voter's log: what it reads, and what a power loss leaves of it."""

import random

import pytest

from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

from .quorum_log import ModelLog, Snapshot, parse_snapshot


def log_with(*epochs: int) -> ModelLog:
    """One batch of two records for each epoch."""
    log = ModelLog()
    for number, epoch in enumerate(epochs):
        log.append(2, epoch, b"%d" % number)
    return log


def test_an_epoch_ends_where_the_next_begins() -> None:
    log = log_with(1, 1, 4)
    assert log.end_offset_for_epoch(0) == OffsetAndEpoch(0, 0)
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(4, 1)
    assert log.end_offset_for_epoch(3) == OffsetAndEpoch(4, 1)
    assert log.end_offset_for_epoch(4) == OffsetAndEpoch(6, 4)


def test_logs_agree_in_a_digest_if_they_agree_in_everything_below() -> None:
    one, other = log_with(1, 1, 2), log_with(1, 1, 3)
    assert one.digest_at(4) == other.digest_at(4)
    assert one.digest_at(6) != other.digest_at(6)
    assert one.digest_at(5) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_leaves_what_was_flushed_and_a_part_of_the_rest(seed: int) -> None:
    log = log_with(1)
    log.flush()
    for _ in range(3):
        log.append(1, 1, b"unsynced")
    log.lose_power(random.Random(seed))
    assert 2 <= log.end_offset <= 5
    assert log.flushed_offset == log.end_offset


def test_a_power_loss_may_undo_a_truncation_until_the_next_flush() -> None:
    ends = set[int]()
    for seed in range(20):
        log = log_with(1, 1)
        log.flush()
        log.truncate_to(2)
        assert log.flushed_offset == 2
        log.lose_power(random.Random(seed))
        ends.add(log.end_offset)
    assert ends == {2, 4}
    log = log_with(1, 1)
    log.flush()
    log.truncate_to(2)
    log.flush()
    log.lose_power(random.Random(0))
    assert log.end_offset == 2


def test_a_flush_covers_what_was_there_when_it_began_and_still_is() -> None:
    log = log_with(1, 1)
    flush = log.begin_flush()
    log.truncate_to(2)
    log.append(2, 2, b"another")
    log.complete_flush(flush)
    assert log.flushed_offset == 2


def test_a_log_begins_at_its_snapshot() -> None:
    log = log_with(1, 1, 2)
    digest = log.digest_at(4)
    assert digest is not None
    snapshot = parse_snapshot(Snapshot(4, 1, digest, b"a state.").to_bytes())
    log.snapshots[snapshot.id] = snapshot
    log.start_at(snapshot)
    assert (log.start_offset, log.end_offset) == (4, 6)
    assert log.digest_at(4) == digest
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(4, 1)
    empty = ModelLog()
    empty.truncate_fully(snapshot)
    assert (empty.end_offset, empty.last_epoch) == (4, 1)
    assert empty.append(2, 2, b"2").digest == log.last_digest


def test_half_a_snapshot_is_none() -> None:
    with pytest.raises(AssertionError):
        parse_snapshot(Snapshot(4, 1, bytes(8), bytes(8)).to_bytes()[:-3])

"""What was on the disk once is kept by a recovery, also behind a batch that the disk has damaged.

A power cut tears what was not synced. Damage below the recovery point is the disk's own: cutting
the log there would only lose more. Found beside Apache Kafka, which does not look into a segment
that ends at the recovery point.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.record.control import ControlRecordType
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import (
    NOW_MS,
    SMALL,
    LogHome,
    append,
    end_transaction,
    filled,
    idempotent,
    plain,
)

BATCHES = 10
TWO_SEGMENTS = replace(SMALL, segment_bytes=10_000)


def two_segments(home: LogHome) -> UnifiedLog:
    log = filled(home, BATCHES)
    log.roll(NOW_MS)
    for _ in range(BATCHES // 2):
        append(log, plain(2))
    log.flush()
    return log


def batch_ends(log: UnifiedLog, base_offset: int) -> list[int]:
    """Where the batches of a segment end in its file."""
    (segment,) = (each for each in log.local.segments if each.base_offset == base_offset)
    return [at + batch.size_in_bytes for at, batch in segment.positioned_batches()]


def flip_end_of_batch(home: LogHome, base_offset: int, number: int) -> tuple[Path, bytes]:
    """Damage a batch's last record; the file and what is in it then."""
    log = two_segments(home)
    end = batch_ends(log, base_offset)[number]
    log.release()
    path = home.path / f"{base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    content[end - 1] ^= 1
    path.write_bytes(content)
    return path, bytes(content)


@pytest.mark.parametrize("number", [0, 1, -2, -1])
def test_a_segment_that_ends_at_the_recovery_point_stays_as_it_is(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    home = LogHome(tmp_path, TWO_SEGMENTS)
    path, damaged = flip_end_of_batch(home, 0, number)
    log = home.open(clean=False, recovery_point=2 * BATCHES)
    assert path.read_bytes() == damaged
    assert log.log_end_offset == 3 * BATCHES
    assert f"of {path}, offsets {2 * range(BATCHES)[number]} to" in caplog.text
    assert not home.log_dir.losses


@pytest.mark.parametrize(("number", "end"), [(0, 30), (2, 30), (3, 26), (4, 28)])
def test_damage_above_the_recovery_point_ends_the_log_and_below_it_does_not(
    tmp_path: Path, number: int, end: int
) -> None:
    home = LogHome(tmp_path, TWO_SEGMENTS)
    flip_end_of_batch(home, 20, number)
    log = home.open(clean=False, recovery_point=26)
    assert log.log_end_offset == end
    assert len(home.log_dir.losses) == (end < 30)


def test_indexes_that_are_lost_cost_no_records_of_a_log_that_was_closed(tmp_path: Path) -> None:
    home = LogHome(tmp_path, TWO_SEGMENTS)
    path, damaged = flip_end_of_batch(home, 0, 3)
    path.with_suffix(".index").unlink()
    log = home.open(recovery_point=30)
    assert path.read_bytes() == damaged
    assert (log.log_end_offset, home.log_dir.losses) == (30, [])


def test_damage_to_where_a_batch_ends_is_cut_off_as_before(tmp_path: Path) -> None:
    """Behind it no batch can be told from another's bytes."""
    home = LogHome(tmp_path, TWO_SEGMENTS)
    path, damaged = flip_end_of_batch(home, 0, 3)
    begin = len(damaged) // BATCHES * 3
    path.write_bytes(damaged[: begin + 8] + bytes(4) + damaged[begin + 12 :])
    home.open(clean=False, recovery_point=20)
    assert path.stat().st_size == begin
    (loss,) = home.log_dir.losses
    assert loss.offset == 6


ATTRIBUTES_AT, BASE_SEQUENCE_AT, RECORD_AT = 21, 53, 61


@pytest.mark.parametrize(
    ("byte", "bit"),
    [(byte, bit) for byte in [ATTRIBUTES_AT, ATTRIBUTES_AT + 1] for bit in range(8)]
    + [(RECORD_AT + bit // 8, bit % 8) for bit in range(0, 56, 3)],
)
def test_one_bit_of_a_marker_ends_no_start(
    tmp_path: Path, byte: int, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A marker that cannot be read leaves its transaction open, and says who can end it."""
    home = LogHome(tmp_path)
    log = home.open()
    append(log, idempotent(0, txn=True))
    end_transaction(log, ControlRecordType.ABORT)
    append(log, plain())
    log.flush()
    _, (at, _), _ = log.local.segments.first.positioned_batches()
    log.release()
    path = home.path / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[at + byte] ^= 1 << bit
    path.write_bytes(content)
    log = home.open(clean=False, recovery_point=3)
    assert (log.log_end_offset, home.log_dir.losses) == (3, [])
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    assert f"skipping the damaged record batch with offsets 1 to 1 in {path}" in caplog.text


def test_a_damaged_batch_opens_no_transaction(tmp_path: Path) -> None:
    """One bit makes a transaction of a batch, and nobody would ever end it."""
    home = LogHome(tmp_path)
    log = home.open()
    append(log, idempotent(0))
    append(log, plain())
    log.flush()
    log.release()
    path = home.path / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[ATTRIBUTES_AT + 1] ^= 1 << 4
    path.write_bytes(content)
    log = home.open(clean=False, recovery_point=2)
    log.update_high_watermark(2)
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)


def test_a_damaged_batch_before_a_snapshot_is_no_reason_to_call_a_batch_a_repeat(
    tmp_path: Path,
) -> None:
    """Its sequence may be that of a batch which was never sent; that one would be lost."""
    home = LogHome(tmp_path)
    log = home.open()
    for sequence in range(3):
        append(log, idempotent(sequence))
    log.flush()
    log.producers.take_snapshot()
    _, (at, _), _ = log.local.segments.first.positioned_batches()
    log.release()
    path = home.path / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[at + BASE_SEQUENCE_AT : at + BASE_SEQUENCE_AT + 4] = (3).to_bytes(4, "big")
    path.write_bytes(content)
    log = home.open(clean=False, recovery_point=3)
    append(log, idempotent(3))
    assert log.log_end_offset == 4

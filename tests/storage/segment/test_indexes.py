"""Offset, time and transaction index: Kafka's bytes, and look-ups that agree with a plain list."""

from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given, strategies as st

from tierlog.storage.files import OsFiles
from tierlog.storage.segment.index import CorruptIndexError
from tierlog.storage.segment.offset_index import OffsetIndex, OffsetPosition
from tierlog.storage.segment.time_index import TimeIndex, TimestampOffset
from tierlog.storage.segment.transaction_index import AbortedTxn, TransactionIndex
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

FILES = OsFiles()
BASE = 1000


def offset_index(path: Path, max_size: int = 800) -> OffsetIndex:
    return OffsetIndex(FILES, str(path / "1000.index"), BASE, max_size)


def time_index(path: Path, max_size: int = 1200) -> TimeIndex:
    return TimeIndex(FILES, str(path / "1000.timeindex"), BASE, max_size)


def txn_index(path: Path) -> TransactionIndex:
    return TransactionIndex(FILES, str(path / "1000.txnindex"), BASE)


def test_an_index_that_is_never_used_makes_no_file(tmp_path: Path) -> None:
    index, times, txns = offset_index(tmp_path), time_index(tmp_path), txn_index(tmp_path)
    assert index.lookup(5000) == OffsetPosition(BASE, 0)
    assert times.lookup(5000) == TimestampOffset(-1, BASE)
    assert txns.is_empty
    assert not list(tmp_path.iterdir())


def test_entries_lie_as_kafka_writes_them(tmp_path: Path) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    index.append(1003, 70)
    index.append(1009, 140)
    times.maybe_append(55, 1003)
    assert FILES.size(index.path) == 800
    index.trim()
    times.trim()
    assert FILES.read(index.path) == Struct(">iiii").pack(3, 70, 9, 140)
    assert FILES.read(times.path) == Struct(">qi").pack(55, 3)


def test_a_trimmed_index_can_grow_again(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(1003, 70)
    index.trim()
    index.close()
    again = offset_index(tmp_path)
    assert (again.last_offset, again.entries) == (1003, 1)
    again.resize(1600)
    again.append(1004, 90)
    assert again.max_entries == 200
    assert again.all_entries() == [OffsetPosition(1003, 70), OffsetPosition(1004, 90)]


def test_an_index_without_entries_leaves_an_empty_file(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.trim()
    assert FILES.read(index.path) == b""
    index.sanity_check()


def test_a_full_offset_index_says_so(tmp_path: Path) -> None:
    index = offset_index(tmp_path, max_size=20)
    index.append(1001, 1)
    assert not index.is_full
    index.append(1002, 2)
    assert index.is_full


def test_a_time_index_keeps_a_slot_for_the_closing_entry(tmp_path: Path) -> None:
    times = time_index(tmp_path, max_size=24)
    times.maybe_append(10, 1001)
    assert times.is_full
    times.maybe_append(20, 1002, may_fill=True)
    assert times.entries == 2


def test_a_smaller_timestamp_is_not_indexed(tmp_path: Path) -> None:
    times = time_index(tmp_path)
    times.maybe_append(10, 1001)
    times.maybe_append(10, 1002)
    times.maybe_append(9, 1003)
    assert times.all_entries() == [TimestampOffset(10, 1001)]


def test_the_zeros_of_an_index_that_was_never_closed_are_noticed(tmp_path: Path) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    index.append(1003, 70)
    times.maybe_append(5, 1003)
    index.close()
    times.close()
    with pytest.raises(CorruptIndexError):
        offset_index(tmp_path).sanity_check()
    with pytest.raises(CorruptIndexError):
        time_index(tmp_path).sanity_check()


def test_a_torn_entry_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "1000.index").write_bytes(bytes(12))
    (tmp_path / "1000.txnindex").write_bytes(bytes(12))
    with pytest.raises(CorruptIndexError):
        offset_index(tmp_path).sanity_check()
    with pytest.raises(CorruptIndexError):
        txn_index(tmp_path).sanity_check()


def test_renaming_and_deleting_take_the_file_along(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(1003, 70)
    index.rename(index.path + ".deleted")
    assert [path.name for path in tmp_path.iterdir()] == ["1000.index.deleted"]
    assert index.last_offset == 1003
    index.delete()
    assert not list(tmp_path.iterdir())


GROWING = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 5000), st.integers(1, 100)), max_size=60
)


@given(steps=GROWING, target=st.integers(900, 4000), cut=st.integers(900, 4000))
def test_look_ups_and_truncation_agree_with_a_plain_list(
    steps: list[tuple[int, int, int]], target: int, cut: int
) -> None:
    # The simulated disk is all in memory, and behaves as the real one until the power goes.
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs("/x")
    index = OffsetIndex(files, "/x/i", BASE, 8 * 64)
    times = TimeIndex(files, "/x/t", BASE, 12 * 64)
    offset, position, timestamp = BASE, 0, 0
    entries: list[OffsetPosition] = []
    stamps: list[TimestampOffset] = []
    for offset_step, position_step, time_step in steps:
        offset, position = offset + offset_step, position + position_step
        timestamp += time_step
        index.append(offset, position)
        times.maybe_append(timestamp, offset)
        entries.append(OffsetPosition(offset, position))
        stamps.append(TimestampOffset(timestamp, offset))

    def last(candidates: list[OffsetPosition]) -> OffsetPosition:
        return candidates[-1] if candidates else OffsetPosition(BASE, 0)

    assert index.lookup(target) == last([e for e in entries if e.offset <= target])
    assert index.entry_at_or_before(target) == next(
        (e for e in reversed(entries) if e.position <= target), OffsetPosition(BASE, 0)
    )
    assert index.entry_at_or_after(target) == next(
        (e for e in entries if e.position >= target), None
    )
    young = [s for s in stamps if s.timestamp <= target]
    assert times.lookup(target) == (young[-1] if young else TimestampOffset(-1, BASE))
    index.truncate_to(cut)
    times.truncate_to(cut)
    assert index.all_entries() == [e for e in entries if e.offset < cut]
    assert times.all_entries() == [s for s in stamps if s.offset < cut]
    assert index.lookup(10**6) == last([e for e in entries if e.offset < cut])


def test_aborted_transactions_lie_as_kafka_writes_them(tmp_path: Path) -> None:
    index = txn_index(tmp_path)
    index.append(AbortedTxn(7, 1000, 1010, 1005))
    index.flush()
    assert FILES.read(index.path) == Struct(">hqqqq").pack(0, 7, 1000, 1010, 1005)
    index.close()
    assert list(txn_index(tmp_path)) == [AbortedTxn(7, 1000, 1010, 1005)]


def test_collecting_finds_the_overlapping_and_knows_when_to_stop(tmp_path: Path) -> None:
    index = txn_index(tmp_path)
    early, late = AbortedTxn(1, 1000, 1010, 1005), AbortedTxn(2, 1005, 1020, 1021)
    index.append(early)
    index.append(late)
    found: list[AbortedTxn] = []
    assert index.collect(1000, 1021, found)
    assert found == [early, late]
    found.clear()
    assert index.collect(1000, 1003, found)
    assert found == [early]
    found.clear()
    assert not index.collect(1015, 2000, found)
    assert found == [late]


def test_truncating_drops_the_transactions_that_end_above(tmp_path: Path) -> None:
    index = txn_index(tmp_path)
    index.append(AbortedTxn(1, 1000, 1010, 1005))
    index.append(AbortedTxn(2, 1005, 1020, 1021))
    index.truncate_to(1020)
    index.append(AbortedTxn(3, 1005, 1015, 1016))
    assert [txn.producer_id for txn in txn_index(tmp_path)] == [1, 3]
    index.reset()
    assert txn_index(tmp_path).is_empty


def test_an_entry_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1000.txnindex").write_bytes(Struct(">hqqqq").pack(9, 7, 1000, 1010, 1005))
    with pytest.raises(CorruptIndexError):
        list(txn_index(tmp_path))

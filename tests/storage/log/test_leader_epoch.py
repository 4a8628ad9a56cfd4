"""The leader epoch history, against the definition of what it says."""

import errno

import pytest
from hypothesis import given, strategies as st

from tierlog.storage.log.leader_epoch import EpochEntry, LeaderEpochCache
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles, SimulatedHandle

PATH = "/log/leader-epoch-checkpoint"


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs("/log")
    made = LeaderEpochCache(files, PATH)
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def test_an_epoch_starts_with_its_first_batch_only() -> None:
    history = cache((1, 0), (1, 5), (3, 10))
    assert history.entries == (EpochEntry(1, 0), EpochEntry(3, 10))
    assert history.latest_epoch == 3


def test_an_epoch_that_wrote_nothing_is_forgotten() -> None:
    assert cache((1, 0), (2, 10), (3, 10)).entries == (EpochEntry(1, 0), EpochEntry(3, 10))


def test_a_lower_epoch_above_a_higher_one_takes_its_place() -> None:
    assert cache((1, 0), (5, 10), (4, 12)).entries == (EpochEntry(1, 0), EpochEntry(4, 12))


def test_an_epoch_that_cannot_be_written_is_not_believed_and_written_the_next_time() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs("/log")
    history = LeaderEpochCache(files, PATH)
    disk.faults.append(Fault(Kind.CREATE, errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        history.assign(4, 100)
    assert history.entries == ()
    history.assign(4, 100)
    history.sync()
    assert LeaderEpochCache(files, PATH).entries == (EpochEntry(4, 100),)


def test_the_history_survives_a_restart() -> None:
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs("/log")
    LeaderEpochCache(files, PATH).assign(4, 100)
    assert LeaderEpochCache(files, PATH).entries == (EpochEntry(4, 100),)


# KIP-101 and KIP-279: the largest epoch at or below the one asked for, and where it ends.
def test_end_offsets_follow_the_kips() -> None:
    history = cache((2, 10), (4, 20), (7, 35))
    assert history.end_offset_for(7, 50) == (7, 50)
    assert history.end_offset_for(4, 50) == (4, 35)
    assert history.end_offset_for(5, 50) == (4, 35)
    assert history.end_offset_for(3, 50) == (2, 20)
    assert history.end_offset_for(1, 50) == (1, 10)
    assert history.end_offset_for(8, 50) == (-1, -1)
    assert history.end_offset_for(-1, 50) == (-1, -1)
    assert cache().end_offset_for(0, 50) == (-1, -1)


def test_truncating_from_the_start_keeps_the_epoch_that_holds_it() -> None:
    history = cache((0, 0), (1, 5), (2, 9))
    history.truncate_from_start(7)
    assert history.entries == (EpochEntry(1, 7), EpochEntry(2, 9))
    history.truncate_from_start(3)
    assert history.entries == (EpochEntry(1, 7), EpochEntry(2, 9))
    history.truncate_from_start(9)
    assert list(history.entries) == [EpochEntry(2, 9)]


def test_truncating_from_the_end_keeps_what_starts_below() -> None:
    history = cache((0, 0), (1, 5), (2, 9))
    history.truncate_from_end(9)
    assert history.entries == (EpochEntry(0, 0), EpochEntry(1, 5))
    history.truncate_from_end(0)
    assert not history.entries


def test_a_segment_s_epochs_begin_at_a_log_start_in_its_midst() -> None:
    """As in Kafka's `epochEntriesInRange`: what the history has lost, it does not invent."""
    history = cache((0, 0), (1, 5), (2, 9))
    history.truncate_from_start(4)
    assert history.entries_in_range(3, 9) == [EpochEntry(0, 4), EpochEntry(1, 5)]


def test_a_segment_s_epochs_are_clamped_to_its_range() -> None:
    history = cache((0, 0), (1, 5), (2, 9))
    assert history.entries_in_range(3, 9) == [EpochEntry(0, 3), EpochEntry(1, 5)]
    assert history.entries_in_range(5, 100) == [EpochEntry(1, 5), EpochEntry(2, 9)]
    assert history.entries_in_range(5, 5) == []
    assert history.entries_up_to(9) == [EpochEntry(0, 0), EpochEntry(1, 5)]


BATCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=20)


@given(steps=BATCHES, start=st.integers(0, 30), end=st.integers(1, 60))
def test_it_says_what_the_surviving_records_say(
    steps: list[tuple[int, int]], start: int, end: int
) -> None:
    history, epoch_of, epoch = cache(), list[int](), 0
    for bump, count in steps:
        epoch += bump
        if history.latest_epoch != epoch:
            history.assign(epoch, len(epoch_of))
        epoch_of += [epoch] * count
    end = min(end, len(epoch_of))
    start = min(start, end - 1)
    history.truncate_from_end(end)
    history.truncate_from_start(start)
    for offset in range(start, end):
        assert history.epoch_for_offset(offset) == epoch_of[offset]
    for asked in range(epoch + 2):
        below = [offset for offset in range(start, end) if epoch_of[offset] <= asked]
        found, found_end = history.end_offset_for(asked, end)
        if asked > epoch_of[end - 1]:
            assert (found, found_end) == (-1, -1)
        elif below:
            assert (found, found_end) == (epoch_of[below[-1]], below[-1] + 1)
        else:
            assert (found, found_end) == (asked, start)


def test_a_sync_says_nothing_of_what_is_written_while_it_runs() -> None:
    """It runs in a thread, and the checkpoint is replaced meanwhile without a sync."""

    class BusyHandle(SimulatedHandle):
        def flush(self) -> None:
            super().flush()
            history.clear()
            history.assign(2, 5)

    class BusyFiles(SimulatedFiles):
        def open(self, path: str, *, create: bool = False) -> SimulatedHandle:
            opened = super().open(path, create=create)
            if create or not is_syncing:
                return opened
            return BusyHandle(self, path, self.disk.file(path))

    is_syncing = False
    files = BusyFiles(SimulatedDisk())
    files.mkdirs("/log")
    history = LeaderEpochCache(files, PATH)
    history.assign(1, 0)
    assert not history.is_synced
    is_syncing = True
    history.sync()
    is_syncing = False
    assert not history.is_synced
    history.sync()
    assert history.is_synced


def test_a_sync_that_runs_just_before_a_write_does_not_count_for_it() -> None:
    class SyncingFiles(SimulatedFiles):
        """A flush in another thread has begun when the checkpoint is written."""

        history: LeaderEpochCache | None = None

        def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
            if self.history is not None:
                self.history.sync()
            super().atomic_replace(path, content, durable=durable)

    files = SyncingFiles(SimulatedDisk())
    files.mkdirs("/log")
    history = LeaderEpochCache(files, PATH)
    history.assign(4, 0)
    history.clear()
    files.history = history
    # The first epoch of a log is written without a sync.
    history.assign(5, 0)
    assert not history.is_synced
    history.sync()
    assert history.is_synced

"""The simulated disk forgets exactly what it may forget."""

import errno
import random

import pytest
from hypothesis import given, strategies as st

from tierlog.tests.simulation.disk import Fault, Kind, PowerLoss, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles

CHANCE = random.Random(0)


def after_power_loss(
    disk: SimulatedDisk, survival: Survival = Survival.NOTHING, chance: random.Random = CHANCE
) -> SimulatedFiles:
    disk.lose_power(survival, chance)
    return SimulatedFiles(disk)


def test_content_is_safe_after_flush_if_its_name_is_safe_too() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    handle = files.open("/a", create=True)
    handle.write_at(0, b"kept")
    handle.flush()
    files.sync_dir("/")
    handle.write_at(4, b", lost")
    assert after_power_loss(disk).read("/a") == b"kept"


def test_a_synced_file_under_an_unsynced_name_is_gone() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    handle = files.open("/a", create=True)
    handle.write_at(0, b"kept")
    handle.flush()
    assert not after_power_loss(disk).exists("/a")


def test_a_rename_without_sync_of_its_directory_never_happened() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    files.atomic_replace("/a", b"x")
    files.rename("/a", "/b")
    assert after_power_loss(disk).listdir("/") == ["a"]


def test_a_removed_file_comes_back_without_sync_of_its_directory() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    files.atomic_replace("/a", b"x")
    files.remove("/a")
    assert after_power_loss(disk).read("/a") == b"x"


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    files.open("/a", create=True).write_at(0, b"in the page cache")
    assert after_power_loss(disk, Survival.EVERYTHING).read("/a") == b"in the page cache"


def test_by_chance_a_later_write_may_survive_an_earlier_one() -> None:
    outcomes: set[bytes] = set()
    for seed in range(200):
        files = SimulatedFiles(disk := SimulatedDisk())
        files.atomic_replace("/a", b"")
        handle = files.open("/a")
        handle.write_at(0, b"AA")
        handle.write_at(2, b"BB")
        survivor = after_power_loss(disk, Survival.BY_CHANCE, random.Random(seed))
        outcomes.add(survivor.read("/a"))
    assert outcomes == {
        b"",
        b"A",
        b"AA",
        b"AAB",
        b"AABB",
        b"\0\0BB",
        b"\0\0B",
        b"A\0BB",
        b"A\0B",
    } | {
        b"\0\0",
        b"A\0",
    }


@given(seed=st.integers(0, 2**32), old=st.binary(max_size=20), new=st.binary(max_size=20))
def test_atomic_replace_is_old_or_new_at_every_point(seed: int, old: bytes, new: bytes) -> None:
    point = 0
    while True:
        point += 1
        files = SimulatedFiles(disk := SimulatedDisk())
        files.atomic_replace("/c", old)
        disk.power_fails_at = disk.operations + point
        try:
            files.atomic_replace("/c", new)
        except PowerLoss:
            survivor = after_power_loss(disk, Survival.BY_CHANCE, random.Random(seed))
            assert survivor.read("/c") in (old, new)
            survivor.atomic_replace("/c", b"still works")
        else:
            assert after_power_loss(disk).read("/c") == new
            return


def test_a_process_without_power_can_do_nothing_more() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    handle = files.open("/a", create=True)
    disk.power_fails_at = disk.operations + 1
    with pytest.raises(PowerLoss):
        handle.write_at(0, b"x")
    for attempt in (handle.flush, handle.size, lambda: files.exists("/a")):
        with pytest.raises(PowerLoss):
            attempt()


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    files = SimulatedFiles(SimulatedDisk(capacity_bytes=10))
    handle = files.open("/a", create=True)
    handle.write_at(0, b"12345678")
    with pytest.raises(OSError, match="No space") as caught:
        handle.write_at(8, b"90xyz")
    assert caught.value.errno == errno.ENOSPC
    assert files.read("/a") == b"1234567890"
    assert files.usable_bytes("/") == 0
    handle.write_at(0, b"rewritten")


def test_a_fault_strikes_its_kind_and_path_as_often_as_it_says() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    disk.faults.append(Fault(Kind.WRITE, errno.EIO, ".log", times=2))
    log = files.open("/a.log", create=True)
    files.open("/a.index", create=True).write_at(0, b"fine")
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            log.write_at(0, b"x")
    log.write_at(0, b"x")


def test_after_a_failed_flush_a_good_one_does_not_save_what_came_before() -> None:
    files = SimulatedFiles(disk := SimulatedDisk())
    files.atomic_replace("/a", b"")
    handle = files.open("/a")
    handle.write_at(0, b"lost")
    disk.faults.append(Fault(Kind.FLUSH))
    with pytest.raises(OSError, match="Input/output"):
        handle.flush()
    handle.write_at(4, b"kept")
    handle.flush()
    assert handle.pread(0, 8) == b"lostkept"
    assert after_power_loss(disk).read("/a") == b"\0\0\0\0kept"


def test_locks_end_with_the_power() -> None:
    SimulatedFiles(disk := SimulatedDisk()).lock("/.lock")
    after_power_loss(disk).lock("/.lock").release()

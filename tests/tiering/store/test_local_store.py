"""What a `file://` tier says that it has survives a loss of power."""

import random

import pytest

from tierlog.tests.simulation.disk import SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import partition_prefix
from tierlog.tiering.store.remote_url import RemoteUrl

LOG = bytes(range(256)) * 4
CRUEL = [Survival.NOTHING, Survival.NAMES, Survival.BY_CHANCE]


def mounted() -> SimulatedDisk:
    """The volume is there: its folder was not made by a broker."""
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs("/mnt")
    files.sync_dir("/")
    return disk


def tier_on(disk: SimulatedDisk) -> FsspecStorage:
    location = RemoteUrl("file:///mnt/new/tier")
    return FsspecStorage(location, SimulatedFiles(disk), ThreadedPool(1, "test"))


@pytest.mark.parametrize("survival", CRUEL)
@pytest.mark.parametrize("leave_behind", [False, True])
async def test_a_copied_segment_survives_with_all_folders_above_it(
    loop: SimulatedLoop, survival: Survival, leave_behind: bool
) -> None:
    """Also where a process that was killed has made the folders, and synced none of them."""
    first, second = segment_metadata(1, size=len(LOG)), segment_metadata(2, size=len(LOG))
    disk = mounted()
    if leave_behind:
        folder = partition_prefix(first.topic_id_partition)
        SimulatedFiles(disk).mkdirs(f"/mnt/new/tier/{folder}")
    storage = tier_on(disk)
    await storage.copy_log_segment_data(first, segment_data(LOG))
    # A folder that was removed and made again is as new as the first one.
    await storage.delete_partition(first.topic_id_partition)
    await storage.copy_log_segment_data(second, segment_data(LOG))
    disk.lose_power(survival, random.Random(1))
    again = tier_on(disk)
    assert await again.fetch_log_segment(second, 0, len(LOG) - 1) == LOG
    assert [each.id for each in await again.whole_segments(second.topic_id_partition)] == [
        second.id
    ]


@pytest.mark.parametrize("survival", CRUEL)
async def test_a_deleted_segment_does_not_come_back(
    loop: SimulatedLoop, survival: Survival
) -> None:
    metadata = segment_metadata(1, size=len(LOG))
    disk = mounted()
    storage = tier_on(disk)
    await storage.copy_log_segment_data(metadata, segment_data(LOG))
    await storage.delete_log_segment_data(metadata)
    disk.lose_power(survival, random.Random(1))
    assert await tier_on(disk).whole_segments(metadata.topic_id_partition) == []
    assert paths(disk, "/mnt/new/tier") == []


def paths(disk: SimulatedDisk, folder: str) -> list[str]:
    """Every file below a folder."""
    files = SimulatedFiles(disk)
    found: list[str] = []
    for name in files.listdir(folder):
        path = f"{folder}/{name}"
        found += paths(disk, path) if files.is_directory(path) else [path]
    return found


async def test_the_manifest_goes_before_what_it_promises(loop: SimulatedLoop) -> None:
    """A segment that is half removed must not look whole."""
    metadata = segment_metadata(1, size=len(LOG))
    removed: list[str] = []

    class WatchedFiles(SimulatedFiles):
        def remove(self, path: str) -> bool:
            is_there = super().remove(path)
            if is_there:
                removed.append(path.rpartition(".")[2])
            return is_there

    location = RemoteUrl("file:///mnt/new/tier")
    storage = FsspecStorage(location, WatchedFiles(mounted()), ThreadedPool(1, "test"))
    await storage.copy_log_segment_data(metadata, segment_data(LOG))
    removed.clear()
    await storage.delete_log_segment_data(metadata)
    assert removed[0] == "manifest"
    assert set(removed[1:]) == {"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"}

"""What the real file system is asked to sync, and when: a name is promised after its content."""

import os
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.storage.system_calls import system
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import object_key, partition_prefix
from tierlog.tiering.store.remote_url import RemoteUrl

Call = tuple[str, str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The calls that sync or rename, with their paths, as they are made."""
    made: list[Call] = []

    def path_of(fd: int) -> str:
        return os.readlink(f"/proc/self/fd/{fd}")

    fsync, sync_data, replace = system.fsync, system.sync_data, system.replace

    def watched_fsync(fd: int) -> None:
        fsync(fd)
        made.append(("sync", path_of(fd)))

    def watched_sync_data(fd: int) -> None:
        sync_data(fd)
        made.append(("sync", path_of(fd)))

    def watched_replace(old: str, new: str) -> None:
        replace(old, new)
        made.append(("rename", new))

    monkeypatch.setattr(system, "fsync", watched_fsync)
    monkeypatch.setattr(system, "sync_data", watched_sync_data)
    monkeypatch.setattr(system, "replace", watched_replace)
    return made


def test_a_file_that_is_replaced_is_synced_before_it_has_its_name(
    tmp_path: Path, calls: list[Call]
) -> None:
    path = f"{tmp_path}/checkpoint"
    OsFiles().atomic_replace(path, b"content")
    assert calls == [("sync", f"{path}.tmp"), ("rename", path), ("sync", str(tmp_path))]
    calls.clear()
    OsFiles().atomic_replace(path, b"content", durable=False)
    assert calls == [("rename", path)]


async def test_each_object_of_a_file_tier_is_synced_before_it_has_its_name(
    tmp_path: Path, calls: list[Call]
) -> None:
    metadata = segment_metadata(1)
    root, pool = f"{tmp_path}/new/tier", ThreadedPool(1, "test")
    storage = FsspecStorage(RemoteUrl(f"file://{root}"), OsFiles(), pool)
    await storage.copy_log_segment_data(metadata, segment_data(bytes(100)))
    await storage.close()
    folder = f"{root}/{partition_prefix(metadata.topic_id_partition)}"
    for suffix in ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "manifest"):
        path = f"{root}/{object_key(metadata, suffix)}"
        renamed = calls.index(("rename", path))
        assert calls[renamed - 1] == ("sync", f"{path}.tmp")
        assert calls[renamed + 1] == ("sync", folder)
    first = calls.index(("sync", folder))
    for above in (root, f"{tmp_path}/new", str(tmp_path)):
        assert ("sync", above) in calls[:first]

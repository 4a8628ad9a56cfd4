"""The beginnings of keys, which find a partition's segments without a listing of their objects.

For stores that are servers, `served_storage.py` has the same case.
"""

from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, RemoteStorageError
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.local_store import LocalStore
from tierlog.tiering.store.remote_url import RemoteUrl

KEYS = (
    *("t.x-0-id/0001-0-a.log", "t.x-0-id/0001-0-a.manifest", "t.x-0-id/0002-1-b.log"),
    *("t.x-0-id/none", "t.x-1-id/0001-0-c.log", "t.xx-0-id/0001-0-d.log", "owner.x"),
)


async def written(url: str) -> TierFileSystem:
    tier = TierFileSystem(RemoteUrl(url), OsFiles(), ThreadedPool(1, "test"))
    for key in KEYS:
        await tier.write_bytes(key, b"")
    return tier


async def check(tier: TierFileSystem) -> None:
    assert await tier.list_beginnings("t.x-", "/") == ["t.x-0-id/", "t.x-1-id/"]
    stems = ["t.x-0-id/0001-0-a.", "t.x-0-id/0002-1-b."]
    assert await tier.list_beginnings("t.x-0-id/", ".") == stems
    assert await tier.list_beginnings("t.y-", "/") == []
    assert await tier.list_beginnings("t.y-0-id/", ".") == []
    await tier.close()


async def test_in_memory() -> None:
    await check(await written("memory://beginnings"))


async def test_in_a_folder(tmp_path: Path) -> None:
    await check(await written(f"file://{tmp_path}/tier"))


async def test_in_a_store_that_knows_no_delimiter_but_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = LocalStore.find_beginnings

    async def only_by_slash(store: LocalStore, prefix: str, delimiter: str) -> set[str]:
        if delimiter != "/":
            raise RemoteStorageError("no such delimiter", Failure.BROKEN)
        return await groups(store, prefix, delimiter)

    monkeypatch.setattr(LocalStore, "find_beginnings", only_by_slash)
    await check(await written(f"file://{tmp_path}/tier"))

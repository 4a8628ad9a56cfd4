"""A store that cannot hold a tier is found out before the first copy, and named in one sentence."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, RemoteStorageError
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.store.tier_probe import ABANDONED_AFTER_MS, abandoned_before, probe
from tierlog.tiering.store.tier_store import IsLeft, Source, TierObject, beginning_of

NOW_MS = 1_800_000_000_000


class DictStore:
    """A `TierStore` that does everything right; those below do one thing wrong."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_left: IsLeft | None = None

    async def put(self, key: str, source: Source) -> None:
        self.objects[key] = await source.whole()

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key][start:end]

    async def remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    async def find(self, prefix: str) -> list[TierObject]:
        return [
            TierObject(key, len(content), NOW_MS)
            for key, content in self.objects.items()
            if key.startswith(prefix)
        ]

    async def find_beginnings(self, prefix: str, delimiter: str) -> set[str]:
        found = {beginning_of(key, prefix, delimiter) for key in self.objects}
        return {beginning for beginning in found if beginning is not None}

    async def remove_folder(self, prefix: str) -> None: ...

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        self.is_left = is_left
        return 0

    async def renew(self) -> bool:
        return False

    async def close(self) -> None: ...


class IgnoresRanges(DictStore):
    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        return await super().get(key, None, None)


class ReadsFromTheStart(DictStore):
    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        content = await super().get(key, None, None)
        return content if end is None else content[: end - (start or 0)]


class LosesWrites(DictStore):
    async def put(self, key: str, source: Source) -> None: ...


class KeepsTheFirst(DictStore):
    async def put(self, key: str, source: Source) -> None:
        self.objects.setdefault(key, await source.whole())


class Mangles(DictStore):
    async def put(self, key: str, source: Source) -> None:
        self.objects[key] = (await source.whole()).upper()


class ListsNothing(DictStore):
    async def find(self, prefix: str) -> list[TierObject]:
        return []


class ListsWrongSizes(DictStore):
    async def find(self, prefix: str) -> list[TierObject]:
        return [each._replace(size=0) for each in await super().find(prefix)]


class RemovesNothing(DictStore):
    async def remove(self, keys: Sequence[str]) -> None: ...


class HidesTheRemoved(RemovesNothing):
    def __init__(self) -> None:
        super().__init__()
        self.lists = 0

    async def find(self, prefix: str) -> list[TierObject]:
        self.lists += 1
        return await super().find(prefix) if self.lists == 1 else []


class MindsTheMissing(DictStore):
    async def remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self.objects[key]


class Moody(DictStore):
    """Ignores ranges as long as it is told to."""

    ignores_ranges = True

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        if self.ignores_ranges:
            return await super().get(key, None, None)
        return await super().get(key, start, end)


class CutOff(DictStore):
    """Is out of reach as soon as something was read, as if whoever probes had been killed."""

    is_gone = False

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        self.is_gone = True
        raise ConnectionResetError

    async def remove(self, keys: Sequence[str]) -> None:
        if self.is_gone:
            raise ConnectionResetError
        await super().remove(keys)


class Silent(DictStore):
    """Never answers who reads."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        self.is_asked.set()
        await asyncio.Event().wait()
        return b""


LOCATION = RemoteUrl("dict://probed")


@pytest.fixture
def stand_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[DictStore], None]:
    """Lets every tier that is opened from now on stand on a store."""

    def use(store: DictStore) -> None:
        def made(*_: object) -> DictStore:
            return store

        monkeypatch.setattr("tierlog.tiering.store.file_system._store_for", made)

    return use


def opened() -> TierFileSystem:
    return TierFileSystem(LOCATION, OsFiles(), ThreadedPool(1, "test"))


def test_a_store_that_does_right_is_left_as_it_was(stand_on: Callable[[DictStore], None]) -> None:
    store = DictStore()
    stand_on(store)
    asyncio.run(probe(opened(), "probe-x"))
    assert store.objects == {}
    assert store.is_left is not None
    ours, old_ms = object_key(segment_metadata(1), "log"), NOW_MS - ABANDONED_AFTER_MS - 1
    assert store.is_left(ours, old_ms)
    assert not store.is_left(ours, old_ms + 1)


@pytest.mark.parametrize(
    "key", ["backup.tar", "another/tier/{ours}", "photos/2024.log", "{folder}/x"]
)
def test_uploads_of_others_in_the_same_bucket_are_left_alone(key: str) -> None:
    """A tier may lie at the root of a bucket."""
    ours = object_key(segment_metadata(1), "log")
    key = key.format(ours=ours, folder=ours.partition("/")[0])
    assert not abandoned_before(NOW_MS)(key, 0)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (
            IgnoresRanges,
            "returned 4267 bytes of probe-x where 1 were requested: it ignores byte range",
        ),
        (ReadsFromTheStart, "the store returns other bytes than the requested range"),
        (LosesWrites, "the store does not find an object that was just written"),
        (KeepsTheFirst, "the store still returns the old content of an overwritten object"),
        (Mangles, "the store returns other bytes than were written"),
        (ListsNothing, "the store does not list an object that was just written"),
        (ListsWrongSizes, "the store lists an object with another size than it has"),
        (RemovesNothing, "the store still lists an object that was removed"),
        (HidesTheRemoved, "the store still returns an object that was removed"),
        (MindsTheMissing, "KeyError"),
    ],
)
def test_what_a_broken_store_does_wrong_is_said(
    broken: Callable[[], DictStore], sentence: str, stand_on: Callable[[DictStore], None]
) -> None:
    stand_on(broken())
    with pytest.raises(RemoteStorageError, match=sentence) as failed:
        asyncio.run(probe(opened(), "probe-x"))
    assert failed.value.failure is Failure.BROKEN
    assert "dict://probed" in str(failed.value)


async def test_a_store_is_probed_once_and_before_the_first_copy_only(
    stand_on: Callable[[DictStore], None],
) -> None:
    store = Moody()
    stand_on(store)
    storage = FsspecStorage(LOCATION, OsFiles(), ThreadedPool(1, "test"))

    async def copy(number: int) -> None:
        await storage.copy_log_segment_data(segment_metadata(number), segment_data(b"1"))

    with pytest.raises(RemoteStorageError, match="ignores byte ranges"):
        await copy(1)
    assert store.objects == {}, "Nothing is copied to a store that failed"
    store.ignores_ranges = False
    await asyncio.gather(*(copy(number) for number in (2, 3, 4)))
    assert len(store.objects) == 3 * 6
    # It is not asked again.
    store.ignores_ranges = True
    await copy(5)


async def test_what_a_probe_left_that_was_cut_short_goes_with_its_segment(
    stand_on: Callable[[DictStore], None],
) -> None:
    store = CutOff()
    stand_on(store)
    metadata = segment_metadata(1)
    storage = FsspecStorage(LOCATION, OsFiles(), ThreadedPool(1, "test"))
    with pytest.raises(RemoteStorageError):
        await storage.copy_log_segment_data(metadata, segment_data(b"1"))
    assert len(store.objects) == 1, "The probe could not clear up"
    store.is_gone = False
    await storage.delete_log_segment_data(metadata)
    assert store.objects == {}


async def test_a_probe_that_is_cancelled_removes_its_object(
    stand_on: Callable[[DictStore], None],
) -> None:
    store = Silent()
    stand_on(store)
    async with asyncio.TaskGroup() as group:
        probing = group.create_task(probe(opened(), "probe-x"))
        await store.is_asked.wait()
        assert list(store.objects) == ["probe-x"]
        probing.cancel()
    assert store.objects == {}

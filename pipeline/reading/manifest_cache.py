"""Keeps small objects of tiers in memory, so that later scans of a process read them no more.

What is kept are manifests, epoch checkpoints and producer snapshots. Each attempt to copy a segment
has keys of its own, so these objects hardly ever change; `tierlog tier repair` alone writes one
again. An object is therefore kept under its key, size and time of modification, and returned only
while a listing shows the same: what was deleted or written again is noticed by the listing, which
is never kept.

PySpark plans the queries of a session in one process as long as it is not idle for a minute.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...tiering.remote_storage import IndexType
from ...tiering.store.object_keys import MANIFEST_SUFFIX
from ...tiering.store.remote_url import RemoteUrl
from ...tiering.store.tier_store import TierObject
from ...tiering.tools.tier_survey import TierReader

CACHE_BYTES = 64 << 20
"""Enough for the manifests of some 70,000 segments."""

_OVERHEAD_BYTES = 512
"""About what Python needs for an entry beside its content."""

_SUFFIXES = tuple(
    f".{suffix}"
    for suffix in (
        MANIFEST_SUFFIX,
        IndexType.LEADER_EPOCH.value,
        IndexType.PRODUCER_SNAPSHOT.value,
    )
)


class TierLister(TierReader, Protocol):
    """A `TierReader` that can list the beginnings of keys, as `TierFileSystem` does."""

    async def list_beginnings(self, prefix: str, delimiter: str) -> Sequence[str]: ...


class _Version(NamedTuple):
    """One version of an object. `where` is the tier with its options, which may hold secrets."""

    where: str
    tier_object: TierObject


class ObjectCache:
    """Contents by version, those used last.

    Any thread may use it, and none waits: each step on the dictionary is atomic, and what another
    thread has just taken out to put it last is read once more.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._contents: dict[_Version, bytes] = {}
        """Those used last are last."""
        self._nbytes = 0
        """Too low if two threads have put at once; `_shrink` counts again."""

    @property
    def nbytes(self) -> int:
        """About the memory that the cache occupies."""
        return sum(len(content) + _OVERHEAD_BYTES for content in list(self._contents.values()))

    def get(self, version: _Version) -> bytes | None:
        content = self._contents.pop(version, None)
        if content is not None:
            self._contents[version] = content
        return content

    def put(self, version: _Version, content: bytes) -> None:
        self._contents[version] = content
        self._nbytes += len(content) + _OVERHEAD_BYTES
        if self._nbytes > self._bytes_max:
            self._shrink()

    def drop(self, version: _Version) -> None:
        self._contents.pop(version, None)

    def _shrink(self) -> None:
        """Drop the least recently used; a quarter more than needed, so that this is rare."""
        nbytes = self.nbytes
        for version in list(self._contents):
            if nbytes <= self._bytes_max * 3 // 4:
                break
            content = self._contents.pop(version, None)
            if content is not None:
                nbytes -= len(content) + _OVERHEAD_BYTES
        self._nbytes = nbytes


_PROCESS_CACHE = ObjectCache()


class CachingTier:
    """A `TierLister` that reads a small object only if the cache has not what was listed."""

    def __init__(
        self, tier: TierLister, location: RemoteUrl, cache: ObjectCache = _PROCESS_CACHE
    ) -> None:
        self._tier = tier
        self._where = f"{location.url} {sorted(location.options.items())}"
        self._cache = cache
        self._listed: dict[str, TierObject] = {}

    async def list(self, prefix: str = "") -> list[TierObject]:
        """As `TierFileSystem.list`."""
        objects = await self._tier.list(prefix)
        # A stream lists for months: what is gone from the tier goes here too.
        self._listed = {key: at for key, at in self._listed.items() if not key.startswith(prefix)}
        self._listed |= {each.key: each for each in objects if each.key.endswith(_SUFFIXES)}
        return objects

    async def list_beginnings(self, prefix: str, delimiter: str) -> Sequence[str]:
        """As `TierFileSystem.list_beginnings`."""
        return await self._tier.list_beginnings(prefix, delimiter)

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """As `TierFileSystem.read`."""
        listed = self._listed.get(key)
        if listed is None or listed.modified_ms is None or (start, end) != (None, None):
            return await self._tier.read(key, start, end)
        version = _Version(self._where, listed)
        content = self._cache.get(version)
        if content is None:
            content = await self._tier.read(key)
            if len(content) == listed.size:
                self._cache.put(version, content)
        return content

    def forget(self) -> None:
        """Let the next scan read again what this one has listed: it may have been read wrong."""
        for listed in self._listed.values():
            self._cache.drop(_Version(self._where, listed))

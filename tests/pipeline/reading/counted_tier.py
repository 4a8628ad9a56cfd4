"""A bucket that counts requests as S3 does: a page of a listing has a thousand entries."""

from collections import Counter
from collections.abc import Sequence

from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.tier_store import TierObject, beginning_of

PAGE_KEYS = 1000


class CountedTier:
    """What a scan needs of `TierFileSystem`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.requests: Counter[str] = Counter()
        """By what was read: `list`, or the suffix of the key."""
        self.manifests: list[str] = []
        """The keys of those that were read."""

    @property
    def count(self) -> int:
        return self.requests.total()

    async def list(self, prefix: str = "") -> list[TierObject]:
        objects = await self._bucket.list(prefix)
        self._count_pages(len(objects))
        return objects

    async def list_beginnings(self, prefix: str, delimiter: str) -> Sequence[str]:
        keys = [key for key in self._bucket.objects if key.startswith(prefix)]
        beginnings = [beginning_of(key, prefix, delimiter) for key in keys]
        grouped = {each for each in beginnings if each is not None}
        self._count_pages(len(grouped) + beginnings.count(None))
        return sorted(grouped)

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        suffix = key.rpartition(".")[2]
        self.requests[suffix] += 1
        if suffix == "manifest":
            self.manifests.append(key)
        return await self._bucket.read(key, start, end)

    def _count_pages(self, entries: int) -> None:
        self.requests["list"] += max(1, -(-entries // PAGE_KEYS))

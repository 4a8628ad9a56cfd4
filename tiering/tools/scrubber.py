"""The scrub of a tier: finds orphans and removes them (`orphans.py` has the rules).

A look compares a listing of the tier with the metadata. The command line reads the metadata twice
in one run; a broker scrubs periodically, with one look each time, and removes the orphans that the
previous look also found. The only store operations are list and remove; a failed removal is retried
at the next look.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ..store.tier_store import TierObject
from .in_parallel import in_parallel
from .orphans import Looks, Orphan, find_orphans
from .stored_segments import Listing, sort_out

_WORKERS = 8

Metadata = Callable[[], Awaitable[Mapping[TopicIdPartition, RemoteLog]]]
"""Reads the whole metadata topic. Raises KafkaError if it cannot read all of it."""


class TierCleaner(Protocol):
    """The part of `TierFileSystem` that a scrub uses."""

    async def list(self, prefix: str = "") -> list[TierObject]: ...

    async def remove(self, key: str) -> None: ...


class Look(NamedTuple):
    """The result of one look at the tier."""

    listing: Listing
    orphans: list[Orphan]
    """All orphans, removable or not."""
    ripe: list[Orphan]
    """The orphans that may be removed now."""


class Scrubber:
    """Finds and removes the orphans of one tier."""

    def __init__(
        self,
        tier: TierCleaner,
        metadata: Metadata,
        wall_clock_ms: Callable[[], int],
        grace_ms: int,
        *,
        unknown_partitions: bool = False,
        unknown_segments: bool = False,
    ) -> None:
        self._tier = tier
        self._metadata = metadata
        self._wall_clock_ms = wall_clock_ms
        self._looks = Looks(grace_ms)
        self._unknown_partitions = unknown_partitions
        self._unknown_segments = unknown_segments

    async def look(self) -> Look:
        """List, read the metadata, compare. Raises RemoteStorageError, KafkaError."""
        listing = sort_out(await self._tier.list())
        return await self.look_again(listing)

    async def look_again(self, listing: Listing) -> Look:
        """Compare a listing with the current metadata. Raises KafkaError."""
        orphans = find_orphans(listing, await self._metadata())
        removable = [
            orphan
            for orphan in orphans
            if (orphan.is_of_known_partition or self._unknown_partitions)
            and (not orphan.is_whole or self._unknown_segments)
        ]
        return Look(listing, orphans, self._looks.ripe(removable, self._wall_clock_ms()))

    async def remove(self, orphans: list[Orphan]) -> int:
        """Remove orphans; returns the number of objects removed. Raises RemoteStorageError."""
        removed = 0

        async def remove_one(orphan: Orphan) -> None:
            nonlocal removed
            for tier_object in orphan.objects:
                await self._tier.remove(tier_object.key)
                removed += 1

        await in_parallel(orphans, remove_one, _WORKERS)
        return removed

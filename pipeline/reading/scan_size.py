"""Counts what a scan reads: as planned, and as its tasks have read it."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from ...tiering.store.tier_store import TierObject
from .manifest_cache import TierLister
from .scan_task import ScanTask

LOGGER = "tierlog.scan"
"""The name of the logger of what scans read: one INFO line a plan, and one a task."""

log = logging.getLogger(LOGGER)


class ScanSize(NamedTuple):
    """What the tasks of a scan are to read."""

    tasks: int
    segments: int
    """Objects; tasks may share one."""
    offsets: int
    """An upper bound for the number of records."""
    nbytes: int
    """Of the log objects; what two tasks both read counts twice."""

    def __str__(self) -> str:
        return (
            f"{self.tasks:,} tasks, {self.segments:,} segments, {self.offsets:,} offsets, "
            f"{self.nbytes:,} bytes"
        )


def size_of_tasks(tasks: Sequence[ScanTask]) -> ScanSize:
    """The size of a plan."""
    ranges = [scan_range for task in tasks for scan_range in task.ranges]
    return ScanSize(
        len(tasks),
        len({scan_range.key for scan_range in ranges}),
        sum(scan_range.end_offset - scan_range.first_offset for scan_range in ranges),
        sum(scan_range.nbytes for scan_range in ranges),
    )


class CountedTier:
    """A tier, and how much has been read of it."""

    def __init__(self, tier: TierLister) -> None:
        self._tier = tier
        self.requests = 0
        """Successful reads and listings; a store may need several requests for a listing."""
        self.nbytes = 0

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """As the tier itself."""
        content = await self._tier.read(key, start, end)
        self.requests += 1
        self.nbytes += len(content)
        return content

    async def list(self, prefix: str = "") -> list[TierObject]:
        """As the tier itself."""
        objects = await self._tier.list(prefix)
        self.requests += 1
        return objects

    async def list_beginnings(self, prefix: str, delimiter: str) -> Sequence[str]:
        """As the tier itself."""
        names = await self._tier.list_beginnings(prefix, delimiter)
        self.requests += 1
        return names

    def __str__(self) -> str:
        return f"{self.nbytes:,} bytes in {self.requests:,} requests"

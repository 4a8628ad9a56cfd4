"""Finds the topics of a scan by pattern, from the keys of the tier's objects.

A topic of which no segment is complete yet is not among them: it has nothing to read. A pattern may
match no topic at all, as in Spark's Kafka source: then a scan has no rows, and a stream waits.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from ...tiering.remote_storage import RemoteStorageError
from ...tiering.store.tier_store import TierObject
from ...tiering.tools.opened_tier import opened_tier
from ...tiering.tools.stored_segments import sort_out
from .scan_options import ScanError, ScanOptions
from .topic_choice import TopicMatcher


class Listed(Protocol):
    """What lists a tier."""

    async def list(self, prefix: str = "") -> list[TierObject]: ...


class TierTopics:
    """The topics that a scan's options mean, at the moment of each look."""

    def __init__(self, options: ScanOptions) -> None:
        """Raises ScanError if the pattern is invalid."""
        self._options = options
        pattern = options.topic_pattern
        self._matcher = None if pattern is None else TopicMatcher(pattern)

    async def resolved(self, tier: Listed) -> ScanOptions:
        """The options with the names of the topics. Without a pattern, nothing is listed.

        Raises ScanError if no segment of any topic is there, and RemoteStorageError.
        """
        if self._matcher is None:
            return self._options
        listing = sort_out(await tier.list())
        names = {
            segment.topic_id_partition.topic
            for segment in listing.segments.values()
            if segment.has_manifest
        }
        if not names:
            raise ScanError(
                f"There is no tier at {self._options.location}: no segment of any topic is there"
            )
        return replace(self._options, topics=self._matcher.matching(names))


def topic_names(options: ScanOptions) -> tuple[str, ...]:
    """The topics that the options mean now, sorted if they are those of a pattern.

    Raises ScanError if the pattern is invalid, or if the store or a tier in it is not there.
    """
    topics = TierTopics(options)

    async def names() -> tuple[str, ...]:
        async with opened_tier(options.location) as tier:
            return (await topics.resolved(tier)).topics

    # A notebook has an event loop in the caller's thread.
    with ThreadPoolExecutor(1, thread_name_prefix="tier-topics") as thread:
        try:
            return thread.submit(asyncio.run, names()).result()
        except RemoteStorageError as error:
            raise ScanError(str(error)) from None

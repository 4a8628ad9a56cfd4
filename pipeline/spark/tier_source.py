"""Reads topics of a tier in a Spark job: finds their offsets, and loads ranges of them."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...clients.topic_partition import TopicPartition
from ...tiering.remote_storage import RemoteStorageError
from ...tiering.store.remote_url import OptionValue, RemoteUrl
from ...tiering.tools.opened_tier import opened_tier
from ..reading.manifest_cache import CachingTier
from ..reading.scan_bounds import OffsetRange, scan_ranges
from ..reading.scan_options import (
    STORAGE_PREFIX,
    ScanError,
    TopicIds,
    offsets_to_json,
    scan_options,
    topic_ids_to_json,
)
from ..reading.tier_lineages import TierLineages
from ..reading.tier_topics import topic_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...tiering.tools.lineage_choice import TierLineage


class TierSource:
    """Some topics of a tier, as the source of a job."""

    def __init__(self, location: RemoteUrl, topics: Sequence[str], isolation: str) -> None:
        self._location = location
        self._options = {
            **_location_options(location),
            "topic": ",".join(topics),
            "isolation": isolation,
        }
        self.topic_ids: TopicIds = {}
        """The ids that the last `ranges` found. `rows` fails rather than read other topics."""
        self.lineages: Mapping[TopicPartition, TierLineage] = {}
        """What makes up each partition's log, as the last `ranges` saw it."""

    def __str__(self) -> str:
        return str(self._location)

    def ranges(self) -> dict[TopicPartition, OffsetRange]:
        """The offsets that the tier holds of each partition. Raises ScanError."""
        return asyncio.run(self._ranges())

    async def _ranges(self) -> dict[TopicPartition, OffsetRange]:
        options = scan_options(self._options)
        try:
            async with opened_tier(options.location) as opened:
                tier = CachingTier(opened, options.location)
                try:
                    view = await TierLineages.of(tier, options).look()
                    self.topic_ids, self.lineages = view.topic_ids, view.lineages
                    return await scan_ranges(tier, view, options)
                except ScanError:
                    tier.forget()
                    raise
        except RemoteStorageError as error:
            raise ScanError(str(error)) from None

    def nbytes_in(self, ranges: Mapping[TopicPartition, OffsetRange]) -> int:
        """About how many bytes of segments hold these offsets, by what `ranges` saw."""
        nbytes = 0
        for partition, offset_range in ranges.items():
            lineage = self.lineages.get(partition)
            for stretch in () if lineage is None else lineage.stretches:
                first = max(stretch.first_offset, offset_range.first)
                shared = min(stretch.end_offset, offset_range.end) - first
                segment = stretch.segment
                offsets = segment.end_offset + 1 - segment.start_offset
                nbytes += segment.segment_size_bytes * max(shared, 0) // offsets
        return nbytes

    def rows(
        self,
        spark: "SparkSession",
        ranges: Mapping[TopicPartition, OffsetRange],
        *,
        fail_on_data_loss: bool = True,
        may_be_compacted: bool = False,
    ) -> "DataFrame":
        """The records of these offsets.

        `ranges` must contain every partition of the topics that has a segment in the tier.
        """
        from .source import TierlogDataSource

        spark.dataSource.register(TierlogDataSource)
        first = {partition: offset_range.first for partition, offset_range in ranges.items()}
        end = {partition: offset_range.end for partition, offset_range in ranges.items()}
        return (
            spark.read.format("tierlog")
            .options(**self._options)
            .option("topicIds", json.dumps(topic_ids_to_json(self.topic_ids)))
            .option("startingOffsets", _json(first))
            .option("endingOffsets", _json(end))
            .option("failOnDataLoss", str(fail_on_data_loss).lower())
            .option("mayBeCompacted", str(may_be_compacted).lower())
            .load()
        )


def matching_topics(location: RemoteUrl, pattern: str) -> Callable[[], tuple[str, ...]]:
    """What names the topics of a tier that match a pattern, at the moment of each call.

    A call raises ScanError. Raises ScanError if the pattern is invalid.
    """
    options = scan_options({**_location_options(location), "subscribePattern": pattern})
    return partial(topic_names, options)


def _location_options(location: RemoteUrl) -> dict[str, str]:
    return {"path": location.url, **dict(_flatten(STORAGE_PREFIX, location.options))}


def _json(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(offsets_to_json(offsets))


def _flatten(prefix: str, options: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
    """Nested options as a flat list: names joined by dots, values as text."""
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{name}.", value)
        else:
            yield prefix + name, str(value).lower() if isinstance(value, bool) else str(value)

"""An audit's verdict on one segment: its findings, and sums over its batches.

The checks are those of `tierlog tier verify` (`tiering/tools/segment_check.py`): each object
against its manifest, each batch against its CRC, offsets, leader epochs and indexes. The sums come
from the same read.
"""

from typing import NamedTuple

from ....clients.kafka_uuid import Uuid
from ....clients.record.batch import RecordBatch, TimestampType
from ....clients.topic_partition import TopicIdPartition
from ....tiering.store.manifest import Manifest
from ....tiering.tools.segment_check import check_segment
from ....tiering.tools.tier_survey import Finding, TierReader, offsets_of

NO_TIME = -1


class Totals(NamedTuple):
    """Sums over batches."""

    batches: int = 0
    records: int = 0
    """The record counts in the batch headers, without control batches."""
    markers: int = 0
    """Control records: transaction markers."""
    first_ms: int = NO_TIME
    last_ms: int = NO_TIME

    def plus(self, other: "Totals") -> "Totals":
        """The sums of both."""
        firsts = [each for each in (self.first_ms, other.first_ms) if each != NO_TIME]
        return Totals(
            self.batches + other.batches,
            self.records + other.records,
            self.markers + other.markers,
            min(firsts, default=NO_TIME),
            max(self.last_ms, other.last_ms),
        )


class SegmentVerdict(NamedTuple):
    """The findings and sums of one segment."""

    partition: TopicIdPartition
    segment_id: Uuid
    first_offset: int
    last_offset: int
    nbytes: int
    """The total size of the segment's objects."""
    totals: Totals
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_trouble for finding in self.findings)


async def audit_segment(tier: TierReader, manifest: Manifest) -> SegmentVerdict:
    """Read and check a whole segment. Raises RemoteStorageError if the store does not answer."""
    totals = Totals()

    def watch(batch: RecordBatch) -> None:
        nonlocal totals
        totals = totals.plus(_of_batch(batch))

    findings = await check_segment(tier, manifest, watch)
    metadata = manifest.metadata
    return SegmentVerdict(
        metadata.topic_id_partition,
        metadata.id,
        *offsets_of(metadata),
        sum(part.size for part in manifest.parts.values()),
        totals,
        tuple(findings),
    )


def _of_batch(batch: RecordBatch) -> Totals:
    # A damaged count may be negative; its wrong CRC is a finding.
    count = max(batch.record_count, 0)
    records, markers = (0, count) if batch.is_control else (count, 0)
    # With LogAppendTime the broker sets only the max timestamp; the base is still the producer's.
    is_stamped = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    first_ms = batch.max_timestamp if is_stamped else batch.base_timestamp
    return Totals(1, records, markers, first_ms, batch.max_timestamp)

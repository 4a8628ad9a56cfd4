"""The profile of a topic's records: made for each segment, then merged.

Batches are decompressed, decoded into columns (`record_columns.py`), counted and dropped. A profile
has the same size for a thousand records and for a billion, so each task merges its segments, Spark
merges the tasks, and the driver gets one profile per topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....clients.record.batch import RecordBatch
from ....clients.record.layout import BATCH_OVERHEAD
from ....tiering.store.manifest import Manifest
from ....tiering.store.object_keys import LOG_SUFFIX, object_key
from ....tiering.tools.tier_survey import TierReader
from ...reading.record_columns import RecordColumns, plain_records
from ...reading.segment_stream import SegmentStream, check
from .column_counts import COUNTED, column_counts
from .sketches import KeySketch, RateSeries, SizeCounts

_STEP_BYTES = 8 * 1024 * 1024
"""About how many decompressed bytes are decoded at once."""


@dataclass(slots=True)
class CodecTotals:
    """Sums over the batches of one codec."""

    batches: int = 0
    records: int = 0
    stored: int = 0
    """Bytes of records as stored, without batch headers."""
    plain: int = 0
    """Bytes of the same records decompressed."""

    def merge(self, other: "CodecTotals") -> None:
        """Add the sums of other batches."""
        self.batches += other.batches
        self.records += other.records
        self.stored += other.stored
        self.plain += other.plain

    @property
    def ratio(self) -> float:
        """The ratio of decompressed to stored bytes."""
        return self.plain / self.stored if self.stored else 1.0


@dataclass(slots=True)
class PartitionTotals:
    """Sums over one partition."""

    segments: int = 0
    records: int = 0
    nbytes: int = 0
    """The size of all objects of its segments."""


@dataclass(slots=True)
class TopicProfile:
    """The profile of one topic, or of a part of it."""

    topic: str
    partitions: dict[int, PartitionTotals] = field(default_factory=dict[int, PartitionTotals])
    codecs: dict[str, CodecTotals] = field(default_factory=dict[str, CodecTotals])
    keys: KeySketch = field(default_factory=KeySketch)
    rates: RateSeries = field(default_factory=RateSeries)
    sizes: SizeCounts = field(default_factory=SizeCounts)
    markers: int = 0
    """Control records: transaction markers."""
    tombstones: int = 0
    """Records without a value."""
    payload: int = 0
    """Bytes of keys and values."""

    def merge(self, other: "TopicProfile") -> None:
        """Add the profile of other segments of the topic."""
        assert self.topic == other.topic, "Topics do not mix"
        for number, theirs in other.partitions.items():
            ours = self.partitions.setdefault(number, PartitionTotals())
            ours.segments += theirs.segments
            ours.records += theirs.records
            ours.nbytes += theirs.nbytes
        for codec, totals in other.codecs.items():
            self.codecs.setdefault(codec, CodecTotals()).merge(totals)
        self.keys.merge(other.keys)
        self.rates.merge(other.rates)
        self.sizes.merge(other.sizes)
        self.markers += other.markers
        self.tombstones += other.tombstones
        self.payload += other.payload

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions.values())

    @property
    def segments(self) -> int:
        return sum(partition.segments for partition in self.partitions.values())

    @property
    def nbytes(self) -> int:
        return sum(partition.nbytes for partition in self.partitions.values())

    @property
    def whole(self) -> CodecTotals:
        """The sums over all codecs."""
        totals = CodecTotals()
        for codec in self.codecs.values():
            totals.merge(codec)
        return totals


def merge_by_topic(profiles: Sequence[TopicProfile]) -> list[TopicProfile]:
    """One profile for each topic, by name."""
    by_topic: dict[str, TopicProfile] = {}
    for profile in profiles:
        by_topic.setdefault(profile.topic, TopicProfile(profile.topic)).merge(profile)
    return [by_topic[topic] for topic in sorted(by_topic)]


async def profile_segment(tier: TierReader, manifest: Manifest) -> TopicProfile:
    """Profile a whole segment. Raises ScanError or KafkaError if damaged, RemoteStorageError."""
    partition = manifest.metadata.topic_id_partition
    profile = TopicProfile(partition.topic)
    totals = profile.partitions[partition.partition] = PartitionTotals(
        segments=1, nbytes=sum(part.size for part in manifest.parts.values())
    )
    columns = RecordColumns(partition.topic, partition.partition, COUNTED)
    key = object_key(manifest.metadata, LOG_SUFFIX)
    stream = SegmentStream(key, 0, manifest.parts[LOG_SUFFIX].size)
    while (piece := await stream.read(tier)) is not None:
        waiting: list[tuple[RecordBatch, bytes | bytearray | memoryview]] = []
        size = 0
        for batch in stream.batches(piece):
            check(batch, key)
            if batch.is_control:
                profile.markers += batch.record_count
                continue
            payload = plain_records(batch)
            _count_codec(profile, batch, len(payload))
            totals.records += batch.record_count
            waiting.append((batch, payload))
            size += len(payload)
            if size >= _STEP_BYTES:
                _count_records(profile, columns, waiting)
                waiting, size = [], 0
        if waiting:
            _count_records(profile, columns, waiting)
    stream.finish()
    return profile


def _count_codec(profile: TopicProfile, batch: RecordBatch, plain: int) -> None:
    codec = profile.codecs.setdefault(batch.compression_type.name.lower(), CodecTotals())
    stored = len(batch.view) - BATCH_OVERHEAD
    codec.merge(CodecTotals(1, batch.record_count, stored, plain))


def _count_records(
    profile: TopicProfile,
    columns: RecordColumns,
    waiting: Sequence[tuple[RecordBatch, bytes | bytearray | memoryview]],
) -> None:
    batches, payloads = zip(*waiting, strict=True)
    counts = column_counts(columns.decode_payloads(batches, payloads))
    profile.keys.add(counts.keys, counts.nulls)
    profile.rates.add(counts.times_ms, counts.nbytes)
    profile.sizes.add(counts.nbytes)
    profile.tombstones += counts.tombstones
    profile.payload += int(counts.nbytes.sum())

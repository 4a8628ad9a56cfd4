"""Computes the producer state at the end of a log in the tier whose snapshot cannot be read.

As a broker does after a crash: from the newest snapshot that is sound, the batches above it are
applied. Each segment has a snapshot of its end, so usually only the last segment is read.
"""

from collections.abc import AsyncIterator, Mapping

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.record.batch import RecordBatch, batches
from ...storage.producer.producer_entry import ProducerEntry, end_transaction_marker
from ...storage.producer.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from ..remote_storage import IndexType, RemoteResourceNotFound
from ..store.manifest import Manifest
from ..store.object_keys import LOG_SUFFIX, object_key
from .lineage_choice import Stretch, TierLineage
from .tier_survey import DamagedPartError, TierReader, read_part

_PIECE_BYTES = 4 * 1024 * 1024


async def producers_at_end(
    tier: TierReader, lineage: TierLineage, manifests: Mapping[Uuid, Manifest]
) -> bytes:
    """The snapshot at the end of a lineage; `manifests` has those of its segments, by segment id.

    Raises DamagedPartError if a batch that is needed cannot be read, RemoteStorageError.
    """
    entries: dict[int, ProducerEntry] = {}
    needed: list[Stretch] = []
    for stretch in reversed(lineage.stretches):
        manifest = manifests[stretch.segment.id]
        if stretch.end_offset == stretch.segment.end_offset + 1:
            try:
                content = await read_part(tier, manifest, IndexType.PRODUCER_SNAPSHOT.value)
                entries = {entry.producer_id: entry for entry in decode_snapshot(content)}
                break
            except (DamagedPartError, CorruptSnapshotError):
                # An older one serves as well, with more to apply.
                pass
        needed.append(stretch)
    for stretch in reversed(needed):
        async for batch in _batches(tier, manifests[stretch.segment.id], stretch):
            apply_to_producers(entries, batch)
    return encode_snapshot(entries.values())


def apply_to_producers(entries: dict[int, ProducerEntry], batch: RecordBatch) -> None:
    """Update the state of a batch's producer, as appending the batch did."""
    producer_id = batch.producer_id
    if producer_id < 0:
        return
    if not batch.is_control:
        entries.setdefault(producer_id, ProducerEntry(producer_id)).append_data_batch(batch)
        return
    marker = end_transaction_marker(batch)
    if marker is not None:
        entries.setdefault(producer_id, ProducerEntry(producer_id)).append_marker(batch, marker)


async def _batches(
    tier: TierReader, manifest: Manifest, stretch: Stretch
) -> AsyncIterator[RecordBatch]:
    async for batch in stored_batches(tier, manifest):
        if batch.base_offset >= stretch.end_offset:
            return
        if batch.last_offset >= stretch.first_offset:
            yield batch


async def stored_batches(tier: TierReader, manifest: Manifest) -> AsyncIterator[RecordBatch]:
    """The batches of a segment, each checked; a piece of the log is in memory at a time.

    Raises DamagedPartError, RemoteStorageError.
    """
    key, size = object_key(manifest.metadata, LOG_SUFFIX), manifest.metadata.segment_size_bytes
    rest, expected = b"", manifest.metadata.start_offset
    for start in range(0, size, _PIECE_BYTES):
        try:
            piece = await tier.read(key, start, min(start + _PIECE_BYTES, size))
        except RemoteResourceNotFound as error:
            raise DamagedPartError("log is missing") from error
        content, used = rest + piece if rest else piece, 0
        try:
            for batch in batches(content):
                if not batch.crc_is_valid() or batch.base_offset < expected:
                    raise DamagedPartError(f"log is damaged at offset {batch.base_offset}")
                used += batch.size_in_bytes
                expected = batch.next_offset
                yield batch
        except KafkaError as error:
            raise DamagedPartError(f"log is damaged after offset {expected - 1}") from error
        rest = content[used:]
    if rest:
        raise DamagedPartError(f"log ends within a batch, after offset {expected - 1}")

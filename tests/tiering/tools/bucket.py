"""A bucket in memory with real segments in it, to survey, damage, scrub and rebuild from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.record.checksum import crc32c
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.checkpoint import format_epochs
from tierlog.storage.producer.producer_entry import ProducerEntry
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_segment import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierlog.tests.tiering.remote_partition import PARTITION, batch_bytes
from tierlog.tiering.remote_storage import (
    Failure,
    OversizedObjectError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierlog.tiering.store.manifest import Manifest, Part, TopicDescription, encode_manifest
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.tier_store import TierObject

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
WRITTEN_MS = 1_000_000

History = Sequence[tuple[int, int]]


class Bucket:
    """What the tools need of `TierFileSystem`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_down = False
        self.removed: list[str] = []

    def _answer(self) -> None:
        if self.is_down:
            raise RemoteStorageError("The tier is unreachable", Failure.UNREACHABLE)

    async def list(self, prefix: str = "") -> list[TierObject]:
        self._answer()
        return [
            TierObject(key, len(content), WRITTEN_MS)
            for key, content in sorted(self.objects.items())
            if key.startswith(prefix)
        ]

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self._answer()
        if key not in self.objects:
            raise RemoteResourceNotFound(f"no {key}")
        content = self.objects[key][start:end]
        if end is not None and len(content) != end - (start or 0):
            raise RemoteStorageError(f"{key} is short", Failure.BROKEN)
        return content

    async def read_small(self, key: str, bytes_max: int) -> bytes:
        if len(self.objects.get(key, b"")) > bytes_max:
            raise OversizedObjectError(f"{key} is too large")
        return await self.read(key)

    async def write_bytes(self, key: str, content: bytes) -> None:
        self._answer()
        self.objects[key] = content

    async def remove(self, key: str) -> None:
        self._answer()
        self.objects.pop(key, None)
        self.removed.append(key)

    def write_to(self, directory: Path) -> None:
        """Let a folder hold the objects, as a tier of files does."""
        for key, content in self.objects.items():
            path = directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def damage(self, metadata: RemoteLogSegmentMetadata, suffix: str, position: int) -> None:
        """Turn one bit over."""
        key = object_key(metadata, suffix)
        content = bytearray(self.objects[key])
        content[position] ^= 1
        self.objects[key] = bytes(content)

    def put(
        self,
        number: int,
        offsets: tuple[int, int],
        history: History = ((0, 0),),
        *,
        partition: TopicIdPartition = PARTITION,
        topic: TopicDescription | None = None,
        producers: Sequence[ProducerEntry] = (),
        log_start: int = 0,
    ) -> RemoteLogSegmentMetadata:
        """Store a segment of batches of up to three records, as a copy would have.

        `log_start` is where the log began when it was copied: its leader epochs begin no earlier.
        """
        first, last = offsets
        log = bytearray()
        offset = first
        while offset <= last:
            epoch = epoch_of_offset(history, offset)
            end = min(offset + 2, last, *(start - 1 for _, start in history if start > offset))
            log += batch_bytes((offset, end, epoch))
            offset = end + 1
        return self.put_log(
            number,
            bytes(log),
            from_log_start(history, log_start),
            partition=partition,
            topic=topic,
            others={"snapshot": encode_snapshot(producers)},
        )

    def put_log(
        self,
        number: int,
        log: bytes,
        history: History = ((0, 0),),
        *,
        partition: TopicIdPartition = PARTITION,
        topic: TopicDescription | None = None,
        others: Mapping[str, bytes] | None = None,
    ) -> RemoteLogSegmentMetadata:
        """Store a segment of these batches, each of them in the indexes, as a copy would have.

        `others` are parts by their suffix, in the place of ours or beside them.
        """
        index, times = bytearray(), bytearray()
        found = list(batches(log))
        first, last = found[0].base_offset, found[-1].last_offset
        position, youngest = 0, -1
        for batch in found:
            index += OFFSET_ENTRY.pack(batch.last_offset - first, position)
            if batch.max_timestamp > youngest:
                youngest = batch.max_timestamp
                times += TIME_ENTRY.pack(youngest, batch.last_offset - first)
            position += batch.size_in_bytes
        epochs = [entry for entry in from_log_start(history, first) if entry[1] <= last]
        metadata = RemoteLogSegmentMetadata(
            segment_id=RemoteLogSegmentId(partition, Uuid(number.to_bytes(16, "big"))),
            start_offset=first,
            end_offset=last,
            max_timestamp_ms=youngest,
            broker_id=1,
            event_timestamp_ms=number,
            segment_size_bytes=len(log),
            segment_leader_epochs=tuple(epochs),
            txn_index_empty="txnindex" not in (others or {}),
        )
        parts = {
            "log": log,
            "index": bytes(index),
            "timeindex": bytes(times),
            "snapshot": encode_snapshot(()),
            "leader_epoch_checkpoint": format_epochs(
                entry for entry in history if entry[1] <= last
            ),
            **(others or {}),
        }
        for suffix, content in parts.items():
            self.objects[object_key(metadata, suffix)] = content
        manifest = Manifest(
            metadata,
            {suffix: Part(len(content), crc32c(content)) for suffix, content in parts.items()},
            topic,
        )
        self.objects[object_key(metadata, "manifest")] = encode_manifest(manifest)
        return metadata


def from_log_start(history: History, log_start: int) -> History:
    """What a log keeps of its leader epochs once it begins there (`LeaderEpochCache`)."""
    epoch = epoch_of_offset(history, log_start)
    later = [entry for entry in history if entry[1] > log_start]
    return later if epoch < 0 else [(epoch, log_start), *later]


def forge(bucket: Bucket, metadata: RemoteLogSegmentMetadata, suffix: str, content: bytes) -> None:
    """Replace a part and let the manifest say that it is right: only its meaning is wrong."""
    from tierlog.tiering.store.manifest import decode_manifest

    key = object_key(metadata, "manifest")
    manifest = decode_manifest(bucket.objects[key])
    manifest.parts[suffix] = Part(len(content), crc32c(content))
    bucket.objects[key] = encode_manifest(manifest)
    bucket.objects[object_key(metadata, suffix)] = content

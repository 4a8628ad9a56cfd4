"""The remote tier on any installed fsspec file system: `file`, `memory`, `s3` and others.

A segment is a few objects under keys that each copy attempt has to itself (`object_keys.py`). The
parts are written first and a manifest last: object stores have no atomic rename, so the manifest
shows that the parts are complete; the metadata topic decides whether the segment counts at all.
A deletion removes the manifest first, so that a half-deleted segment does not look complete.

The store is probed before the first copy (`tier_probe.py`), so that the operator, not a consumer,
finds out if it cannot serve as a tier. `file_system.py` writes and reads the objects of every
kind of store. Requests name exact byte ranges, because closing a stream early costs a connection
to an object store.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from ...clients.record.checksum import crc32c
from ...clients.record.layout import BATCH_OVERHEAD
from ...clients.topic_partition import TopicIdPartition
from ...storage.files import Files
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..blocking_pool import BlockingPool
from ..remote_storage import (
    Failure,
    IndexType,
    LogSegmentData,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from ..tier_owner import OwnerTools, TierOwnership
from .file_system import DEADLINE_SECONDS, TierFileSystem
from .manifest import (
    MANIFEST_BYTES_MAX,
    PART_BYTES_MAX,
    Manifest,
    Part,
    TopicDescription,
    decode_manifest,
    encode_manifest,
)
from .object_keys import (
    LOG_SUFFIX,
    MANIFEST_SUFFIX,
    object_key,
    parse_object_key,
    partition_prefix,
)
from .remote_url import RemoteUrl
from .tier_probe import probe
from .tier_store import PIECE_BYTES

_log = logging.getLogger(__name__)

CHUNK_BYTES = PIECE_BYTES
"""How many bytes of a segment are in memory at once while it is copied."""

_ENTRY_BYTES = {IndexType.OFFSET: 8, IndexType.TIMESTAMP: 12}
_SPARE_ENTRIES = 64

_PROBE_SUFFIX = "probe.tmp"
_SUFFIXES = (LOG_SUFFIX, *(index.value for index in IndexType), _PROBE_SUFFIX)
"""Suffixes of a segment's other objects; an interrupted probe may have left its own."""

_FOLLOWER_INDEXES = {
    IndexType.LEADER_EPOCH: "leader epochs",
    IndexType.PRODUCER_SNAPSHOT: "producers",
}
"""What an empty replica begins with. It is checked against the manifest: an epoch that begins
elsewhere, or producers of another segment, would show nowhere else, and be believed for ever."""

Describe = Callable[[TopicIdPartition], TopicDescription | None]
"""Returns a topic's description for the manifests of a partition; None if it is unknown."""


def _bytes_max(metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> int:
    """The maximum size of an index.

    An offset or time index has at most one entry per batch; some more are allowed for.
    """
    entry = _ENTRY_BYTES.get(index_type)
    if entry is None:
        return PART_BYTES_MAX
    return entry * (metadata.segment_size_bytes // BATCH_OVERHEAD + _SPARE_ENTRIES)


def _part_of(content: bytes) -> Part:
    return Part(len(content), crc32c(content))


def _unknown(_: TopicIdPartition) -> None:
    """No description is known."""


class FsspecStorage:
    """A `RemoteStorageManager` on an fsspec URL."""

    def __init__(
        self,
        location: RemoteUrl,
        files: Files,
        pool: BlockingPool,
        deadline_s: float = DEADLINE_SECONDS,
        describe: Describe = _unknown,
        owner: OwnerTools | None = None,
    ) -> None:
        """`owner` checks who owns the tier; None where no other broker can reach it."""
        self._location = location
        self._pool = pool
        self._probing = asyncio.Lock()
        # Our own memory needs no probe.
        self._is_probed = location.protocol == "memory"
        self._objects = TierFileSystem(location, files, pool, deadline_s)
        self._describe = describe
        self._ownership = None if owner is None else TierOwnership(self._objects, owner)

    def __str__(self) -> str:
        return str(self._location)

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        await self._check_owner(metadata)
        await self._probe_once(metadata)
        log = data.log_segment
        key = object_key(metadata, LOG_SUFFIX)
        parts = {LOG_SUFFIX: await self._objects.write(key, log.nbytes, log.slice)}
        for index_type, content in data.indexes().items():
            key = object_key(metadata, index_type.value)
            parts[index_type.value] = await self._objects.write_bytes(key, content)
        topic = self._describe(metadata.topic_id_partition)
        manifest = encode_manifest(Manifest(metadata, parts, topic))
        await self._objects.write_bytes(object_key(metadata, MANIFEST_SUFFIX), manifest)
        return None

    async def look_at_owner(self) -> None:
        if self._ownership is not None:
            await self._ownership.look()

    async def _check_owner(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Check the owner; claim a tier without one after the store has passed its probe."""
        if self._ownership is not None:
            await self._ownership.check(lambda: self._probe_once(metadata))

    async def _probe_once(self, metadata: RemoteLogSegmentMetadata) -> None:
        async with self._probing:
            if not self._is_probed:
                # The segment's id is new, so no one else uses the key. If this broker is killed
                # here, the object is deleted with the segment, whose copy did not finish.
                await probe(self._objects, object_key(metadata, _PROBE_SUFFIX))
                self._is_probed = True

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        end = min(end_position + 1, metadata.segment_size_bytes)
        if not 0 <= start_position < end:
            return b""
        return await self._objects.read(object_key(metadata, LOG_SUFFIX), start_position, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        if index_type is IndexType.TRANSACTION:
            return await self._transaction_index(metadata)
        key = object_key(metadata, index_type.value)
        content = await self._objects.read_small(key, _bytes_max(metadata, index_type))
        what = _FOLLOWER_INDEXES.get(index_type)
        if what is not None:
            parts = await self._parts(metadata)
            if parts is not None and parts.get(index_type.value) != _part_of(content):
                raise RemoteStorageError(
                    f"The {what} of remote segment {metadata.segment_id} in {self} are damaged: "
                    "they differ from what was copied, and no replica may begin with them"
                )
        return content

    async def _transaction_index(self, metadata: RemoteLogSegmentMetadata) -> bytes:
        """The transaction index, checked against the manifest: truncation at an entry's end shows
        nowhere else, and without an entry readers would take aborted records for committed ones.
        """
        content: bytes | None
        try:
            key = object_key(metadata, IndexType.TRANSACTION.value)
            content = await self._objects.read_small(key, PART_BYTES_MAX)
        except RemoteResourceNotFound:
            content = None
        # Read after the index: a deletion removes the manifest first, so an index that is being
        # deleted is not reported as missing.
        parts = await self._parts(metadata)
        expected = None if parts is None else parts.get(IndexType.TRANSACTION.value)
        what = f"The transaction index of remote segment {metadata.segment_id} in {self}"
        if content is None:
            if expected is None:
                raise RemoteResourceNotFound(f"{what} does not exist")
            raise RemoteStorageError(
                f"{what} is missing, so aborted records cannot be filtered out"
            )
        if parts is not None and expected != _part_of(content):
            raise RemoteStorageError(
                f"{what} is damaged: it differs from what was copied, so aborted records cannot "
                "be filtered out"
            )
        return content

    async def _parts(self, metadata: RemoteLogSegmentMetadata) -> Mapping[str, Part] | None:
        """The parts named in a segment's manifest; None if it is missing, damaged or another's."""
        try:
            key = object_key(metadata, MANIFEST_SUFFIX)
            content = await self._objects.read_small(key, MANIFEST_BYTES_MAX)
            manifest = decode_manifest(content)
        except RemoteResourceNotFound:
            return None
        except RemoteStorageError as error:
            if error.failure is not Failure.BROKEN:
                raise
            _log.warning(
                "Ignoring the invalid manifest of remote segment %s: %s", metadata.segment_id, error
            )
            return None
        return manifest.parts if manifest.metadata.id == metadata.id else None

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._check_owner(metadata)
        await self._objects.remove(object_key(metadata, MANIFEST_SUFFIX))
        await self._objects.remove_all([object_key(metadata, suffix) for suffix in _SUFFIXES])

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        """Remove everything left of a partition, and its folder. Idempotent."""
        folder = partition_prefix(partition)
        if self._ownership is not None:
            await self._ownership.check()
        await self._abort_uploads(f"{folder}/")
        await self._objects.remove_folder(folder)

    async def abort_uploads(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Abort the multipart uploads of a segment, no matter who began them. Idempotent.

        The id in its keys is unique to one copy, so no other segment's upload is aborted.
        """
        await self._check_owner(metadata)
        await self._abort_uploads(object_key(metadata, ""))

    async def _abort_uploads(self, prefix: str) -> None:
        try:
            await self._objects.abort_uploads(prefix, lambda key, began_ms: True)
        except RemoteStorageError as error:
            if error.is_retriable:
                raise
            # A writer may lack the right to list uploads; leaving uploads there only costs money.
            _log.warning(
                "Could not abort unfinished uploads of %s in the remote tier: %s", prefix, error
            )

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """The segments with a manifest and with every object of the size that it states."""
        sizes = {
            tier_object.key: tier_object.size
            for tier_object in await self._objects.list(partition_prefix(partition))
        }
        segments: list[RemoteLogSegmentMetadata] = []
        for key in sizes:
            said = parse_object_key(key)
            if said is None or said.suffix != MANIFEST_SUFFIX:
                continue
            if said.topic_id_partition != partition:
                continue
            try:
                manifest = decode_manifest(await self._objects.read_small(key, MANIFEST_BYTES_MAX))
            except RemoteStorageError as error:
                if error.failure in (Failure.BROKEN, Failure.NOT_FOUND):
                    # Damaged or removed since: this segment is not complete; check the others.
                    continue
                raise
            metadata = manifest.metadata
            parts = manifest.parts.items()
            if metadata.id == said.segment_id and all(
                sizes.get(object_key(metadata, suffix)) == part.size for suffix, part in parts
            ):
                segments.append(metadata)
        return segments

    async def close(self) -> None:
        await self._objects.close()
        self._pool.stop()

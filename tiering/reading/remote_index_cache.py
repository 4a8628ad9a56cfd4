"""Caches indexes of remote segments on the local disk (Kafka's `RemoteIndexCache`).

    <log dir>/remote-log-index-cache/<start offset>_<segment id>.{index,timeindex,txnindex}

The cache is an LRU cache bounded in bytes. Files survive a restart: they are written under a
temporary name, synced and renamed, so that a file under its final name is complete, and each is
checked again before its first use. A corrupt file is fetched again. If the tier's own offset or
time index is corrupt, or a reader finds it wrong, both are rebuilt from the batches of the segment
(`remote_index_rebuild.py`); a corrupt transaction index is an error and is not kept. A segment
without aborted transactions has an empty transaction index, whether or not the tier has one. A
transaction index truncated at an entry boundary looks valid, and without an entry aborted records
pass for committed ones: so a `.txnsum` file beside it holds its length and CRC as fetched.

Look-ups run on the event loop without an await, so no index is dropped while it is read. Nor is
one dropped once it is loaded and before a waiting reader has used it: an index whose file is gone
would look empty and hide the aborted transactions (KAFKA-15481). Indexes that readers wait for may
exceed the bound. Files are removed together with their entry, with no await in between, so that a
load right after does not find half of them.
"""

import logging
from collections import Counter, OrderedDict
from dataclasses import dataclass
from functools import partial
from struct import Struct

from ...clients.kafka_uuid import Uuid, uuid_to_string
from ...clients.record.checksum import crc32c
from ...storage.directory.log_dir import set_folders_aside
from ...storage.files import Files
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...storage.segment.index import CorruptIndexError
from ...storage.segment.offset_index import OffsetIndex
from ...storage.segment.time_index import TimeIndex
from ...storage.segment.transaction_index import TransactionIndex
from ..blocking_pool import BlockingPool
from ..remote_storage import (
    IndexType,
    OversizedObjectError,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
)
from .cache_counts import CacheCounts
from .remote_index_rebuild import DamagedLogError, rebuild_indexes
from .single_flight import SingleFlight

_log = logging.getLogger(__name__)

DIRECTORY = "remote-log-index-cache"

_TYPES = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)
_SUM_SUFFIX = "txnsum"
_SUM = Struct(">QI")
"""Length and CRC32C of a transaction index."""
_LOADS_MAX = 4096
_PREFETCHES_MAX = 64
_REBUILT_MAX = 10_000


@dataclass(slots=True)
class RemoteIndexes:
    """The three indexes of one segment. Use them before the next await."""

    offset_index: OffsetIndex
    time_index: TimeIndex
    txn_index: TransactionIndex
    nbytes: int

    def close(self) -> None:
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()


class RemoteIndexCache:
    """Caches the indexes of remote segments."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        files: Files,
        log_directory: str,
        max_bytes: int,
        pool: BlockingPool,
    ) -> None:
        self._storage = storage
        self._files = files
        self._directory = f"{log_directory}/{DIRECTORY}"
        self._max_bytes = max_bytes
        self._pool = pool
        self._entries: OrderedDict[str, RemoteIndexes] = OrderedDict()
        self._found_on_disk: dict[str, int] = {}
        """Bytes of files not open now, by stem; they are loaded when used, or dropped for room."""
        self._bytes = 0
        self.counts = CacheCounts()
        self._flights: SingleFlight[str, RemoteIndexes] = SingleFlight(_LOADS_MAX)
        self._awaited: Counter[str] = Counter()
        """How many readers wait for a load, by stem; an awaited entry is not dropped."""
        self._forgotten: set[str] = set()
        """Segments deleted while their indexes were being loaded."""
        self._distrusted: set[str] = set()
        """Segments whose indexes were wrong for a reader, until they are rebuilt."""
        self._rebuilt: OrderedDict[str, None] = OrderedDict()
        """Segments whose indexes were already rebuilt from their batches."""
        self._is_closed = False

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries) + len(self._found_on_disk)

    async def start(self) -> None:
        """Find the files of an earlier run, and remove unfinished ones."""
        await self._pool.run(self._scan)
        self._make_room()

    async def stop(self) -> None:
        """Close the files; they stay on disk for the next run. Idempotent."""
        self._is_closed = True
        await self._flights.stop()
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()

    async def indexes(self, segment: RemoteLogSegmentMetadata) -> RemoteIndexes:
        """The indexes of a segment, fetched if necessary.

        Raises RemoteStorageError, also if the tier's transaction index is corrupt and after `stop`.
        """
        stem = _stem(segment.start_offset, segment.id)
        if stem in self._entries:
            self.counts.hits += 1
        else:
            self.counts.waits(stem in self._flights)
        while (entry := self._entries.get(stem)) is None:
            if self._is_closed:
                raise RemoteStorageError("The cache of remote indexes is closed")
            self._awaited[stem] += 1
            try:
                await self._flights.load(stem, lambda: self._load(stem, segment))
            finally:
                self._awaited[stem] -= 1
                if not self._awaited[stem]:
                    del self._awaited[stem]
        self._entries.move_to_end(stem)
        return entry

    def cached(self, segment: RemoteLogSegmentMetadata) -> RemoteIndexes | None:
        """The indexes of a segment if they are open here; does not count as a use."""
        return self._entries.get(_stem(segment.start_offset, segment.id))

    def prefetch(self, segment: RemoteLogSegmentMetadata) -> None:
        """Start loading indexes that will be needed soon."""
        stem = _stem(segment.start_offset, segment.id)
        if stem in self._entries or self._is_closed:
            return
        if len(self._flights) < _PREFETCHES_MAX:
            self._flights.begin(stem, lambda: self._load(stem, segment))

    async def resize(self, max_bytes: int) -> None:
        """Change the bound, dropping entries that no longer fit."""
        self._max_bytes = max_bytes
        self._make_room()

    async def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        """Drop the indexes of a deleted segment, including those being loaded."""
        stem = _stem(segment.start_offset, segment.id)
        if stem in self._flights:
            self._forgotten.add(stem)
        self._rebuilt.pop(stem, None)
        self._drop(stem)

    def rebuild(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Have indexes that a reader found wrong rebuilt from the batches before their next use.

        False if they were already rebuilt: then the segment itself is damaged.
        """
        stem = _stem(segment.start_offset, segment.id)
        if stem in self._rebuilt:
            return False
        if stem not in self._distrusted and stem not in self._flights:
            self._distrusted.add(stem)
            self._drop(stem)
        return True

    async def _load(self, stem: str, segment: RemoteLogSegmentMetadata) -> RemoteIndexes:
        self._bytes -= self._found_on_disk.pop(stem, 0)
        try:
            if stem in self._distrusted:
                await self._rebuild(stem, segment)
            for index_type in _TYPES:
                await self._ensure(stem, index_type, segment)
            entry = self._open(stem, segment)
        except BaseException:
            # Files fetched so far stay for the next attempt, and count towards the bound.
            self._register(stem)
            self._drop_if_forgotten(stem)
            raise
        if stem in self._forgotten:
            # Waiting readers retry, and find that the tier no longer has the segment.
            entry.close()
            self._register(stem)
            self._drop_if_forgotten(stem)
            return entry
        self._entries[stem] = entry
        self._bytes += entry.nbytes
        self._make_room()
        return entry

    def _drop_if_forgotten(self, stem: str) -> None:
        if stem in self._forgotten:
            self._forgotten.discard(stem)
            self._drop(stem)

    async def _ensure(
        self, stem: str, index_type: IndexType, segment: RemoteLogSegmentMetadata
    ) -> None:
        """Make sure that the file exists and is valid, fetching it if it is not."""
        path = self._path(stem, index_type)
        if await self._pool.run(lambda: self._is_sound(path, index_type, segment)):
            return
        try:
            content = await self._fetch(segment, index_type)
        except OversizedObjectError:
            if index_type is IndexType.TRANSACTION:
                raise
            await self._rebuild(stem, segment)
            return
        await self._pool.run(lambda: self._write(path, content))
        if index_type is IndexType.TRANSACTION:
            checksum = _SUM.pack(len(content), crc32c(content))
            await self._pool.run(lambda: self._write(_sum_path(path), checksum))
        if await self._pool.run(lambda: self._is_sound(path, index_type, segment)):
            return
        await self._pool.run(lambda: self._files.remove(path))
        if index_type is not IndexType.TRANSACTION:
            await self._rebuild(stem, segment)
            return
        await self._pool.run(lambda: self._files.remove(_sum_path(path)))
        raise RemoteStorageError(
            f"The {index_type.name.lower()} index of remote segment {segment.segment_id} "
            f"is corrupt in the remote tier"
        )

    async def _rebuild(self, stem: str, segment: RemoteLogSegmentMetadata) -> None:
        try:
            rebuilt = await rebuild_indexes(self._storage, segment)
        except DamagedLogError:
            # The indexes are not to blame, and may serve again once the log object is restored.
            self._distrusted.discard(stem)
            raise
        _log.error(
            "The offset index or the time index of remote segment %s, offsets %d to %d, is "
            "corrupt (object key ends with %s). Rebuilding both from its record batches; the "
            "objects are not changed, and `tierlog tier verify` reports them",
            segment.segment_id,
            segment.start_offset,
            segment.end_offset,
            stem,
        )
        for index_type, content in (
            (IndexType.OFFSET, rebuilt.offset_index),
            (IndexType.TIMESTAMP, rebuilt.time_index),
        ):
            path = self._path(stem, index_type)
            await self._pool.run(partial(self._write, path, content))
        self._distrusted.discard(stem)
        self._rebuilt[stem] = None
        if len(self._rebuilt) > _REBUILT_MAX:
            self._rebuilt.popitem(last=False)

    async def _fetch(self, segment: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        is_transactions = index_type is IndexType.TRANSACTION
        if is_transactions and segment.txn_index_empty:
            return b""
        try:
            return await self._storage.fetch_index(segment, index_type)
        except RemoteResourceNotFound:
            if is_transactions:
                return b""
            raise

    def _open(self, stem: str, segment: RemoteLogSegmentMetadata) -> RemoteIndexes:
        paths = [self._path(stem, index_type) for index_type in _TYPES]
        sizes = [self._files.size(path) for path in paths]
        base = segment.start_offset
        entry = RemoteIndexes(
            OffsetIndex(self._files, paths[0], base, sizes[0]),
            TimeIndex(self._files, paths[1], base, sizes[1]),
            TransactionIndex(self._files, paths[2], base),
            sum(sizes) + _SUM.size,
        )
        # Opened now, because a file removed before it is opened would look empty.
        held = (
            entry.offset_index.size_in_bytes,
            entry.time_index.size_in_bytes,
            entry.txn_index.size_in_bytes,
        )
        if held != tuple(sizes):
            entry.close()
            raise RemoteStorageError(
                f"The cached indexes of {segment.segment_id} are being changed"
            )
        return entry

    def _register(self, stem: str) -> None:
        paths = self._paths(stem)
        size = sum(self._files.size(path) for path in paths if self._files.exists(path))
        if size:
            self._found_on_disk[stem] = size
            self._bytes += size

    def _path(self, stem: str, index_type: IndexType) -> str:
        return f"{self._directory}/{stem}.{index_type.value}"

    def _paths(self, stem: str) -> list[str]:
        """All files of a segment."""
        indexes = [self._path(stem, index_type) for index_type in _TYPES]
        return [*indexes, f"{self._directory}/{stem}.{_SUM_SUFFIX}"]

    def _make_room(self) -> None:
        if self._bytes <= self._max_bytes:
            return
        for stem in [*self._found_on_disk, *self._entries]:
            if stem not in self._awaited:
                self._drop(stem)
            if self._bytes <= self._max_bytes:
                return

    def _drop(self, stem: str) -> None:
        entry = self._entries.pop(stem, None)
        size_on_disk = self._found_on_disk.pop(stem, None)
        if entry is None and size_on_disk is None:
            return
        if entry is not None:
            entry.close()
        self._bytes -= entry.nbytes if entry is not None else size_on_disk or 0
        for path in self._paths(stem):
            self._files.remove(path)

    # These block, and run in the pool.

    def _scan(self) -> None:
        self._files.mkdirs(self._directory)
        suffixes = {_SUM_SUFFIX, *(index_type.value for index_type in _TYPES)}
        set_folders_aside(self._files, self._directory, self._files.listdir(self._directory))
        for name in self._files.listdir(self._directory):
            if self._files.is_directory(f"{self._directory}/{name}"):
                continue
            stem, _, suffix = name.partition(".")
            path = f"{self._directory}/{name}"
            if suffix not in suffixes:
                self._files.remove(path)
                continue
            size = self._files.size(path)
            self._found_on_disk[stem] = self._found_on_disk.get(stem, 0) + size
            self._bytes += size

    def _is_sound(
        self, path: str, index_type: IndexType, segment: RemoteLogSegmentMetadata
    ) -> bool:
        """Whether the file exists and is a valid index of the segment."""
        if not self._files.exists(path):
            return False
        base = segment.start_offset
        size = self._files.size(path)
        index = (
            OffsetIndex(self._files, path, base, size)
            if index_type is IndexType.OFFSET
            else TimeIndex(self._files, path, base, size)
            if index_type is IndexType.TIMESTAMP
            else TransactionIndex(self._files, path, base)
        )
        try:
            index.sanity_check()
            if isinstance(index, OffsetIndex):
                index.check_order()
                return _fits(index, segment)
            if isinstance(index, TimeIndex):
                index.check_order()
                return index.last.offset <= segment.end_offset
            return self._is_as_fetched(path)
        except CorruptIndexError:
            return False
        finally:
            index.close()

    def _is_as_fetched(self, path: str) -> bool:
        """Whether a transaction index matches the length and CRC in its `.txnsum` file."""
        if not self._files.exists(_sum_path(path)):
            return False
        content = self._files.read(path)
        return self._files.read(_sum_path(path)) == _SUM.pack(len(content), crc32c(content))

    def _write(self, path: str, content: bytes) -> None:
        # The whole directory may have been removed.
        self._files.mkdirs(self._directory)
        temporary = f"{path}.tmp"
        handle = self._files.open(temporary, create=True)
        try:
            handle.truncate(0)
            handle.write_at(0, content)
            handle.flush()
        finally:
            handle.close()
        self._files.rename(temporary, path)


def _fits(index: OffsetIndex, segment: RemoteLogSegmentMetadata) -> bool:
    """Whether all entries, which are in ascending order, lie within the segment."""
    entries = index.all_entries()
    if not entries:
        return True
    first, last = entries[0], entries[-1]
    return (
        first.position >= 0
        and first.offset >= segment.start_offset
        and last.offset <= segment.end_offset
        and last.position < segment.segment_size_bytes
    )


def _sum_path(txn_index_path: str) -> str:
    return f"{txn_index_path.removesuffix(IndexType.TRANSACTION.value)}{_SUM_SUFFIX}"


def _stem(start_offset: int, segment_id: Uuid) -> str:
    return f"{start_offset}_{uuid_to_string(segment_id)}"

"""Serves a read from the tier (KIP-405 "Fetch"; Kafka's `RemoteLogManager.read`).

    (leader epoch, offset) -> segment -> offset index -> position -> byte range -> batches

The epoch is that of the offset in the local epoch history, so records of a branch that an unclean
election cut off are never served, and a read stops where its segment diverges from the history. A
read is answered from one segment, or from the next one if the offset was compacted away.

For read_committed the aborted transactions that overlap the batches are added: their abort markers
may lie in later segments, remote or local, so the transaction indexes of these are searched until
no further one can hold more.
If a segment goes beyond this log's history, only markers within the history count.

A response is at most about one chunk, or one batch: unlike a local one it stays in memory until
its client has received it, and clients may allow many megabytes and be slow. The next chunk is
loaded meanwhile.

A failure of the tier is a retriable error of that partition alone. If an object is missing, the
metadata is looked up once more, since retention may have deleted the segment in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from ...clients.errors import ErrorCode, KafkaError
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.leader_epoch import LeaderEpochCache
from ...storage.remote.remote_lineage import EpochHistory, epoch_of_offset
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...storage.segment.index import CorruptIndexError
from ...storage.segment.transaction_index import AbortedTxn
from ..remote_storage import RemoteResourceNotFound, RemoteStorageError
from .chunk_cache import ChunkCache
from .remote_batches import (
    BatchQuery,
    Choice,
    CorruptSegmentError,
    Outcome,
    are_intact,
    check_begins,
    check_belongs,
    choose,
)
from .remote_index_cache import RemoteIndexCache
from .remote_index_rebuild import DamagedLogError, SuspectIndexError, damaged_log

_SCAN_BYTES = 64 * 1024
"""Bytes read beyond those requested: the index points a little before the offset."""

_PARTS_MAX = 1000
"""Parts of segments searched for one read. Compaction leaves no gap that long."""

_SEGMENTS_AHEAD_MAX = 8
"""At most this many segments are fetched ahead; large ones reach the limit in bytes first."""


class TieredLog(Protocol):
    """What a remote read needs from the local log (`storage.log.unified_log.UnifiedLog`)."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def leader_epochs(self) -> LeaderEpochCache: ...

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Aborted transactions of the local segments that overlap [start, upper bound)."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteFetchResult:
    """Whole batches from the tier, possibly none."""

    records: bytes | memoryview
    aborted_transactions: list[AbortedTxn] | None = None
    """For read_committed; None for the other isolations."""
    first_entry_incomplete: bool = False
    """There is a batch, but it is larger than the reader allows."""


class _SegmentBatches(NamedTuple):
    segment: RemoteLogSegmentMetadata
    records: memoryview
    next_offset: int


class _Part(NamedTuple):
    """The offsets [begin, end) for which a segment agrees with this log's epoch history."""

    segment: RemoteLogSegmentMetadata
    begin: int
    end: int


class ReadPreview(NamedTuple):
    """What a fetch of an offset would read from the tier."""

    segment: RemoteLogSegmentMetadata
    first_byte: int | None
    """Where in the log object it begins to read; None while the segment's index is not cached."""
    has_index: bool
    has_chunk: bool
    """Whether the bytes from there on are cached; those of the segment's begin without an index."""


class RemoteLogReader:
    """Reads remote segments through the caches."""

    def __init__(self, indexes: RemoteIndexCache, chunks: ChunkCache) -> None:
        self._indexes = indexes
        self._chunks = chunks

    def preview(self, offset: int, remote: RemoteLog, history: EpochHistory) -> ReadPreview | None:
        """What a fetch would read now; None if no segment has the offset. Loads nothing."""
        segment = next_segment(remote, history, offset)
        if segment is None:
            return None
        indexes = self._indexes.cached(segment)
        first = None if indexes is None else indexes.offset_index.lookup(offset).position
        has_chunk = self._chunks.holds(segment, first or 0)
        return ReadPreview(segment, first, indexes is not None, has_chunk)

    async def read(self, read: RemoteRead, remote: RemoteLog, log: TieredLog) -> RemoteFetchResult:
        """The batches from the offset on. Raises KafkaError."""
        try:
            return await self._attempt(read, remote, log)
        except RemoteResourceNotFound:
            # Deleted between look-up and fetch: look at the current metadata.
            if read.offset < log.log_start_offset:
                raise _out_of_range(read) from None
        try:
            return await self._attempt(read, remote, log)
        except RemoteResourceNotFound as error:
            raise _read_failure(read, str(error)) from error

    async def _attempt(
        self, read: RemoteRead, remote: RemoteLog, log: TieredLog
    ) -> RemoteFetchResult:
        try:
            return await self._read_from(read, remote, log)
        except RemoteResourceNotFound:
            raise
        except (RemoteStorageError, CorruptIndexError, OSError) as error:
            raise _read_failure(read, str(error)) from error

    async def _read_from(
        self, read: RemoteRead, remote: RemoteLog, log: TieredLog
    ) -> RemoteFetchResult:
        history = log.leader_epochs.entries
        offset = _first_known(read, history)
        first = next_segment(remote, history, offset)
        if first is None:
            raise _out_of_range(read)
        query = BatchQuery(offset, read.max_bytes, read.min_one_message, history)
        parts = islice(_parts_from(remote, history, first, offset), _PARTS_MAX)
        for segment, offset, _ in parts:
            choice, records = await self._search(segment, query._replace(offset=offset))
            if choice.outcome is Outcome.TOO_LARGE:
                return RemoteFetchResult(b"", _none_or_empty(read), first_entry_incomplete=True)
            if choice.outcome is Outcome.FOUND:
                batches = _SegmentBatches(segment, records, choice.next_offset)
                self._read_ahead(remote, history, batches)
                aborted = await self._aborted_transactions(read, remote, log, batches)
                return RemoteFetchResult(records, aborted)
        return RemoteFetchResult(b"", _none_or_empty(read))

    async def _search(
        self, segment: RemoteLogSegmentMetadata, query: BatchQuery
    ) -> tuple[Choice, memoryview]:
        try:
            return await self._search_once(segment, query)
        except (SuspectIndexError, DamagedLogError):
            # Either the index is wrong or the chunk that it points into: first read that again.
            self._chunks.forget(segment.id)
        try:
            return await self._search_once(segment, query)
        except SuspectIndexError:
            if not self._indexes.rebuild(segment):
                self._chunks.forget(segment.id)
                raise damaged_log(segment, f"it does not fit at offset {query.offset}") from None
        return await self._search_rebuilt(segment, query)

    async def _search_rebuilt(
        self, segment: RemoteLogSegmentMetadata, query: BatchQuery
    ) -> tuple[Choice, memoryview]:
        """Search with indexes made from the batches. Whatever fails now, the bytes are bad."""
        try:
            return await self._search_once(segment, query)
        except SuspectIndexError:
            self._chunks.forget(segment.id)
            raise damaged_log(segment, f"it does not fit at offset {query.offset}") from None
        except DamagedLogError:
            self._chunks.forget(segment.id)
            raise

    async def _search_once(
        self, segment: RemoteLogSegmentMetadata, query: BatchQuery
    ) -> tuple[Choice, memoryview]:
        indexes = await self._indexes.indexes(segment)
        begin = position = indexes.offset_index.lookup(query.offset).position
        most = min(query.max_bytes, self._chunks.chunk_bytes)
        size = most + _SCAN_BYTES
        while True:
            piece = await self._chunks.read(segment, position, size)
            is_end = position + len(piece) >= segment.segment_size_bytes
            try:
                if position == begin > 0:
                    check_begins(piece, position, query.offset, segment)
                choice = choose(piece, query, is_segment_end=is_end)
                if choice.outcome is Outcome.DEAD_BRANCH:
                    check_belongs(piece, choice.position, segment)
            except CorruptSegmentError as error:
                self._chunks.forget(segment.id)
                raise damaged_log(segment, f"{error}") from error
            if choice.outcome is not Outcome.READ_MORE:
                records = piece[choice.position : choice.position + choice.size]
                if choice.outcome is Outcome.FOUND:
                    self._check(segment, records)
                return choice, records
            if is_end and choice.position + choice.size > len(piece):
                self._chunks.forget(segment.id)
                raise damaged_log(segment, "it ends within a batch")
            position += choice.position
            size = max(choice.size, most) + _SCAN_BYTES

    def _check(self, segment: RemoteLogSegmentMetadata, records: memoryview) -> None:
        """Raise DamagedLogError if a batch is damaged, and drop the segment's chunks."""
        if not are_intact(records, segment.start_offset, segment.end_offset):
            self._chunks.forget(segment.id)
            raise damaged_log(segment, "a wrong CRC or offset")

    def _read_ahead(
        self, remote: RemoteLog, history: EpochHistory, batches: _SegmentBatches
    ) -> None:
        """In the second half of a segment, start fetching the next segments.

        The next chunk of this segment is already being loaded. One more chunk's worth is fetched
        of the segments after it: the beginning of a large one, or several small ones.
        """
        segment = batches.segment
        remaining = segment.end_offset - batches.next_offset + 1
        if remaining > (segment.end_offset - segment.start_offset + 1) // 2:
            return
        ahead, next_offset = 0, segment.end_offset + 1
        for _ in range(_SEGMENTS_AHEAD_MAX):
            following = next_segment(remote, history, next_offset)
            if following is None or ahead >= self._chunks.chunk_bytes:
                return
            self._indexes.prefetch(following)
            self._chunks.prefetch(following)
            ahead += following.segment_size_bytes
            next_offset = following.end_offset + 1

    async def _aborted_transactions(
        self, read: RemoteRead, remote: RemoteLog, log: TieredLog, batches: _SegmentBatches
    ) -> list[AbortedTxn] | None:
        if read.isolation is not FetchIsolation.TXN_COMMITTED:
            return None
        start, upper_bound = read.offset, batches.next_offset
        aborted: list[AbortedTxn] = []
        history = log.leader_epochs.entries
        last = remote.aborted_transactions_end
        begin = max(start, batches.segment.start_offset)
        for part in _parts_from(remote, history, batches.segment, begin):
            if part.begin > last:
                break
            if part.segment.txn_index_empty:
                continue
            indexes = await self._indexes.indexes(part.segment)
            for txn in indexes.txn_index:
                # Markers beyond the part belong to a branch that this log has left.
                if part.begin <= txn.last_offset < part.end:
                    if txn.last_offset >= start and txn.first_offset < upper_bound:
                        aborted.append(txn)
                    if txn.last_stable_offset >= upper_bound:
                        return _unique(aborted)
        aborted.extend(log.aborted_transactions(start, upper_bound))
        return _unique(aborted)


def _first_known(read: RemoteRead, history: EpochHistory) -> int:
    """A read's offset, or the start of the epoch history if the records before it are gone."""
    is_before = read.leader_epoch < 0 and history and read.offset >= read.log_start_offset
    return max(read.offset, history[0][1]) if is_before else read.offset


def next_segment(
    remote: RemoteLog, history: EpochHistory, offset: int
) -> RemoteLogSegmentMetadata | None:
    """The segment that holds an offset in the leader epoch that the history gives it."""
    return remote.segment_for(epoch_of_offset(history, offset), offset)


def _parts_from(
    remote: RemoteLog, history: EpochHistory, first: RemoteLogSegmentMetadata, offset: int
) -> Iterator[_Part]:
    """The part that holds an offset and those after it in the history, epoch by epoch."""
    segment: RemoteLogSegmentMetadata | None = first
    while segment is not None:
        epoch = epoch_of_offset(history, offset)
        epoch_end = next((start for later, start in history if later > epoch), offset + 2**62)
        end = max(offset + 1, min(segment.end_offset_of_epoch(epoch) + 1, epoch_end))
        yield _Part(segment, offset, end)
        offset = end
        segment = next_segment(remote, history, offset)


def _unique(transactions: list[AbortedTxn]) -> list[AbortedTxn]:
    """Without duplicates: overlapping segments may list the same transaction."""
    return list(dict.fromkeys(transactions))


def _none_or_empty(read: RemoteRead) -> list[AbortedTxn] | None:
    return [] if read.isolation is FetchIsolation.TXN_COMMITTED else None


def _out_of_range(read: RemoteRead) -> KafkaError:
    epoch = str(read.leader_epoch) if read.leader_epoch >= 0 else "NOT AVAILABLE"
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {read.offset} for leader epoch {epoch} and partition "
        f"{read.topic_id_partition.topic_partition} which does not exist in remote tier.",
    )


def _read_failure(read: RemoteRead, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"Offset {read.offset} of {read.topic_id_partition.topic_partition} cannot be read from "
        f"the remote tier now: {reason}",
    )

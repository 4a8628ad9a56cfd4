"""The contract of a remote tier (KIP-405's `RemoteStorageManager`).

A remote storage manager moves the bytes of segments and knows nothing of their order, lineage or
state. Its callers keep these rules:

- a segment id is copied once: a failed copy is deleted and the next attempt takes a new id;
- a segment is not read before the metadata says COPY_SEGMENT_FINISHED;
- deletion may be repeated, and a missing object counts as deleted.

All methods are coroutines and may be slow; none may block the event loop. Every failure is a
`RemoteStorageError`. Its `failure` gives the reason, because retrying helps if the store is
unreachable but not if the password is wrong.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from ..clients.topic_partition import TopicIdPartition
from ..storage.remote.remote_segment import RemoteLogSegmentMetadata


class Failure(Enum):
    """Why a remote operation failed."""

    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"
    THROTTLED = "throttled"
    DENIED = "denied"
    BROKEN = "broken"
    """Any other: a malformed answer, a full volume, a missing package."""


class RemoteStorageError(Exception):
    """A failed operation of the tier. The message is a plain sentence without secrets."""

    def __init__(self, message: str, failure: Failure = Failure.BROKEN) -> None:
        super().__init__(message)
        self.failure = failure

    @property
    def is_retriable(self) -> bool:
        """Whether the same call may succeed later without an operator's action."""
        return self.failure in (Failure.UNREACHABLE, Failure.THROTTLED)


class OversizedObjectError(RemoteStorageError):
    """The object is larger than its purpose allows."""


class RemoteResourceNotFound(RemoteStorageError):
    """The object is not in the tier."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure.NOT_FOUND)


class IndexType(Enum):
    """The objects beside a segment's log; the values are the suffixes of the object keys."""

    OFFSET = "index"
    TIMESTAMP = "timeindex"
    TRANSACTION = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    LEADER_EPOCH = "leader_epoch_checkpoint"


class SegmentBytes(Protocol):
    """The log of a segment to be copied (`storage.files.FileRegion`).

    It stays readable while it exists, even if the local segment is deleted meanwhile.
    """

    @property
    def nbytes(self) -> int: ...

    def slice(self, offset: int, size: int) -> "SegmentBytes": ...

    def read(self) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegmentData:
    """Everything that makes a segment readable elsewhere, in Kafka's own file formats."""

    log_segment: SegmentBytes
    offset_index: bytes
    time_index: bytes
    transaction_index: bytes | None
    """None if no aborted transaction ends in the segment."""
    producer_snapshot: bytes
    """The state of the producers just after the segment's last record."""
    leader_epoch_index: bytes
    """The whole epoch history up to the segment's last record, as a checkpoint."""

    def indexes(self) -> dict[IndexType, bytes]:
        """The contents of the indexes that exist, in the order in which they are uploaded."""
        by_type = {
            IndexType.OFFSET: self.offset_index,
            IndexType.TIMESTAMP: self.time_index,
            IndexType.PRODUCER_SNAPSHOT: self.producer_snapshot,
            IndexType.LEADER_EPOCH: self.leader_epoch_index,
        }
        if self.transaction_index is not None:
            by_type[IndexType.TRANSACTION] = self.transaction_index
        return by_type


class RemoteStorageManager(Protocol):
    """A store for segments."""

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        """Store all parts durably. The returned value becomes custom metadata (KIP-917)."""
        ...

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        """The bytes of the log object from start to end position, both inclusive.

        The end is clamped to the segment's size. Returns exactly the requested number of bytes, or
        raises RemoteStorageError.
        """
        ...

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """A whole index. Raises RemoteResourceNotFound if the segment has no such index."""
        ...

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove all parts of a segment. Idempotent."""
        ...

    async def close(self) -> None:
        """Release connections and threads. Idempotent."""
        ...


@runtime_checkable
class PartitionStorage(Protocol):
    """A store that can also remove a whole partition. This is optional."""

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        """Remove all remaining objects of a deleted topic's partition, even ones without metadata.

        Called after all segments have been deleted. Also removes the folder and the leftovers of
        interrupted uploads. Idempotent.
        """
        ...


@runtime_checkable
class UploadStorage(Protocol):
    """A store that keeps the parts of interrupted uploads."""

    async def abort_uploads(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Discard the uploaded parts of a segment whose copy is given up. Idempotent."""
        ...


@runtime_checkable
class SegmentInventory(Protocol):
    """A store that can list its complete copies. This is optional."""

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """The complete copies of a partition's segments, with their COPY_SEGMENT_STARTED metadata.

        A copy is complete if every part is there with the right size.
        """
        ...


@runtime_checkable
class OwnedStorage(Protocol):
    """A store that is owned by one broker and that another may take over."""

    async def look_at_owner(self) -> None:
        """Raise RemoteStorageError if another broker owns the tier, so nothing may be copied.

        It only reads: it does not claim a tier without an owner.
        """
        ...

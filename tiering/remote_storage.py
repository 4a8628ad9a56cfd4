"""The contract of a remote tier (KIP-405's `RemoteStorageManager`).

A remote storage manager moves the bytes of segments and knows nothing of their order, lineage or
state. Whoever calls it keeps these rules:

- a segment id is copied once: a failed copy is deleted and the next attempt takes a new id;
- nothing is read before the metadata says COPY_SEGMENT_FINISHED;
- deletion may be repeated, and what is not there counts as deleted.

All methods are coroutines and may be slow; none may block the event loop. A failure is a
`RemoteStorageError` and nothing else. It says of what kind it is, because retrying helps against an
unreachable store and does not help against a wrong password.
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
    """The tier did not do what it was asked. The message is a plain sentence without secrets."""

    def __init__(self, message: str, failure: Failure = Failure.BROKEN) -> None:
        super().__init__(message)
        self.failure = failure

    @property
    def is_retriable(self) -> bool:
        """Whether the same call may succeed later with nobody doing anything."""
        return self.failure in (Failure.UNREACHABLE, Failure.THROTTLED)


class OversizedObjectError(RemoteStorageError):
    """The object is larger than what it is there for can be."""


class RemoteResourceNotFound(RemoteStorageError):
    """The object is not in the tier."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure.NOT_FOUND)


class IndexType(Enum):
    """What accompanies the log of a segment; the values are the suffixes of the object keys."""

    OFFSET = "index"
    TIMESTAMP = "timeindex"
    TRANSACTION = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    LEADER_EPOCH = "leader_epoch_checkpoint"


class SegmentBytes(Protocol):
    """The log of a segment on its way to the tier (`storage.files.FileRegion`).

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
    """The epoch history from its beginning up to the segment's last record, as a checkpoint."""

    def indexes(self) -> dict[IndexType, bytes]:
        """The companions that exist, in the order in which they are uploaded."""
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
        """Store all parts durably. What is returned comes back in later metadata (KIP-917)."""
        ...

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        """The bytes of the log object from start to end position, both inclusive.

        The end is clamped to the segment's size; from then on exactly as many bytes come back as
        were asked for, or RemoteStorageError.
        """
        ...

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """A companion object, whole. RemoteResourceNotFound if the segment has none."""
        ...

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove all parts of a segment. Idempotent."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads. Idempotent."""
        ...


@runtime_checkable
class PartitionStorage(Protocol):
    """A store that can also clear a whole partition. Not every one can, or must."""

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        """Remove whatever is left of a partition of a deleted topic, known to metadata or not.

        It comes after the deletion of all its segments, and finds what uploads that were cut short
        have left, and folders. Idempotent.
        """
        ...


@runtime_checkable
class UploadStorage(Protocol):
    """A store that keeps the pieces of uploads that were cut short."""

    async def abort_uploads(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Forget what was sent of a segment whose copy is given up. Idempotent."""
        ...


@runtime_checkable
class SegmentInventory(Protocol):
    """A store that can say which copies it has whole. Not every one can, or must."""

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """The segments of a partition that were stored to their end, as they were announced.

        Whole is a segment of which every part is there with its size.
        """
        ...


@runtime_checkable
class OwnedStorage(Protocol):
    """A store that may come to be another broker's."""

    async def look_at_owner(self) -> None:
        """Raises RemoteStorageError if nothing could be copied there, because it is another's.

        It only reads: a tier without an owner stays without one.
        """
        ...

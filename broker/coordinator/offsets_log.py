"""A coordinator's interface to the log of its topic."""

from typing import NamedTuple, Protocol

from ...clients.errors import ErrorCode
from .result_or_future import ResultOrFuture


class Appended(NamedTuple):
    """The outcome of an append: an error, or the offset of the first record."""

    error: ErrorCode
    base_offset: int = -1


class OffsetsLog(Protocol):
    """The partitions of a coordinator's topic that this broker leads."""

    def append(self, partition: int, batch: bytearray) -> ResultOrFuture[Appended]:
        """Append one batch; the outcome arrives once all in-sync replicas have it.

        Outcomes of a partition arrive in the order of the appends. Never raises.
        """
        ...

    def when_replicated(self, partition: int, offset: int) -> ResultOrFuture[ErrorCode]:
        """NONE once no failover can lose what is below `offset`, which may take for ever.

        REQUEST_TIMED_OUT if that is not in sight: ask again. Any other error if this broker does
        not lead the partition. Cancel the future to wait no longer. Never raises.
        """
        ...

    def offsets(self, partition: int) -> tuple[int, int]:
        """The log start offset and the log end offset. Raises KafkaError if not the leader."""
        ...

    def high_watermark(self, partition: int) -> int:
        """The end of what no failover can lose. Raises KafkaError if not the leader."""
        ...

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes | memoryview:
        """Whole batches from `offset` on, at least one if any exist. Raises KafkaError."""
        ...


UNAVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_NOT_COORDINATOR = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_OUR_MISTAKE = frozenset(
    {ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)

# After these errors the records may still be in the log, and the next load would apply them.
MAY_SURVIVE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def append_error_to_client(error: ErrorCode) -> ErrorCode:
    """The error code to send to the client for a failed append.

    The client retries after COORDINATOR_NOT_AVAILABLE, and looks up the coordinator after
    NOT_COORDINATOR.
    """
    if error in UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error in _OUR_MISTAKE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error

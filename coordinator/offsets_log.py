"""A coordinator's interface to the log of its topic."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..clients.errors import ErrorCode
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


class ReplicationWait:
    """Calls `then` once, with NONE, or with the reason why this broker no longer leads.

    It may wait for as long as replicas are missing, and costs nothing meanwhile.
    """

    def __init__(
        self, log: OffsetsLog, partition: int, offset: int, then: Callable[[ErrorCode], None]
    ) -> None:
        self._log = log
        self._partition = partition
        self._offset = offset
        self._then = then
        self._pending: asyncio.Future[ErrorCode] | asyncio.TimerHandle | None = None
        self._is_cancelled = False

    def start(self) -> None:
        """Begin to wait; `then` may be called before this returns."""
        answer = self._log.when_replicated(self._partition, self._offset)
        if isinstance(answer, asyncio.Future):
            self._pending = answer
            answer.add_done_callback(self._on_answer)
        elif answer is ErrorCode.REQUEST_TIMED_OUT:
            # Too many wait already: it was not even tried.
            self._pending = asyncio.get_running_loop().call_later(_ASK_AGAIN_S, self.start)
        else:
            self._settle(answer)

    def cancel(self) -> None:
        """Wait no longer: `then` is not called."""
        self._is_cancelled = True
        if self._pending is not None:
            self._pending.cancel()

    def _on_answer(self, answer: asyncio.Future[ErrorCode]) -> None:
        # The answer may have come already, and this callback be due.
        if self._is_cancelled or answer.cancelled():
            return
        if answer.result() is ErrorCode.REQUEST_TIMED_OUT:
            self.start()
        else:
            self._settle(answer.result())

    def _settle(self, error: ErrorCode) -> None:
        self._pending = None
        self._then(error)


_ASK_AGAIN_S = 1.0

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

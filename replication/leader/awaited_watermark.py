"""What waits for a partition's high watermark: a produce with acks=all, or a coordinator.

A produce (`DelayedProduce` in Kafka) is settled when the high watermark has passed its records
(with the error NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas are then in sync), or when this
broker no longer leads the partition. If it is not settled by the timeout, it is answered
REQUEST_TIMED_OUT: its records may survive. With one replica no request waits here: the high
watermark has moved before the append returns.

Group coordinators append with acks=1 and wait for the high watermark themselves (Kafka's
`CoordinatorRuntime`): `min.insync.replicas` then holds the answer back, and refuses nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...clients.errors import ErrorCode
from ..partition.append_data import AppendEntry
from ..partition.partition import Partition
from ..purgatory.purgatory import DelayedOperation


@dataclass(slots=True)
class UnsettledAppend:
    """Records that are appended but not yet replicated, and their result."""

    partition: Partition
    required_offset: int
    result: AppendEntry

    def settle(self) -> bool:
        """Set the result's error code; return whether nothing is left to wait for."""
        code = self.partition.check_replicated(self.required_offset)
        if code is None:
            return False
        self.result.error = code
        return True


class AwaitedWatermark(DelayedOperation):
    """Completes with NONE at `offset`, NOT_LEADER_OR_FOLLOWER, or REQUEST_TIMED_OUT."""

    __slots__ = ("_error", "_offset", "_on_complete", "_partition")

    def __init__(
        self,
        timeout_ms: int,
        partition: Partition,
        offset: int,
        on_complete: Callable[[ErrorCode], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._partition = partition
        self._offset = offset
        self._on_complete = on_complete
        self._error = ErrorCode.NONE

    def try_complete(self) -> bool:
        partition = self._partition
        if not partition.is_leader:
            self._error = partition.not_leader().code
        elif partition.log.high_watermark < self._offset:
            return False
        return self.force_complete()

    def on_expiration(self) -> None:
        self._error = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        self._on_complete(self._error)

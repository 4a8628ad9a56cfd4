"""Who waits for a partition's high watermark without a request's records: a coordinator.

Group coordinators append with acks=1 and wait for the high watermark themselves (Kafka's
`CoordinatorRuntime`): `min.insync.replicas` then holds the answer back, and refuses nothing.
"""

from collections.abc import Callable

from ...clients.errors import ErrorCode
from ..partition.partition import Partition
from ..purgatory.purgatory import DelayedOperation


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

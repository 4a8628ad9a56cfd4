"""A request that waits until the followers have replicated the leader's changes.

Produce with acks=all and DeleteRecords wait in the same way. Each of the request's partitions is
settled independently; one that is not settled by the timeout is answered REQUEST_TIMED_OUT, but the
leader keeps the change. With one replica no request waits here.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ...clients.errors import ErrorCode
from ..partition.partition import Partition
from ..purgatory.purgatory import DelayedOperation


class PartitionResult(Protocol):
    """The answer for one partition."""

    error: ErrorCode


ResultT = TypeVar("ResultT", bound=PartitionResult)


class Unreplicated(Protocol):
    """A change to one partition that still waits for followers.

    Produce waits for the in-sync replicas, DeleteRecords for all replicas.
    """

    @property
    def partition(self) -> Partition: ...

    @property
    def result(self) -> PartitionResult: ...

    def settle(self) -> bool:
        """Update the result; return whether nothing is left to wait for."""
        ...


class DelayedReplication(DelayedOperation, Generic[ResultT]):
    """A request with partitions that are not settled yet."""

    __slots__ = ("_on_complete", "_results", "_unsettled")

    def __init__(
        self,
        timeout_ms: int,
        results: list[ResultT],
        unsettled: Sequence[Unreplicated],
        on_complete: Callable[[list[ResultT]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._unsettled = list(unsettled)
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        self._unsettled = [each for each in self._unsettled if not each.settle()]
        return not self._unsettled and self.force_complete()

    def on_expiration(self) -> None:
        for each in self._unsettled:
            each.result.error = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        self._on_complete(self._results)

"""A produce with acks=all that waits for its followers (`DelayedProduce`, P6).

A partition is settled when the high watermark has passed its records, when too few replicas are in
sync although it has (NOT_ENOUGH_REPLICAS_AFTER_APPEND), or when this broker no longer leads it.
What isn't settled by the time-out is answered REQUEST_TIMED_OUT: the records may survive.

With one replica nothing ever waits here: the high watermark has moved before the append returns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..clients.errors import ErrorCode
from .append_data import PartitionAppendResult
from .partition import Partition
from .purgatory import DelayedOperation

OnComplete = Callable[[list[PartitionAppendResult]], None]


@dataclass(slots=True)
class UnsettledAppend:
    """Records that are appended but not replicated, and the result that waits for that."""

    partition: Partition
    required_offset: int
    result: PartitionAppendResult


class DelayedProduce(DelayedOperation):
    """A produce of which some partitions aren't replicated yet."""

    __slots__ = ("_on_complete", "_results", "_unsettled")

    def __init__(
        self,
        timeout_ms: int,
        results: list[PartitionAppendResult],
        unsettled: Sequence[UnsettledAppend],
        on_complete: OnComplete,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._unsettled = list(unsettled)
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        self._unsettled = [append for append in self._unsettled if not _settle(append)]
        return not self._unsettled and self.force_complete()

    def on_expiration(self) -> None:
        for append in self._unsettled:
            append.result.error = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        self._on_complete(self._results)


def _settle(append: UnsettledAppend) -> bool:
    code = append.partition.check_replicated(append.required_offset)
    if code is None:
        return False
    append.result.error = code
    return True

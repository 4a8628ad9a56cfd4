"""A fetch that waits for min.bytes (`DelayedFetch`).

It completes as soon as one of these holds:

- A: this broker no longer leads one of the partitions, or leads it in another epoch;
- B: one of the partitions is unknown or its log directory has failed;
- C: a partition's log was truncated below the fetch offset, or the fetcher's log diverges from it;
- D: the bytes that the fetcher may see have reached min.bytes;

or when max.wait.ms has passed. Data that has moved to the remote tier meanwhile counts as
available, unless the remote fetch quota is exceeded (KIP-956). In every case the logs are then
read again to build the response.
"""

from collections.abc import Callable, Sequence

from ...clients.errors import KafkaError
from ..partition.fetch_data import FetchParams, FetchPartition
from ..purgatory.purgatory import DelayedOperation
from .log_reader import LogReader


class DelayedFetch(DelayedOperation):
    """A fetch with too few bytes to answer yet."""

    __slots__ = ("_on_complete", "_params", "_partitions", "_reader")

    def __init__(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        reader: LogReader,
        on_complete: Callable[[], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._partitions = partitions
        self._reader = reader
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        available = 0
        min_bytes = self._params.min_bytes
        try:
            for fetch_partition in self._partitions:
                available += self._available(fetch_partition, min_bytes)
                if available >= min_bytes:
                    return self.force_complete()
        except KafkaError:
            # A, B, C: the final read finds the same error and puts it into the response.
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        self._on_complete()

    def _available(self, fetch_partition: FetchPartition, min_bytes: int) -> int:
        """The bytes that could be returned now; `min_bytes` if the fetch must complete at once."""
        partition = self._reader.partition_for(fetch_partition)
        log = partition.leader_log(fetch_partition.current_leader_epoch)
        end = log.visible_end(self._params.isolation)
        if end < fetch_partition.fetch_offset:
            return min_bytes
        if end > fetch_partition.fetch_offset:
            if fetch_partition.fetch_offset < log.local_log_start_offset:
                return 0 if self._reader.is_remote_throttled() else min_bytes
            if min_bytes <= 1:
                return 1
            available = log.read_position(fetch_partition.fetch_offset, self._params.isolation)
            return min(available, fetch_partition.max_bytes)
        if fetch_partition.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(
                fetch_partition.last_fetched_epoch, fetch_partition.fetch_offset
            )
            if diverging is not None:
                return min_bytes
        return 0

"""A fetch that waits for min.bytes (`DelayedFetch`).

It completes as soon as one of these holds:

- A: this broker no longer has the role that it needs for one of the partitions, or the leader epoch
  is another one;
- B: one of the partitions is unknown or its log directory has failed;
- C: a partition's log was truncated below the fetch offset, or the fetcher's log diverges from it;
- D: the bytes that the fetcher may see have reached min.bytes;

or when max.wait.ms has passed. Data that has moved to the remote tier meanwhile counts as
available, unless the remote fetch quota is exceeded (KIP-956). In every case the logs are then
read again to build the response.

A consumer's offset between the end that it may see and the log end is no reason to complete: on a
follower this is usual, until the leader sends it a new high watermark (KIP-392). Kafka answers
at once there, and the consumer asks again. Records that a follower does not get, because of the
leaders' quota (KIP-73), do not count as available.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress

from ...clients.errors import KafkaError
from ..partition.fetch_data import FetchParams, FetchPartition
from ..purgatory.purgatory import DelayedOperation
from .log_reader import PARTITIONS_A_STEP, LogReader, readable_log


class DelayedFetch(DelayedOperation):
    """A fetch with too few bytes to answer yet."""

    __slots__ = ("_bytes", "_bytes_of_all", "_on_complete", "_params", "_partitions", "_reader")

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
        # The bytes that each partition had at the last look, if it had any, and their sum.
        self._bytes: dict[int, int] = {}
        self._bytes_of_all = 0

    def try_complete(self) -> bool:
        self._bytes.clear()
        self._bytes_of_all = 0
        return self._look_at(range(len(self._partitions)))

    def try_complete_in_steps(self) -> Generator[None, None, None]:
        """Look at all partitions, with pauses.

        It must be watched already: `try_complete_for` sees what changes in a pause.
        """
        count = len(self._partitions)
        for begin in range(0, count, PARTITIONS_A_STEP):
            if self.is_completed:
                return
            self._look_at(range(begin, min(begin + PARTITIONS_A_STEP, count)))
            yield

    def try_complete_for(self, key: Hashable) -> bool:
        """Look at one partition only; its place among the keys is that among the partitions.

        A follower's fetch waits for thousands of them, and when a broker has ended or has come
        back, thousands change, one after the other.
        """
        return self._look_at(_places(self.keys, key))

    def _look_at(self, places: Iterable[int]) -> bool:
        sizes, min_bytes = self._bytes, self._params.min_bytes
        try:
            for place in places:
                available = self._available(self._partitions[place], min_bytes)
                if available or sizes:
                    self._bytes_of_all += available - sizes.get(place, 0)
                    sizes[place] = available
                    if self._bytes_of_all >= min_bytes:
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
        params = self._params
        log = readable_log(partition, params, fetch_partition)
        end = log.visible_end(params.isolation)
        if end < fetch_partition.fetch_offset:
            return min_bytes if fetch_partition.fetch_offset > log.log_end_offset else 0
        if end > fetch_partition.fetch_offset:
            if params.is_from_follower and self._reader.holds_back(partition, params.replica_id):
                return 0
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


def _places(keys: Sequence[Hashable], key: Hashable) -> Iterator[int]:
    """Where a key is among the keys: more than once if a client names a partition again."""
    start = 0
    with suppress(ValueError):
        while True:
            place = keys.index(key, start)
            yield place
            start = place + 1

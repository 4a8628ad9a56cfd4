"""A fetch that waits for min.bytes (`DelayedFetch`).

It completes as soon as one of these holds:

- A: this broker no longer has the role that it needs for one of the partitions, or the leader epoch
  is another one;
- B: one of the partitions is unknown or its log directory has failed;
- C: a partition's log was truncated below the fetch offset, or the fetcher's log diverges from it;
- D: what the fetcher may see ends in a later segment than it begins: a read takes from one only;
- E: the bytes that the fetcher may see have reached min.bytes;

or when max.wait.ms has passed. Data that has moved to the remote tier meanwhile counts as
available, unless the remote fetch quota is exceeded (KIP-956). In every case the logs are then
read again to build the response.

After a change of one partition only that one is looked at; all others stay as they were at the last
look, since each change of a partition is signalled. Quotas are the exception: time alone lifts
them. A fetch that one holds back looks at all its partitions at the first change after that, as
Kafka's does at every change.

A consumer's offset between the end that it may see and the log end is no reason to complete: on a
follower this is usual, until the leader sends it a new high watermark (KIP-392). Kafka answers
at once there, and the consumer asks again. Records that a follower does not get, because of the
leaders' quota (KIP-73), do not count as available.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress

from ...clients.errors import KafkaError
from ..partition.fetch_data import FetchParams, FetchPartition
from ..partition.partition import Partition
from ..purgatory.purgatory import DelayedOperation
from .log_reader import PARTITIONS_A_STEP, LogReader, readable_log


class DelayedFetch(DelayedOperation):
    """A fetch with too few bytes to answer yet."""

    __slots__ = (
        "_bytes",
        "_bytes_of_all",
        "_held_back",
        "_on_complete",
        "_params",
        "_partitions",
        "_reader",
    )

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
        # The last partition that a quota held back, if any.
        self._held_back: FetchPartition | None = None

    def try_complete(self) -> bool:
        self._bytes.clear()
        self._bytes_of_all = 0
        self._held_back = None
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

    def try_complete_for(self, key: Hashable, place: int) -> bool:
        """Look at one partition only; its place among the keys is that among the partitions.

        A follower's fetch waits for thousands of them, and when a broker has ended or has come
        back, thousands change, one after the other.
        """
        if self._held_back is not None and not self._is_held_back(self._held_back):
            return self.try_complete()
        return self._look_at(_places(self.keys, key, place) if self.repeats_keys else (place,))

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
        log = readable_log(partition, self._params, fetch_partition)
        offset, end = fetch_partition.fetch_offset, log.visible_end(self._params.isolation)
        available = 0
        if end > offset:
            available = self._bytes_until(end, partition, fetch_partition)
        elif offset > log.log_end_offset:
            return min_bytes
        if available < min_bytes and fetch_partition.last_fetched_epoch >= 0:
            epoch = fetch_partition.last_fetched_epoch
            if partition.diverging_epoch(epoch, offset) is not None:
                return min_bytes
        return available

    def _bytes_until(self, end: int, partition: Partition, fetch_partition: FetchPartition) -> int:
        """The same where there are records below `end`, which the fetcher may see."""
        log, offset, min_bytes = partition.log, fetch_partition.fetch_offset, self._params.min_bytes
        if self._is_throttled(partition, offset):
            self._held_back = fetch_partition
            return 0
        if min_bytes <= 1:
            return 1
        if offset < log.local_log_start_offset or log.local.segments.ends_later(offset, end):
            return min_bytes
        return min(log.read_position(offset, self._params.isolation), fetch_partition.max_bytes)

    def _is_throttled(self, partition: Partition, offset: int) -> bool:
        """Whether a quota withholds the records at `offset`."""
        params = self._params
        if params.is_from_follower and self._reader.holds_back(partition, params.replica_id):
            return True
        return offset < partition.log.local_log_start_offset and self._reader.is_remote_throttled()

    def _is_held_back(self, fetch_partition: FetchPartition) -> bool:
        try:
            partition = self._reader.partition_for(fetch_partition)
        except KafkaError:
            return False
        return self._is_throttled(partition, fetch_partition.fetch_offset)


def _places(keys: Sequence[Hashable], key: Hashable, first: int) -> Iterator[int]:
    """Where a key is among the keys, for a client that names a partition again."""
    start = first
    with suppress(ValueError):
        while True:
            place = keys.index(key, start)
            yield place
            start = place + 1

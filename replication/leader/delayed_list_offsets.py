"""A ListOffsets request that waits for the remote tier (`DelayedRemoteListOffsets`, KIP-1075).

The partitions whose timestamps may lie in the tier are searched at the same time, and no request
thread waits for any of them. The request is answered when every search is done, or after the
client's timeout (TimeoutMs, version 10; without it, remote.list.offsets.request.timeout.ms). After
a timeout, partitions still being searched get REQUEST_TIMED_OUT, and the others get their offsets.
A partition that this broker ceases to lead is settled at once, with the leadership error. A search
in the tier continues when no request waits for it any more, and fills the caches for the client's
retry; a long one in a local log ends (`search_slots.py`).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicPartition
from ...storage.log.fetch_data import FetchIsolation
from ...storage.segment.time_index import TimestampAndOffset
from ..partition.fetch_data import CurrentLeader
from ..partition.partition import Partition
from ..purgatory.purgatory import DelayedOperation, Purgatory
from ..remote_tier import RemoteTier
from .offset_lookup import LongSearches, OffsetQuery, OffsetResult, look_up_offset
from .search_slots import SearchSlots

_log = logging.getLogger(__name__)

_SEARCHES_MAX = 1_000

OffsetResults = list[OffsetResult]


class RemoteSearch:
    """A search in one partition, and the result that it fills."""

    __slots__ = ("is_settled", "leader_epoch", "partition", "result")

    def __init__(self, partition: Partition, result: OffsetResult) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.result = result
        self.is_settled = False

    def settle(self, outcome: TimestampAndOffset | KafkaError) -> None:
        """Fill the result, unless it has been filled already."""
        if self.is_settled:
            return
        self.is_settled = True
        if isinstance(outcome, KafkaError):
            self.result.fail(outcome, self.partition.current_leader)
        else:
            self.result.fill(outcome)

    def check_leadership(self) -> None:
        """Settle the search with an error if the leader or the leader epoch has changed."""
        partition = self.partition
        if not partition.is_leader or partition.leader_epoch != self.leader_epoch:
            self.settle(partition.not_leader())


class DelayedListOffsets(DelayedOperation):
    """A request with partitions that are being searched in the remote tier."""

    __slots__ = ("_expired", "_on_complete", "_results", "_searches")

    def __init__(
        self,
        timeout_ms: int,
        results: OffsetResults,
        searches: Sequence[RemoteSearch],
        on_complete: Callable[[OffsetResults], None],
        expired: Counter[TopicPartition],
    ) -> None:
        super().__init__(timeout_ms)
        self._expired = expired
        self._results = results
        self._searches = searches
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        for search in self._searches:
            search.check_leadership()
        return all(search.is_settled for search in self._searches) and self.force_complete()

    def on_expiration(self) -> None:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The search in the remote tier timed out.")
        for search in self._searches:
            if not search.is_settled:
                self._expired[search.partition.topic_partition] += 1
            search.settle(late)

    def on_complete(self) -> None:
        self._on_complete(self._results)


class OffsetListing:
    """Answers ListOffsets from local logs and the remote tier."""

    def __init__(
        self,
        partition_of: Callable[[TopicPartition], Partition],
        leader_of: Callable[[TopicPartition], CurrentLeader | None],
        remote_tier: RemoteTier | None,
        timeout_ms: int,
    ) -> None:
        self._partition_of = partition_of
        self._leader_of = leader_of
        self._remote_tier = remote_tier
        self.timeout_ms = timeout_ms
        """The timeout if the client sets none: remote.list.offsets.request.timeout.ms."""
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskOwner(_SEARCHES_MAX)
        self._slots = SearchSlots()
        self.expired: Counter[TopicPartition] = Counter()
        """How many searches timed out, by partition."""
        self.purgatory: Purgatory[DelayedListOffsets] = Purgatory("RemoteListOffsets", self._loop)

    def list_offsets(
        self, queries: Sequence[OffsetQuery], isolation: FetchIsolation, timeout_ms: int
    ) -> "OffsetResults | asyncio.Future[OffsetResults]":
        """The results in request order; a future when the remote tier must be searched.

        Cancelling the future ends the wait, but not the searches in the tier.
        """
        results: OffsetResults = []
        searches: list[tuple[RemoteSearch, Coroutine[object, object, TimestampAndOffset]]] = []
        answer: asyncio.Future[OffsetResults] = self._loop.create_future()
        long = LongSearches(self._slots, lambda: not answer.done())
        for query in queries:
            result = OffsetResult(query.topic_partition)
            results.append(result)
            try:
                partition = self._partition_of(query.topic_partition)
                lookup = look_up_offset(partition, query, isolation, self._remote_tier, long)
            except KafkaError as error:
                result.fail(error, self._leader_of(query.topic_partition))
                continue
            if isinstance(lookup, TimestampAndOffset):
                result.fill(lookup)
            else:
                searches.append((RemoteSearch(partition, result), lookup))
        if not searches:
            return results

        def respond(settled: OffsetResults) -> None:
            if not answer.done():
                answer.set_result(settled)

        waiting = [search for search, _ in searches]
        delay_ms = timeout_ms if timeout_ms > 0 else self.timeout_ms
        delayed = DelayedListOffsets(delay_ms, results, waiting, respond, self.expired)
        for search, work in searches:
            self._start(delayed, search, work)
        self.purgatory.try_complete_else_watch(delayed, [each.partition for each in waiting])
        answer.add_done_callback(lambda _: delayed.force_complete())
        return answer

    def _start(
        self,
        delayed: DelayedListOffsets,
        search: RemoteSearch,
        work: Coroutine[object, object, TimestampAndOffset],
    ) -> None:
        name = search.partition.topic_partition
        try:
            self._tasks.start(_search(delayed, search, work), f"offset search in {name}")
        except RuntimeError:
            # Too many searches: the client must retry this partition.
            work.close()
            _log.warning(
                "Too many pending offset searches in the remote tier: rejecting a search in %s",
                name,
            )
            search.settle(
                KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "Too many pending offset searches in the remote tier.",
                )
            )

    async def stop(self) -> None:
        """Answer the waiting requests, and cancel the searches."""
        self.purgatory.shutdown()
        await self._tasks.stop()


async def _search(
    delayed: DelayedListOffsets,
    search: RemoteSearch,
    work: Coroutine[object, object, TimestampAndOffset],
) -> None:
    try:
        search.settle(await work)
    except KafkaError as error:
        search.settle(error)
    except Exception:
        # A bug must not take the broker down; the client gets an error.
        _log.exception(
            "Internal error searching for an offset of %s in the remote tier",
            search.partition.topic_partition,
        )
        search.settle(
            KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The search in the remote tier failed.")
        )
    if not delayed.is_completed:
        delayed.try_complete()

"""Looks up an offset for ListOffsets by timestamp or by a special negative timestamp.

    -1 latest                 the end that the reader may see (high watermark or LSO)
    -2 earliest               the log start offset, in either tier
    -3 max timestamp          the offset of the record with the largest timestamp (KIP-734)
    -4 earliest local         the local log start offset (KIP-405)
    -5 latest tiered          the last offset that the remote tier holds (KIP-1005)
    -6 earliest pending       the first offset that isn't copied to the tier yet (KIP-1023)
    >= 0                      the first record with that timestamp or a later one, in either tier

Except for the log's start offsets, only offsets below the end that the reader may see are returned:
-6 returns -1 when everything is copied, but the log end offset to a follower. Until a leader has
moved the high watermark past the start of its epoch, it doesn't know the end that consumers may see
(OFFSET_NOT_AVAILABLE).
"""

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import NamedTuple, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.offset_names import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from ...clients.runtime.turns import in_turns
from ...clients.topic_partition import TopicPartition
from ...storage.log.fetch_data import FetchIsolation, RemoteTimestampLookup
from ...storage.log.log_offsets import Found
from ...storage.segment.time_index import TimestampAndOffset
from ..partition.fetch_data import NO_EPOCH, CurrentLeader
from ..partition.partition import Partition
from ..remote_tier import RemoteTier
from .search_slots import SearchSlots

NO_OFFSET = TimestampAndOffset(-1, -1, -1)


@dataclass(slots=True)
class OffsetQuery:
    """A partition and the timestamp to look up; the epoch is -1 if the request has none."""

    topic_partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(slots=True)
class OffsetResult:
    """The result for one partition: -1 if there is no such record."""

    topic_partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    current_leader: CurrentLeader | None = None

    def fill(self, entry: TimestampAndOffset) -> None:
        self.timestamp, self.offset, self.leader_epoch = entry

    def fail(self, error: KafkaError, leader: CurrentLeader | None) -> None:
        self.error = error.code
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            self.current_leader = leader


class LongSearches(NamedTuple):
    """What the long searches of one request need."""

    slots: SearchSlots
    is_wanted: Callable[[], bool]
    """Whether anybody still waits for the answer."""

    def check(self) -> None:
        """Raises KafkaError if the client no longer waits for the answer."""
        if not self.is_wanted():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Nothing waits for this search any more.")


def look_up_offset(
    partition: Partition,
    query: OffsetQuery,
    isolation: FetchIsolation,
    remote_tier: RemoteTier | None,
    searches: "LongSearches",
) -> TimestampAndOffset | Coroutine[object, object, TimestampAndOffset]:
    """The offset, or a coroutine for it if the lookup needs the remote tier or a long local read.

    Raises KafkaError, as does the coroutine.
    """
    log = partition.leader_log(query.current_leader_epoch)
    sight = _Sight(partition, isolation, log.visible_end(isolation))
    timestamp = query.timestamp
    if timestamp == LATEST_TIMESTAMP:
        sight.check()
        return TimestampAndOffset(-1, sight.end, partition.leader_epoch)
    if timestamp < EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"The special timestamp {timestamp} is not supported."
        )
    search = log.search_timestamp(timestamp)
    try:
        next(search)
    except StopIteration as end:
        return _answer(sight, timestamp, cast("Found", end.value), remote_tier)
    # While it waits for its turn, it holds nothing: then it begins again.
    search.close()
    return _look_up_at_length(sight, query, remote_tier, searches)


async def _look_up_at_length(
    sight: "_Sight", query: OffsetQuery, remote_tier: RemoteTier | None, searches: "LongSearches"
) -> TimestampAndOffset:
    async with searches.slots.slot(query.topic_partition):
        searches.check()
        log = sight.partition.leader_log(query.current_leader_epoch)
        lookup = await in_turns(_while_wanted(log.search_timestamp(query.timestamp), searches))
    answer = _answer(sight, query.timestamp, lookup, remote_tier)
    return answer if isinstance(answer, TimestampAndOffset) else await answer


def _while_wanted(
    search: Generator[None, None, Found], searches: "LongSearches"
) -> Generator[None, None, Found]:
    while True:
        try:
            next(search)
        except StopIteration as end:
            return cast("Found", end.value)
        searches.check()
        yield


def _answer(
    sight: "_Sight", timestamp: int, lookup: Found, remote_tier: RemoteTier | None
) -> TimestampAndOffset | Coroutine[object, object, TimestampAndOffset]:
    if isinstance(lookup, RemoteTimestampLookup):
        if remote_tier is None:
            return sight.of(lookup.local_result)
        return _look_up_remote(remote_tier, lookup, sight)
    # If everything is in the tier, a follower may begin at the log end offset (KIP-1023).
    is_follower = sight.isolation is FetchIsolation.LOG_END
    is_start = is_follower and timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP
    if not is_start and timestamp not in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        lookup = sight.of(lookup)
    partition = sight.partition
    return _with_epoch(partition, partition.log.log_start_offset, lookup or NO_OFFSET)


def _with_epoch(
    partition: Partition, log_start_offset: int, entry: TimestampAndOffset
) -> TimestampAndOffset:
    """Add the epoch; an offset that is not written yet gets the current leader epoch."""
    first = max(partition.leader_epoch_start_offset, log_start_offset)
    if entry.leader_epoch < 0 and entry.offset >= first:
        return entry._replace(leader_epoch=partition.leader_epoch)
    return entry


async def _look_up_remote(
    remote_tier: RemoteTier, lookup: RemoteTimestampLookup, sight: "_Sight"
) -> TimestampAndOffset:
    return sight.of(await remote_tier.offset_for_timestamp(lookup))


class _Sight(NamedTuple):
    """The offset up to which a reader may read."""

    partition: Partition
    isolation: FetchIsolation
    end: int

    def of(self, entry: TimestampAndOffset | None) -> TimestampAndOffset:
        """The entry, or NO_OFFSET if it lies beyond the end. Raises as `check` does."""
        if entry is not None and entry.offset < self.end:
            return entry
        self.check()
        return NO_OFFSET

    def check(self) -> None:
        """Raises KafkaError(OFFSET_NOT_AVAILABLE) while the end is not known."""
        partition = self.partition
        is_late = self.end < partition.leader_epoch_start_offset
        if is_late and self.isolation is not FetchIsolation.LOG_END:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"The high watermark of {partition.topic_partition} is still below the start of "
                f"leader epoch {partition.leader_epoch}.",
            )

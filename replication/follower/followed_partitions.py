"""The partitions that this broker follows from one leader (Kafka's `AbstractFetcherThread`).

Each has a state of its own (`fetch_state.py`). Whoever owns this sends what `asks` gives, all asks
of a kind in one request, and brings the answers back: one partition's pause or failure keeps no
other from being asked. Partitions that have moved on go to the end of the next fetch, since a
response has room for a few of them only.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ...storage.log.unified_log import UnifiedLog
from .fetch_state import FetchState, FollowedPartition
from .follower_asks import Ask, FetchAsk, Fetched, FollowerOptions


class Asked(NamedTuple):
    """One partition's part of a request."""

    partition: FollowedPartition
    ask: Ask


class FollowedPartitions:
    """See the top of this file."""

    def __init__(self, options: FollowerOptions) -> None:
        self._options = options
        self._partitions: dict[TopicIdPartition, FollowedPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, name: TopicIdPartition) -> FollowedPartition | None:
        return self._partitions.get(name)

    def follow(
        self, name: TopicIdPartition, log: UnifiedLog, leader_epoch: int
    ) -> FollowedPartition:
        """Follow the leader of this epoch with `log`; what goes on already is not disturbed."""
        partition = self._partitions.get(name)
        if partition is None or partition.log is not log:
            partition = FollowedPartition(name, log, self._options)
            self._partitions[name] = partition
        partition.follow(leader_epoch)
        return partition

    def unfollow(self, names: Iterable[TopicIdPartition]) -> None:
        """Another broker leads these, or none, or they are not here any more."""
        for name in names:
            self._partitions.pop(name, None)

    def asks(self, now_ms: int) -> list[Asked]:
        """Everything that can be asked now, in the order in which it is to be answered."""
        asks: list[Asked] = []
        for partition in self._partitions.values():
            ask = partition.ask(now_ms)
            if ask is not None:
                asks.append(Asked(partition, ask))
        return asks

    def fetched(
        self, partition: FollowedPartition, ask: FetchAsk, answer: Fetched, now_ms: int
    ) -> None:
        """A fetch is answered; a partition that has moved on lets others go first."""
        before = partition.fetch_offset
        partition.fetched(ask, answer, now_ms)
        name = partition.topic_id_partition
        if partition.fetch_offset != before and self._partitions.get(name) is partition:
            self._partitions[name] = self._partitions.pop(name)

    def lost(self, asks: Iterable[Asked], reason: str, now_ms: int) -> None:
        """A whole request has failed: nobody knows what became of it, and each is asked again."""
        for partition, ask in asks:
            partition.failed(ask, reason, now_ms)

    def next_due_ms(self) -> int | None:
        """When there is something to ask again; None while everything waits for an answer."""
        due_times = (partition.due_ms for partition in self._partitions.values())
        return min((due_ms for due_ms in due_times if due_ms is not None), default=None)

    @property
    def failed(self) -> list[TopicIdPartition]:
        """Those that wait for news of their leader (FailedPartitionsCount)."""
        return [
            name
            for name, partition in self._partitions.items()
            if partition.state is FetchState.FAILED
        ]

    @property
    def max_lag(self) -> int:
        """Records that the furthest of them is behind (MaxLag)."""
        return max((partition.lag or 0 for partition in self._partitions.values()), default=0)

"""The partitions that this broker follows from one leader (Kafka's `AbstractFetcherThread`).

Each has its own state (`fetch_state.py`). The owner sends the result of `asks`, all asks of a kind
in one request, and hands the responses back. A paused or failed partition does not delay others.
Partitions that have advanced go to the end of the next fetch, since a response has room for only a
few of them.
"""

from collections.abc import Callable, Iterable
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
    """All partitions followed from one leader; see the top of this file."""

    def __init__(self, options: FollowerOptions) -> None:
        self._options = options
        self._partitions: dict[TopicIdPartition, FollowedPartition] = {}

    def use(self, options: FollowerOptions) -> None:
        """Follow with these options from now on."""
        self._options = options
        for partition in self._partitions.values():
            partition.options = options

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, name: TopicIdPartition) -> FollowedPartition | None:
        return self._partitions.get(name)

    def follow(
        self, name: TopicIdPartition, log: UnifiedLog, leader_epoch: int
    ) -> FollowedPartition:
        """Follow the leader of this epoch with `log`. Does nothing if it is already followed."""
        partition = self._partitions.get(name)
        if partition is None or partition.log is not log:
            self.unfollow([name])
            partition = FollowedPartition(name, log, self._options)
            self._partitions[name] = partition
        partition.follow(leader_epoch)
        return partition

    def unfollow(self, names: Iterable[TopicIdPartition]) -> None:
        """Stop following partitions whose leader has changed or whose replica has been removed.

        Their outstanding responses are ignored.
        """
        for name in names:
            partition = self._partitions.pop(name, None)
            if partition is not None:
                partition.leave()

    def asks(
        self, now_ms: int, pause_ms: Callable[[FollowedPartition], int] | None = None
    ) -> list[Asked]:
        """Every request that is due, in the order in which the leader should add records.

        `pause_ms` returns for how long a partition that is due must not fetch; 0 if it may.
        """
        asks: list[Asked] = []
        for partition in self._partitions.values():
            if pause_ms is not None and partition.is_ready(now_ms):
                partition.delayed_until_ms = now_ms + pause_ms(partition)
            # Nearly all wait for a response when a few have had theirs.
            ask = None if partition.outstanding else partition.ask(now_ms)
            if ask is not None:
                asks.append(Asked(partition, ask))
        return asks

    def fetched(
        self,
        partition: FollowedPartition,
        ask: FetchAsk,
        answer: Fetched,
        now_ms: int,
        wall_ms: int | None = None,
    ) -> bool:
        """Handle a Fetch response. A partition that has advanced goes to the end.

        `wall_ms` is the wall clock if that is another than the one that measures delays. Returns
        whether the offsets of the response were used.
        """
        before = partition.fetch_offset
        is_used = partition.fetched(ask, answer, now_ms, wall_ms)
        name = partition.topic_id_partition
        if partition.fetch_offset != before and self._partitions.get(name) is partition:
            self._partitions[name] = self._partitions.pop(name)
        return is_used

    def lost(self, asks: Iterable[Asked], reason: str, now_ms: int) -> None:
        """Handle a failed request: its outcome is unknown, so each partition retries."""
        for partition, ask in asks:
            partition.failed(ask, reason, now_ms)

    def lose_all(self, reason: str, now_ms: int) -> None:
        """Handle the loss of every response that is outstanding: each partition retries."""
        for partition in self._partitions.values():
            partition.give_up(reason, now_ms)

    def next_due_ms(self) -> int | None:
        """When the next request is due; None while every partition waits or has failed."""
        due_times = (partition.due_ms for partition in self._partitions.values())
        return min((due_ms for due_ms in due_times if due_ms is not None), default=None)

    @property
    def failed(self) -> list[TopicIdPartition]:
        """Failed partitions, which wait for the next `follow` (FailedPartitionsCount)."""
        return [
            name
            for name, partition in self._partitions.items()
            if partition.state is FetchState.FAILED
        ]

    @property
    def max_lag(self) -> int:
        """The largest lag of any partition, in records (MaxLag)."""
        return max((partition.lag or 0 for partition in self._partitions.values()), default=0)

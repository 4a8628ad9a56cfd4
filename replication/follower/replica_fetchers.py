"""All fetchers of this broker (Kafka's `ReplicaFetcherManager`).

    a partition that this broker follows -> the fetcher of (its leader, an index) -> one task and
    one connection; a fetcher without partitions ends

A change of metadata that leaves leader and leader epoch as they are changes nothing here, so that
a change of the ISR interrupts no fetch. A partition without a leader is not fetched.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...clients.errors import KafkaError
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...storage.log.replica_repair import drop_damaged_part
from ...storage.log.unified_log import UnifiedLog
from ..partition.partition import Partition, PartitionRole
from .replica_fetcher import FetcherId, FetcherTools, ReplicaFetcher, ReplicaFetcherConfig

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

_FETCHERS_MAX = 10_000
_NAMES_SHOWN_MAX = 100


class FollowedReplica(NamedTuple):
    """A partition to follow, and whom."""

    name: TopicIdPartition
    log: UnifiedLog
    leader_id: int
    leader_epoch: int


class _Running(NamedTuple):
    fetcher: ReplicaFetcher
    task: "asyncio.Task[None]"


class ReplicaFetchers:
    """See the top of this file. Call it in the event loop."""

    def __init__(self, config: ReplicaFetcherConfig, tools: FetcherTools) -> None:
        self._config = config
        self._tools = tools
        self._prefix = f"[ReplicaFetcherManager on broker {config.node_id}]"
        self._running: dict[FetcherId, _Running] = {}
        self._where: dict[TopicIdPartition, FetcherId] = {}
        self._tasks = TaskOwner(_FETCHERS_MAX)
        self._is_stopped = False

    def publish(self, partitions: Sequence[Partition]) -> None:
        """Follow the leaders of these partitions, as their new images say."""
        followed: list[FollowedReplica] = []
        left: list[TopicIdPartition] = []
        for partition in partitions:
            name, leader_id = partition.topic_id_partition, partition.image.leader
            is_follower = partition.role is PartitionRole.FOLLOWER and leader_id >= 0
            if is_follower and not self._is_damaged_in_sync(partition):
                self._repair(partition)
                followed.append(
                    FollowedReplica(name, partition.log, leader_id, partition.leader_epoch)
                )
            else:
                left.append(name)
        self.leave(left)
        self.follow(followed)

    def _is_damaged_in_sync(self, partition: Partition) -> bool:
        """Whether a damaged log's replica is still in the ISR, which it must leave to be repaired.

        It fetches nothing until then: a leader that saw it at the end of the log could add it to
        the ISR again, and its log would be truncated while it counts as in sync.
        """
        is_in_sync = self._config.node_id in partition.image.isr
        return partition.log.damaged_from is not None and is_in_sync

    def _repair(self, partition: Partition) -> None:
        """Drop what is damaged in the log of a replica that is not in sync.

        One of the ELR (KIP-966) keeps what it has: it may be elected with it.
        """
        log = partition.log
        if log.damaged_from is None or self._config.node_id in partition.image.elr:
            return
        self._remove([partition.topic_id_partition])
        try:
            drop_damaged_part(log)
        except KafkaError:
            # A failed disk is already offline and reported.
            if log.log_dir.is_online:
                raise
        if self._tools.on_high_watermark is not None:
            self._tools.on_high_watermark(partition.topic_partition)

    def follow(self, replicas: Iterable[FollowedReplica]) -> None:
        """Follow these partitions; nothing changes for one whose leader, epoch and log are as
        they were, nor after `stop`: metadata is published until the controller has ended."""
        if self._is_stopped:
            return
        added: dict[FetcherId, list[FollowedReplica]] = {}
        moved: list[TopicIdPartition] = []
        for replica in replicas:
            fetcher_id = self._fetcher_of(replica)
            if self._is_followed(replica, fetcher_id):
                continue
            if self._where.get(replica.name, fetcher_id) != fetcher_id:
                moved.append(replica.name)
            added.setdefault(fetcher_id, []).append(replica)
        self._remove(moved)
        for fetcher_id, of_fetcher in added.items():
            self._add(fetcher_id, of_fetcher)
        self._end_idle()

    def leave(self, partitions: Collection[TopicIdPartition]) -> None:
        """Follow these partitions no longer. Once this returns, their logs do not change."""
        self._remove(partitions)
        self._end_idle()

    def _fetcher_of(self, replica: FollowedReplica) -> FetcherId:
        """As in Kafka, the partitions of a topic go to the fetchers in turn."""
        number = crc32(replica.name.topic.encode()) + replica.name.partition
        return FetcherId(replica.leader_id, number % self._config.fetchers_per_leader)

    def _is_followed(self, replica: FollowedReplica, fetcher_id: FetcherId) -> bool:
        if self._where.get(replica.name) != fetcher_id:
            return False
        partition = self._running[fetcher_id].fetcher.followed.get(replica.name)
        return (
            partition is not None
            and partition.leader_epoch == replica.leader_epoch
            and partition.log is replica.log
        )

    def _add(self, fetcher_id: FetcherId, replicas: Sequence[FollowedReplica]) -> None:
        fetcher = self._fetcher(fetcher_id)
        states: list[str] = []
        for name, log, leader_id, leader_epoch in replicas:
            partition = fetcher.follow(name, log, leader_epoch)
            self._where[name] = fetcher_id
            if len(states) < _NAMES_SHOWN_MAX:
                states.append(
                    f"{name.topic_partition} -> InitialFetchState(leader={leader_id},"
                    f" currentLeaderEpoch={leader_epoch}, initOffset={partition.fetch_offset})"
                )
        _log.info(
            "%s Added fetcher to broker %d for partitions HashMap(%s)",
            self._prefix,
            fetcher_id.leader_id,
            _first_of(states, len(replicas)),
        )

    def _fetcher(self, fetcher_id: FetcherId) -> ReplicaFetcher:
        running = self._running.get(fetcher_id)
        if running is None:
            fetcher = ReplicaFetcher(fetcher_id, self._config, self._tools)
            running = _Running(fetcher, self._tasks.start(fetcher.run(), str(fetcher)))
            self._running[fetcher_id] = running
        return running.fetcher

    def _remove(self, names: Iterable[TopicIdPartition]) -> None:
        """Take those partitions that have a fetcher from it."""
        by_fetcher: dict[FetcherId, list[TopicIdPartition]] = {}
        for name in names:
            fetcher_id = self._where.pop(name, None)
            if fetcher_id is not None:
                by_fetcher.setdefault(fetcher_id, []).append(name)
        for fetcher_id, of_fetcher in by_fetcher.items():
            self._running[fetcher_id].fetcher.unfollow(of_fetcher)
        removed = [name for of_fetcher in by_fetcher.values() for name in of_fetcher]
        if removed:
            shown = _first_of(
                [str(name.topic_partition) for name in removed[:_NAMES_SHOWN_MAX]], len(removed)
            )
            _log.info("%s Removed fetcher for partitions Set(%s)", self._prefix, shown)

    def _end_idle(self) -> None:
        for fetcher_id, running in list(self._running.items()):
            if not len(running.fetcher.followed):
                running.task.cancel()
                del self._running[fetcher_id]

    def fetch_last_tiered(self, is_enabled: bool) -> None:
        """Whether empty replicas begin after what is in the tier (KIP-1023), from now on."""
        self._config = self._config._replace(fetches_last_tiered=is_enabled)
        for running in self._running.values():
            running.fetcher.followed.use(self._config.follower_options)

    @property
    def fetchers(self) -> list[ReplicaFetcher]:
        """Those that have partitions to follow."""
        return [running.fetcher for running in self._running.values()]

    @property
    def max_lag(self) -> int:
        """The most records that any partition is behind its leader (MaxLag)."""
        return max(
            (running.fetcher.followed.max_lag for running in self._running.values()), default=0
        )

    @property
    def failed_count(self) -> int:
        """Partitions that wait for a new leader epoch after an error (FailedPartitionsCount)."""
        return sum(len(running.fetcher.followed.failed) for running in self._running.values())

    def leader_of(self, name: TopicIdPartition) -> int | None:
        """The broker that the partition is fetched from; None if it is not followed."""
        fetcher_id = self._where.get(name)
        return None if fetcher_id is None else fetcher_id.leader_id

    async def stop(self) -> None:
        """End all fetchers: from here on, no log changes."""
        self._is_stopped = True
        self._where.clear()
        self._running.clear()
        await self._tasks.stop()


def _first_of(texts: Sequence[str], count: int) -> str:
    """These texts, and how many more there are of `count`."""
    first, more = ", ".join(texts), count - len(texts)
    return f"{first}, and {more} more" if more > 0 else first

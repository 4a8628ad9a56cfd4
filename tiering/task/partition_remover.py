"""Removes the remote data of deleted partitions, and resumes removals that other brokers left.

`partition_removal.py` decides what to do, from the metadata alone; this module does it. It looks
for work when it starts, when this broker has marked a partition, and every
`remote.partition.remover.task.interval.ms`. A kill at any point loses nothing: an event is
published to the metadata topic before and after each step, each step is idempotent, and the next
broker that looks resumes at the first missing event. DELETE_SEGMENT_FINISHED is published after
the segment's objects are deleted. Then everything else under the partition's prefix is deleted too:
partial uploads that no metadata event names and, on a file system, the directory (KAFKA-15166). A
minute later this is done once more, for objects that arrived meanwhile; only then is
DELETE_PARTITION_FINISHED published.

Deletions are rate-limited, so that a topic of a million segments does not overload a store that
also serves reads. A step that fails is counted, and retried with back-off for as long as it takes;
one partition's failure does not affect others.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass

from ...clients.errors import KafkaError
from ...clients.runtime.backoff import Backoff
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from ..config import RemoteLogManagerConfig
from ..metadata.metadata_events import METADATA_TOPIC
from ..metadata.metadata_manager import PartitionWatcher, RemoteLogMetadataManager
from ..permits import Permits
from ..remote_storage import PartitionStorage, RemoteStorageError, RemoteStorageManager
from ..tier_access import ClusterTopics
from ..tier_statistics import TierStatistics
from .partition_removal import (
    LATE_UPLOAD_SECONDS,
    PartitionRemovals,
    Patience,
    Removal,
    RemovalStep,
)

_log = logging.getLogger(__name__)

_SEGMENT = RemoteLogSegmentState
_PARTITION = RemotePartitionDeleteState
_PARTITIONS_MAX = 100_000
_PARTITIONS_AT_ONCE = 8
_SEGMENTS_AT_ONCE = 8
_FIRST_LOOK_SECONDS = 1.0
_LOOK = "Look for deleted partitions"
_REMOVAL = "Removal of the remote data"
_UNPROVEN_LOGGED = 10


@dataclass(frozen=True, slots=True)
class RemoverTools:
    """Dependencies of the remover."""

    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    environment: Environment
    statistics: TierStatistics
    topics: ClusterTopics | None = None
    """None until the cluster's topics are known; no topic counts as deleted before that."""


class PartitionRemover:
    """Removes the remote data of deleted partitions."""

    def __init__(
        self,
        config: RemoteLogManagerConfig,
        tools: RemoverTools,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._config = config
        self._tools = tools
        self._supervisor = supervisor or Supervisor(tools.environment.random)
        # Half an interval, because two looks may be slightly less than one interval apart, and
        # the second look must already be able to act.
        half_seconds = config.remover_interval_ms / 2000
        patience = Patience(gone=min(Patience().gone, half_seconds), takeover=half_seconds)
        self._removals = PartitionRemovals(config.broker_id, patience)
        self._retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._tasks = TaskOwner(_PARTITIONS_MAX, self._on_failure)
        self._at_work: set[TopicIdPartition] = set()
        self._unproven: set[TopicIdPartition] = set()
        self._partitions = Permits(_PARTITIONS_AT_ONCE)
        self._segments = Permits(_SEGMENTS_AT_ONCE)
        self._next_deletion = 0.0
        self._woken = asyncio.Event()
        self._is_started = False

    def start(self) -> None:
        """Start looking for deleted partitions. Idempotent."""
        if not self._is_started:
            self._is_started = True
            self._tasks.start(self._run(), "partition remover")

    async def stop(self) -> None:
        """Stop; the next remover to look resumes the work. Idempotent."""
        self._is_started = False
        await self._tasks.stop()

    def wake(self) -> None:
        """Look now: a partition has been marked."""
        self._woken.set()

    async def _run(self) -> None:
        pause = _FIRST_LOOK_SECONDS
        while True:
            self._woken.clear()
            with self._supervisor.attempt(_LOOK):
                await self._look()
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                # After a start the metadata may take a while to load, so look often at first.
                pause = min(pause * 2, self._config.remover_interval_ms / 1000)

    async def _look(self) -> None:
        metadata, topics = self._tools.metadata, self._tools.topics
        if topics is not None and topics.has_metadata_topic():
            self._watch(topics.watched_partitions())
        remote_logs = [
            remote
            for remote in metadata.remote_logs()
            if metadata.is_ready(remote.topic_id_partition)
        ]
        if topics is not None:
            await topics.settle(
                {remote_log.topic_id_partition.topic_id for remote_log in remote_logs}
            )
            remote_logs = [
                remote_log
                for remote_log in remote_logs
                if metadata.is_ready(remote_log.topic_id_partition)
            ]
        for removal in self._removals.look(remote_logs, topics, asyncio.get_running_loop().time()):
            partition = removal.partition
            if partition not in self._at_work and len(self._tasks) < _PARTITIONS_MAX:
                self._at_work.add(partition)
                self._tasks.start(self._work(removal), f"remove {partition}")
        self._log_unproven()

    def _watch(self, partitions: Collection[int] | None) -> None:
        """Read these metadata partitions, None for all, and those of the removals at work."""
        metadata = self._tools.metadata
        if partitions is not None and isinstance(metadata, PartitionWatcher):
            metadata.watch(partitions, self._at_work)
        else:
            metadata.watch_all()

    def _log_unproven(self) -> None:
        unproven = self._removals.unproven
        for partition in sorted(unproven - self._unproven)[:_UNPROVEN_LOGGED]:
            _log.warning(
                "An event in %s marks %s as deleted, but the metadata log records no deletion "
                "of its topic: nothing is removed",
                METADATA_TOPIC,
                partition,
            )
        self._unproven = unproven

    def _on_failure(self, task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("Internal error in the task '%s'", task.get_name(), exc_info=failure)

    async def _work(self, removal: Removal) -> None:
        """Retry a removal until it succeeds or another broker takes over."""
        partition, supervisor = removal.partition, self._supervisor
        failures, is_done = 0, False
        try:
            while not is_done:
                with supervisor.attempt(_REMOVAL, partition):
                    try:
                        await self._remove_once(removal)
                        is_done = True
                    except (RemoteStorageError, KafkaError) as error:
                        failures += 1
                        level = logging.WARNING if failures == 1 else logging.DEBUG
                        _log.log(
                            level,
                            "Could not remove the remote data of %s, trying again: %s",
                            partition,
                            error,
                        )
                if not is_done:
                    unexpected = supervisor.pause_seconds(_REMOVAL, partition)
                    random = self._tools.environment.random
                    await asyncio.sleep(unexpected or self._retry.delay_seconds(failures, random))
        finally:
            supervisor.forget(_REMOVAL, partition)
            self._at_work.discard(partition)

    async def _remove_once(self, removal: Removal) -> None:
        """Remove a partition, unless another broker is doing it or has done it."""
        partition = removal.partition
        remote = self._tools.metadata.remote_log(partition)
        async with self._partitions:
            if removal.step is not RemovalStep.SWEEP and not await self._take(remote):
                return
            await self._empty(remote)
        await asyncio.sleep(LATE_UPLOAD_SECONDS)
        async with self._partitions:
            await self._empty(remote)
        if remote.partition_delete_state is not _PARTITION.DELETE_PARTITION_FINISHED:
            if remote.remover_id != self._config.broker_id:
                return
            await self._publish(partition, _PARTITION.DELETE_PARTITION_FINISHED)
            _log.info("Removed all remote data of %s", partition)
        self._tools.metadata.forget([partition])

    async def _empty(self, remote: RemoteLog) -> None:
        while segments := remote.segments():
            await self._delete_all(segments)
        await self._clear(remote.topic_id_partition)

    async def _clear(self, partition: TopicIdPartition) -> None:
        storage = self._tools.storage
        if isinstance(storage, PartitionStorage):
            await storage.delete_partition(partition)

    async def _take(self, remote: RemoteLog) -> bool:
        """Claim the removal for this broker; False if another broker is doing it or has done it."""
        partition, mine = remote.topic_id_partition, self._config.broker_id
        if remote.partition_delete_state is None:
            _log.warning("The topic of %s no longer exists: removing its remote data", partition)
            await self._publish(partition, _PARTITION.DELETE_PARTITION_MARKED)
            if remote.remover_id != mine:
                return False
        state = remote.partition_delete_state
        is_begun = state is _PARTITION.DELETE_PARTITION_STARTED and remote.remover_id == mine
        if not is_begun and state is not _PARTITION.DELETE_PARTITION_FINISHED:
            await self._publish(partition, _PARTITION.DELETE_PARTITION_STARTED)
        return remote.remover_id == mine

    async def _publish(
        self, partition: TopicIdPartition, state: RemotePartitionDeleteState
    ) -> None:
        await self._tools.metadata.publish(
            RemotePartitionDeleteMetadata(
                topic_id_partition=partition,
                state=state,
                event_timestamp_ms=self._tools.environment.wall_clock_ms(),
                broker_id=self._config.broker_id,
            )
        )

    async def _delete_all(self, segments: list[RemoteLogSegmentMetadata]) -> None:
        """Delete the segments, a few at once. Raises the first failure.

        A segment that cannot be deleted does not block the others; on a retriable error (the store
        or the metadata topic does not respond) the rest is not tried.
        """
        waiting = iter(segments)

        async def some() -> list[Exception]:
            failures: list[Exception] = []
            for segment in waiting:
                async with self._segments:
                    await self._pace()
                    try:
                        await self._delete(segment)
                    except (RemoteStorageError, KafkaError) as error:
                        self._tools.statistics.delete_failed(segment.topic_id_partition.topic)
                        failures.append(error)
                        if error.is_retriable:
                            break
            return failures

        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(some()) for _ in range(min(_SEGMENTS_AT_ONCE, len(segments)))
            ]
        for worker in workers:
            for failure in worker.result():
                raise failure

    async def _pace(self) -> None:
        loop = asyncio.get_running_loop()
        begins = max(loop.time(), self._next_deletion)
        self._next_deletion = begins + 1 / self._config.remover_segments_per_second
        await asyncio.sleep(begins - loop.time())

    async def _delete(self, segment: RemoteLogSegmentMetadata) -> None:
        tools, topic = self._tools, segment.topic_id_partition.topic
        if segment.state is not _SEGMENT.DELETE_SEGMENT_STARTED:
            segment = segment.updated(self._update(segment, _SEGMENT.DELETE_SEGMENT_STARTED))
            await tools.metadata.publish(self._update(segment, _SEGMENT.DELETE_SEGMENT_STARTED))
        tools.statistics.delete_began(topic)
        await tools.storage.delete_log_segment_data(segment)
        await tools.metadata.publish(self._update(segment, _SEGMENT.DELETE_SEGMENT_FINISHED))
        tools.statistics.deleted(topic)

    def _update(
        self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            segment_id=segment.segment_id,
            event_timestamp_ms=self._tools.environment.wall_clock_ms(),
            state=state,
            broker_id=self._config.broker_id,
        )

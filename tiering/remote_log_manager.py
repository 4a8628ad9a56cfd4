"""The entry point to everything that tiering does in a broker (KIP-405's `RemoteLogManager`).

    leadership changes --> copying of each partition that is led here      (copy_task.py)
                      |--> retention of both its tiers                     (expiration_task.py)
                      |--> following: what is in the tier decides what followers may
                      |    delete locally
                      \\-> removal, for partitions no longer tiered         (disabled_partition.py)
    deleted topics      --> removal of their partitions                    (partition_remover.py)
    remote reads, by offset and by time                                    (remote_reads.py)

Copying, expiration and following have separate pools, so that none waits for another's slow work
(partition_loop.py).

Nothing here fails because the tier is unreachable. The outage is logged once; copying and
expiration back off and retry; local data is served; a read of remote data fails with a retriable
error for its partition. Partitions are independent of each other: the number of concurrent tasks
is bounded, the number of partitions is not.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..clients.errors import KafkaError
from ..clients.kafka_uuid import Uuid
from ..clients.runtime.environment import Environment
from ..clients.runtime.supervisor import Supervisor
from ..clients.runtime.task_owner import TaskOwner
from ..clients.topic_partition import TopicIdPartition, TopicPartition
from ..storage.log.aux_state import AuxRequest, AuxState
from ..storage.log.fetch_data import RemoteRead, RemoteTimestampLookup
from ..storage.log.unified_log import UnifiedLog
from ..storage.remote.copied_offset import CopiedOffset
from ..storage.remote.remote_segment import (
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from ..storage.segment.time_index import TimestampAndOffset
from .config import RemoteLogManagerConfig
from .metadata.log_durability import LogDurability
from .metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from .owner_watch import OwnerWatch
from .permits import Permits
from .quota import ByteRateQuota
from .reading.remote_log_reader import RemoteFetchResult
from .reading.remote_reads import RemoteReads
from .remote_storage import Failure
from .task.copy_task import CopyTask, CopyTools
from .task.disabled_partition import DisabledPartition
from .task.expiration_task import ExpirationTask
from .task.leader_term import LeaderTerm, bounds_of, ready_remote_log
from .task.partition_loop import LoopTools, PartitionLoop, Work
from .task.partition_remover import PartitionRemover, RemoverTools
from .task.segment_deletion import SegmentDeletion
from .tier_access import TierAccess
from .tier_health import TierHealth
from .tier_statistics import TierStatistics

if TYPE_CHECKING:
    from .reading.remote_log_aux import RemoteLogAux

_log = logging.getLogger(__name__)

_TASKS_MAX = 400_000
_QUOTA_STEP_SECONDS = 1.0


class LeaderPartition(NamedTuple):
    """A tiered partition that this broker now leads."""

    topic_id_partition: TopicIdPartition
    leader_epoch: int


class _WaitingQuota:
    """The copy quota of the broker; waits in short steps, so that a new limit soon applies."""

    def __init__(self, quota: ByteRateQuota, statistics: TierStatistics) -> None:
        self.quota = quota
        self._statistics = statistics

    async def take(self, nbytes: int, is_wanted: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        has_waited = False
        while True:
            wait = self.quota.throttle_seconds(loop.time())
            if wait <= 0 or not is_wanted():
                break
            has_waited = True
            await asyncio.sleep(min(wait, _QUOTA_STEP_SECONDS))
        if has_waited:
            self._statistics.copy_throttled(loop.time() - began)
        if not is_wanted():
            return False
        self.quota.record(nbytes, loop.time())
        return True


class RemoteLogManager:
    """See the top of this file."""

    def __init__(
        self,
        config: RemoteLogManagerConfig,
        access: TierAccess,
        environment: Environment,
        log_of: Callable[[TopicPartition], UnifiedLog | None],
        supervisor: Supervisor | None = None,
    ) -> None:
        supervisor = supervisor or Supervisor(environment.random)
        self._supervisor = supervisor
        self._config = config
        self._access = access
        self._environment = environment
        self._log_of = log_of
        self.statistics = TierStatistics()
        self._remover = PartitionRemover(
            config,
            RemoverTools(
                access.storage, access.metadata, environment, self.statistics, access.topics
            ),
            supervisor,
        )
        self.copy_quota = ByteRateQuota(
            config.copy_max_bytes_per_second,
            config.copy_quota_samples,
            config.copy_quota_sample_seconds,
        )
        self.reads = RemoteReads(config, access, self.statistics, log_of)
        self._copiers = Permits(config.copier_threads)
        self._expirers = Permits(config.expiration_threads)
        self._learners = Permits(config.follower_threads)
        self._health = TierHealth()
        self._owner_watch = OwnerWatch(access.storage, self._health)
        self._is_watching = False
        self._loop_tools = LoopTools(config, environment, self._health, supervisor)
        self._deletion = SegmentDeletion(
            broker_id=config.broker_id,
            storage=access.storage,
            metadata=access.metadata,
            environment=environment,
            statistics=self.statistics,
            forget=self.reads.forget_segment,
        )
        self._copy_tools = CopyTools(
            deletion=self._deletion,
            storage=self._deletion.storage,
            metadata=self._deletion.metadata,
            environment=self._deletion.environment,
            statistics=self.statistics,
            files=access.files,
            pool=access.pool,
            quota=_WaitingQuota(self.copy_quota, self.statistics),
            custom_metadata_max_bytes=config.custom_metadata_max_bytes,
            durability=LogDurability(access.pool),
        )
        self._tasks = TaskOwner(_TASKS_MAX, self._task_failed)
        self._terms: dict[TopicIdPartition, LeaderTerm] = {}
        self._disabled: dict[TopicIdPartition, LeaderTerm] = {}
        """Partitions led here whose remote data is being removed."""
        self._followed: dict[TopicIdPartition, asyncio.Task[None] | None] = {}
        self._aux: RemoteLogAux | None = None
        """Made once a follower needs it, which the only broker of a cluster never does."""
        self._is_started = False

    @property
    def tier_trouble(self) -> str:
        """What is wrong with the tier, in a sentence; empty while it works.

        The store may answer while readers meet damage: that is trouble, too.
        """
        return self._health.trouble or self.reads.trouble

    @property
    def tier_failure(self) -> Failure | None:
        """The kind of that trouble; None while the tier works."""
        return self._health.failure

    def copied_share(self, segment_id: Uuid) -> float | None:
        """The share of a segment that was handed to the store; None if it is not being copied."""
        return self._copy_tools.in_flight.share(segment_id)

    @property
    def metadata_records_skipped(self) -> int:
        """Metadata topic records that could not be understood; 0 with a plugin."""
        metadata = self._access.metadata
        if isinstance(metadata, TopicBasedRemoteLogMetadataManager):
            return metadata.skipped.count
        return 0

    @property
    def idle_share(self) -> float:
        """The share of copiers that have nothing to copy, from 0 to 1."""
        return self._copiers.idle_share

    def limit(self, limits: RemoteLogManagerConfig) -> None:
        """Apply new rates, thread counts and index cache size from now on.

        All other settings need a restart, as in Kafka.
        """
        self.copy_quota.bytes_per_second = limits.copy_max_bytes_per_second
        if limits.threads != self._copiers.limit + self._expirers.limit + self.reads.threads:
            self._access.pool.resize(limits.threads)
        self._copiers.limit = limits.copier_threads
        self._expirers.limit = limits.expiration_threads
        self._learners.limit = limits.follower_threads
        self.reads.limit(limits)
        resized = self.reads.resize_index_cache(limits.index_cache_bytes)
        self._tasks.start(resized, "index cache size")

    async def start(self) -> None:
        """Start working. Never fails, and never waits for the tier."""
        await self._access.metadata.start()
        await self.reads.start()
        # Set only after the awaits: a partition led meanwhile would otherwise be started twice.
        self._is_started = True
        self._remover.start()
        for term in self._terms.values():
            self._begin(term)
        for term in self._disabled.values():
            self._begin_removal(term)
        for partition in self._followed:
            self._begin_following(partition)

    async def stop(self) -> None:
        """Stop. Unfinished copies are cleaned up after the next start. Idempotent."""
        self._is_started = self._is_watching = False
        for term in (*self._terms.values(), *self._disabled.values()):
            term.end()
        self._terms.clear()
        self._disabled.clear()
        self._followed.clear()
        await self._tasks.stop()
        await self._remover.stop()
        await self.reads.stop()
        await self._access.metadata.stop()
        await self._access.storage.close()
        self._access.pool.stop()

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        """Lead or follow these tiered partitions from now on.

        A partition that is already led in this epoch is passed again when its configuration
        changes: its loops are woken.
        """
        begun = [leader for leader in leaders if not self._is_at_work(leader)]
        self._access.metadata.assign([*(leader.topic_id_partition for leader in begun), *followers])
        for partition in followers:
            self._leave(partition)
            self._attach(partition)
            self._followed[partition] = None
            if self._is_started:
                self._begin_following(partition)
        for leader in leaders:
            if leader not in begun:
                self._terms[leader.topic_id_partition].wake()
        for partition, leader_epoch in begun:
            self._leave(partition)
            self._attach(partition)
            term = self._terms[partition] = LeaderTerm(partition, leader_epoch, self._log_of)
            if self._is_started:
                self._begin(term)

    def _is_at_work(self, leader: LeaderPartition) -> bool:
        """Whether the partition is already led in this epoch, and all its loops are running."""
        term = self._terms.get(leader.topic_id_partition)
        is_same = term is not None and term.leader_epoch == leader.leader_epoch
        return term is not None and is_same and term.is_at_work

    def on_tiering_disabled(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        """Stop tiering these partitions and delete their remote data (KIP-950).

        Before anything is deleted, the log start of each moves to its local log start; the leader
        removes the remote data. A repeated call continues the work of an earlier leader.
        """
        for partition in (*followers, *(leader.topic_id_partition for leader in leaders)):
            self._leave(partition)
            self._forget_reads(partition)
            self._begin_at_local_start(partition)
        self._access.metadata.forget(followers)
        self._access.metadata.assign([leader.topic_id_partition for leader in leaders])
        for partition, leader_epoch in leaders:
            term = self._disabled[partition] = LeaderTerm(partition, leader_epoch, self._log_of)
            if self._is_started:
                self._begin_removal(term)

    async def run_now(self, partition: TopicPartition) -> None:
        """Let all loops of a partition that is led here do a whole round, at once.

        A round that fails counts as well: the tier may be unreachable. Returns at once for a
        partition that is not led here, or not tiered.
        """
        for topic_id_partition, term in self._terms.items():
            if topic_id_partition.topic_partition == partition:
                await term.run_round()
                return

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        """Drop partitions that left this broker; with `delete`, also their remote data.

        The leader marks the partition as deleted in the metadata topic; after that any broker can
        remove the objects at any time.
        """
        for partition in partitions:
            led = partition in self._terms or partition in self._disabled
            if not led and partition not in self._followed:
                continue
            self._leave(partition)
            log = self._log(partition)
            if log is not None:
                log.remote = None
            self._forget_reads(partition)
            if delete and led and self._is_started:
                # If this broker goes down before the event is written, another one writes it.
                self._tasks.start(self._mark_deleted(partition), f"delete {partition}")
            else:
                self._access.metadata.forget([partition])

    def _log(self, partition: TopicIdPartition) -> UnifiedLog | None:
        log = self._log_of(partition.topic_partition)
        return log if log is not None and log.topic_id == partition.topic_id else None

    def _attach(self, partition: TopicIdPartition) -> None:
        log = self._log(partition)
        if log is not None:
            log.remote = self._access.metadata.remote_log(partition)
            # Offsets copied in an earlier term may since have been truncated and rewritten:
            # nothing local may be deleted because of them (KAFKA-20732).
            log.bounds.forget_highest_remote()

    def _begin_at_local_start(self, partition: TopicIdPartition) -> None:
        log = self._log(partition)
        if log is None:
            return
        log.remote = None
        log.bounds.update_highest_remote(-1)
        try:
            log.maybe_increment_log_start_offset(log.local_log_start_offset)
        except KafkaError as error:
            _log.error("Could not advance the log start offset of %s: %s", partition, error)

    def _forget_reads(self, partition: TopicIdPartition) -> None:
        segments = self._access.metadata.remote_log(partition).segments()
        self.reads.forget(partition, [segment.id for segment in segments])

    def _leave(self, partition: TopicIdPartition) -> None:
        """End all work for the partition."""
        for terms in (self._terms, self._disabled):
            term = terms.pop(partition, None)
            if term is not None:
                term.end()
                self.statistics.forget(partition.topic_partition)
        following = self._followed.pop(partition, None)
        if following is not None:
            following.cancel()

    async def _mark_deleted(self, partition: TopicIdPartition) -> None:
        event = RemotePartitionDeleteMetadata(
            topic_id_partition=partition,
            state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
            event_timestamp_ms=self._environment.wall_clock_ms(),
            broker_id=self._config.broker_id,
        )
        failures, is_marked = 0, False
        while not is_marked:
            with self._supervisor.attempt("Marking as deleted", partition):
                failures += 1
                try:
                    await self._access.metadata.publish(event)
                    is_marked = True
                except KafkaError as error:
                    _log.info(
                        "Could not mark %s as deleted in the remote log metadata, trying again: %s",
                        partition,
                        error,
                    )
            if not is_marked:
                await asyncio.sleep(self._loop_tools.pause_seconds(failures))
        self._remover.wake()

    def _begin(self, term: LeaderTerm) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._tasks.start(self._owner_watch.run(), "look at the tier's owner")
        copying = CopyTask(self._copy_tools, term)
        expiration = ExpirationTask(self._deletion, term)

        self._start_loop(term, "Copying", self._copiers, copying.run_once)
        self._start_loop(term, "Expiration", self._expirers, expiration.run_once)

    def _begin_removal(self, term: LeaderTerm) -> None:
        removal = DisabledPartition(self._deletion, term)

        async def remove() -> int | None:
            left = await removal.run_once()
            if left is None and self._disabled.get(term.partition) is term:
                del self._disabled[term.partition]
            return left

        self._start_loop(term, "Removal of the remote data", self._expirers, remove)

    def _start_loop(self, term: LeaderTerm, task: str, pool: Permits, work: Work) -> None:
        partition = term.partition.topic_partition
        loop = PartitionLoop(task, partition, pool, work, self._loop_tools)
        term.loops.append(loop)
        term.tasks.append(self._tasks.start(loop.run(), loop.name))

    def _begin_following(self, partition: TopicIdPartition) -> None:
        """Learn from the metadata what is in the tier, and so what a follower may delete."""

        copied = CopiedOffset(self._access.metadata.remote_log(partition))

        async def update_offset() -> int:
            self._learn_copied_offset(partition, copied)
            return 0

        name = partition.topic_partition
        loop = PartitionLoop("Following", name, self._learners, update_offset, self._loop_tools)
        self._followed[partition] = self._tasks.start(loop.run(), loop.name)

    def _learn_copied_offset(self, partition: TopicIdPartition, copied: CopiedOffset) -> None:
        log = self._log(partition)
        if log is not None and log.is_tiered:
            ready_remote_log(self._access.metadata, partition)
            history = log.leader_epochs.entries
            log.bounds.update_highest_remote(copied.of(history, bounds_of(log)))

    def _task_failed(self, task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("Internal error in the task '%s'", task.get_name(), exc_info=failure)

    @property
    def is_fetch_throttled(self) -> bool:
        """Whether remote fetches currently exceed their quota (KIP-956)."""
        return self.reads.is_throttled

    async def read(self, remote_read: RemoteRead) -> RemoteFetchResult:
        """The batches that a fetch wants from the tier. Raises KafkaError."""
        return await self.reads.read(remote_read)

    async def fetch_aux(self, request: AuxRequest) -> AuxState:
        """A follower's state after a remote segment. Raises RemoteStorageError."""
        if self._aux is None:
            from .reading.remote_log_aux import RemoteLogAux

            access = self._access
            self._aux = RemoteLogAux(access.storage, access.metadata, self.statistics)
        return await self._aux.fetch(request)

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        """The first record at or after a timestamp, tier first. Raises KafkaError."""
        return await self.reads.offset_for_timestamp(lookup)

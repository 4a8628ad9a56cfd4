"""Everything that tiering does in a broker, behind one door (KIP-405's `RemoteLogManager`).

    leadership changes --> one copy loop per partition that is led here   (copy_task.py)
                      \\-> one look now and then at partitions that are followed: what is in the
                           tier decides what they may delete locally
    remote reads, by offset and by time                             (remote_reads.py)

Nothing here fails because the tier is unreachable. It is said once, in plain words; copying backs
off and goes on; local data is served; a read of remote data is a retriable error of its partition.
Each partition's copying is independent of the others': how many segments travel at once is bounded,
who may try is not.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..clients.environment import Environment
from ..clients.errors import KafkaError
from ..clients.task_owner import TaskOwner
from ..clients.topic_partition import TopicIdPartition, TopicPartition
from ..storage.fetch_data import RemoteRead, RemoteTimestampLookup, TimestampAndOffset
from ..storage.index import CorruptIndexError
from ..storage.remote_lineage import copied_up_to
from ..storage.remote_segment import RemotePartitionDeleteMetadata, RemotePartitionDeleteState
from ..storage.unified_log import UnifiedLog
from .config import RemoteLogManagerConfig
from .copy_task import CopyCancelledError, CopyTask, CopyTools, bounds_of
from .partition_remover import PartitionRemover, RemoverTools
from .permits import Permits
from .quota import ByteRateQuota
from .remote_log_reader import RemoteFetchResult
from .remote_reads import RemoteReads
from .remote_storage import RemoteStorageError
from .tier_access import TierAccess
from .tier_statistics import TierStatistics

_log = logging.getLogger(__name__)

_PARTITIONS_MAX = 100_000
_QUOTA_STEP_SECONDS = 1.0
_DOUBLINGS_MAX = 32


class LeaderPartition(NamedTuple):
    """A tiered partition that this broker has come to lead."""

    topic_id_partition: TopicIdPartition
    leader_epoch: int


class _Term:
    """One term of leadership of one partition."""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.is_current = True
        self.task: asyncio.Task[None] | None = None

    def end(self) -> None:
        self.is_current = False
        if self.task is not None:
            self.task.cancel()


class _WaitingQuota:
    """The copy quota of the broker; waits in short steps, so that a new limit is soon felt."""

    def __init__(self, quota: ByteRateQuota) -> None:
        self.quota = quota

    async def take(self, nbytes: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait = self.quota.throttle_seconds(loop.time())
            if wait <= 0:
                break
            await asyncio.sleep(min(wait, _QUOTA_STEP_SECONDS))
        self.quota.record(nbytes, loop.time())


class RemoteLogManager:
    """See the top of this file."""

    def __init__(
        self,
        config: RemoteLogManagerConfig,
        access: TierAccess,
        environment: Environment,
        log_of: Callable[[TopicPartition], UnifiedLog | None],
    ) -> None:
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
        )
        self.copy_quota = ByteRateQuota(
            config.copy_max_bytes_per_second,
            config.copy_quota_samples,
            config.copy_quota_sample_seconds,
        )
        self.reads = RemoteReads(config, access, self.statistics, log_of)
        self._copiers = Permits(config.copier_threads)
        self._copy_tools = CopyTools(
            broker_id=config.broker_id,
            storage=access.storage,
            metadata=access.metadata,
            environment=environment,
            files=access.files,
            pool=access.pool,
            quota=_WaitingQuota(self.copy_quota),
            statistics=self.statistics,
            custom_metadata_max_bytes=config.custom_metadata_max_bytes,
        )
        self._tasks = TaskOwner(_PARTITIONS_MAX, self._task_failed)
        self._terms: dict[TopicIdPartition, _Term] = {}
        self._followed: set[TopicIdPartition] = set()
        self._is_started = False
        self._tier_trouble = ""

    @property
    def tier_trouble(self) -> str:
        """What is wrong with the tier, in a sentence; empty while it works."""
        return self._tier_trouble

    @property
    def idle_share(self) -> float:
        """How many of the copiers have nothing to copy, from 0 to 1."""
        return self._copiers.idle_share

    def limit(self, limits: RemoteLogManagerConfig) -> None:
        """Let the rates, the numbers of threads and the size of the index cache hold from now on.

        Whatever else these settings say takes a restart, as in Kafka.
        """
        self.copy_quota.bytes_per_second = limits.copy_max_bytes_per_second
        if limits.threads != self._copiers.limit + self.reads.threads:
            self._access.pool.resize(limits.threads)
        self._copiers.limit = limits.copier_threads
        self.reads.limit(limits)
        resized = self.reads.resize_index_cache(limits.index_cache_bytes)
        self._tasks.start(resized, "index cache size")

    async def start(self) -> None:
        """Begin to work. Never fails, and never waits for the tier."""
        self._is_started = True
        await self._access.metadata.start()
        await self.reads.start()
        self._remover.start()
        self._tasks.start(self._follow(), "follower partitions")
        for partition, term in self._terms.items():
            self._begin(partition, term)

    async def stop(self) -> None:
        """Stop. What is half copied is cleaned up after the next start. Idempotent."""
        self._is_started = False
        for term in self._terms.values():
            term.end()
        self._terms.clear()
        await self._tasks.stop()
        await self._remover.stop()
        await self.reads.stop()
        await self._access.metadata.stop()
        await self._access.storage.close()
        self._access.pool.stop()

    # -- Leadership ---------------------------------------------------------------------------

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        """Lead or follow these tiered partitions from now on."""
        self._access.metadata.assign(
            [*(leader.topic_id_partition for leader in leaders), *followers]
        )
        for partition in followers:
            self._end_term(partition)
            self._followed.add(partition)
            self._attach(partition)
        for partition, leader_epoch in leaders:
            self._followed.discard(partition)
            term = self._terms.get(partition)
            if term is not None and term.leader_epoch == leader_epoch and _is_at_work(term):
                continue
            self._end_term(partition)
            self._attach(partition)
            term = self._terms[partition] = _Term(leader_epoch)
            if self._is_started:
                self._begin(partition, term)

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        """These are no longer here. With `delete` their topic is gone, and so shall its data be.

        The leader marks the partition in the metadata topic: the removal of the objects can then
        be taken up by any broker at any time.
        """
        for partition in partitions:
            led = partition in self._terms
            if not led and partition not in self._followed:
                continue
            self._end_term(partition)
            self._followed.discard(partition)
            log = self._log_of(partition.topic_partition)
            if log is not None and log.topic_id == partition.topic_id:
                log.remote = None
            segments = self._access.metadata.remote_log(partition).segments()
            self.reads.forget(partition, [segment.id for segment in segments])
            if delete and led and self._is_started:
                # A leader that goes down between here and the event leaves the objects to a scrub.
                self._tasks.start(self._mark_deleted(partition), f"delete {partition}")

    def _attach(self, partition: TopicIdPartition) -> None:
        log = self._log_of(partition.topic_partition)
        if log is not None and log.topic_id == partition.topic_id:
            log.remote = self._access.metadata.remote_log(partition)
            # What was copied in an earlier term may since have been truncated away and written
            # anew: nothing local may go on the strength of it (KAFKA-20732).
            log.update_highest_remote_offset(-1)

    def _end_term(self, partition: TopicIdPartition) -> None:
        term = self._terms.pop(partition, None)
        if term is not None:
            term.end()

    async def _mark_deleted(self, partition: TopicIdPartition) -> None:
        event = RemotePartitionDeleteMetadata(
            topic_id_partition=partition,
            state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
            event_timestamp_ms=self._environment.wall_clock_ms(),
            broker_id=self._config.broker_id,
        )
        failures = 0
        while True:
            try:
                await self._access.metadata.publish(event)
                self._remover.wake()
                return
            except KafkaError as error:
                failures += 1
                _log.info("Marking %s as deleted failed, trying again: %s", partition, error)
                await asyncio.sleep(self._pause(failures))

    # -- Copying ------------------------------------------------------------------------------

    def _begin(self, partition: TopicIdPartition, term: _Term) -> None:
        term.task = self._tasks.start(self._copy_loop(partition, term), f"copy {partition}")

    async def _copy_loop(self, partition: TopicIdPartition, term: _Term) -> None:
        def log_of() -> UnifiedLog | None:
            return self._log_of(partition.topic_partition)

        task = CopyTask(self._copy_tools, partition, log_of, lambda: term.is_current)
        failures = 0
        while term.is_current:
            try:
                async with self._copiers:
                    copied = await task.run_once()
                failures = 0
                if copied:
                    self._tier_works()
                pause = self._config.task_interval_ms / 1000
            except CopyCancelledError as error:
                _log.error("%s", error)
                return
            except (RemoteStorageError, KafkaError, CorruptIndexError, OSError) as error:
                failures += 1
                self._copy_failed(partition, error, failures)
                pause = self._pause(failures)
            await asyncio.sleep(pause)

    def _copy_failed(self, partition: TopicIdPartition, error: Exception, failures: int) -> None:
        if isinstance(error, RemoteStorageError):
            self._tier_fails(error)
        elif isinstance(error, KafkaError) and error.is_retriable:
            _log.debug("Copying %s is not possible yet: %s", partition.topic_partition, error)
        elif failures == 1:
            _log.error("Copying %s failed, trying again: %s", partition.topic_partition, error)

    def _pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row: doubling, bounded, then jittered."""
        config = self._config
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        delay_ms = min(config.retry_backoff_ms << doublings, config.retry_backoff_max_ms)
        jitter = self._environment.random.uniform(1 - config.retry_jitter, 1 + config.retry_jitter)
        return delay_ms * jitter / 1000

    def _tier_fails(self, error: RemoteStorageError) -> None:
        if not self._tier_trouble:
            _log.warning(
                "%s. Local data is served, nothing is deleted that is not in the tier, "
                "and copying is tried again.",
                error,
            )
        self._tier_trouble = str(error)

    def _tier_works(self) -> None:
        if self._tier_trouble:
            _log.warning("The remote tier works again")
            self._tier_trouble = ""

    def _task_failed(self, task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("%s failed", task.get_name(), exc_info=failure)

    # -- Following ----------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Followers learn from the metadata what is in the tier, and so what they may delete."""
        while True:
            for partition in list(self._followed):
                self._learn_copied_offset(partition)
                await asyncio.sleep(0)
            await asyncio.sleep(self._config.task_interval_ms / 1000)

    def _learn_copied_offset(self, partition: TopicIdPartition) -> None:
        log = self._log_of(partition.topic_partition)
        if log is None or log.topic_id != partition.topic_id:
            return
        metadata = self._access.metadata
        if metadata.is_ready(partition):
            remote, history = metadata.remote_log(partition), log.leader_epochs.entries
            log.update_highest_remote_offset(copied_up_to(remote, history, bounds_of(log)))

    # -- Reading ------------------------------------------------------------------------------

    @property
    def is_fetch_throttled(self) -> bool:
        """Whether remote fetches have exceeded their quota at the moment (KIP-956)."""
        return self.reads.is_throttled

    async def read(self, remote_read: RemoteRead) -> RemoteFetchResult:
        """The batches that a fetch wants from the tier. Raises KafkaError."""
        return await self.reads.read(remote_read)

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        """The first record of a log that is as young, tier first. Raises KafkaError."""
        return await self.reads.offset_for_timestamp(lookup)


def _is_at_work(term: _Term) -> bool:
    return term.task is not None and not term.task.done()

"""The partitions of this broker, and the client requests on them (`ReplicaManager`).

The cluster image lists the partitions with a replica here and their leaders; `publish` applies it.
Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords are handled and answered
partition by partition: an error of one partition never affects another.

Rules:

- an append or a fetch that need not wait is answered in the same call, without a future or a task;
- whatever may complete a waiting operation (an append, a new high watermark, a change of leader)
  reaches the purgatories before the call that caused it returns;
- a partition that has left this broker is removed before its log is deleted, so nothing can be
  written to a log that is being deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.turns import in_turns
from ...clients.topic_partition import TopicPartition
from ...storage.directory.log_dir import LogDir
from ...storage.log.append_result import RecordValidationError
from ...storage.log.fetch_data import FetchIsolation
from ...storage.log.log_validator import may_take_long
from ...storage.manager.log_manager import LogManager
from ...storage.producer.producer_entry import AppendOrigin
from ..metadata.cluster_image import ClusterDelta, ClusterImage
from ..metadata.replica_epoch import ReplicaEpoch
from ..partition.append_data import ACKS_ALL, AppendEntry, AppendRequest
from ..partition.fetch_data import (
    CurrentLeader,
    EpochEndOffset,
    FetchPartition,
)
from ..partition.partition import Partition, PartitionEvent, PartitionRole
from ..purgatory.purgatory import DelayedOperation, Purgatory
from ..remote_tier import RemoteTier
from .awaited_watermark import AwaitedWatermark, UnsettledAppend
from .delayed_list_offsets import OffsetListing, OffsetResults
from .delayed_replication import DelayedReplication, ResultT, Unreplicated
from .delete_records import (
    DelayedDeleteRecords,
    DeleteRecordsResult,
    UnsettledDeletion,
    check_is_not_tier_metadata,
    delete_records_of,
)
from .hosted_partitions import (
    HostedConfig,
    HostedPartitions,
    LeadershipListener,
    RoleReceivers,
)
from .leader_fetch import LeaderFetch
from .log_reader import LogReader
from .offset_lookup import OffsetQuery
from .replica_directories import MoveTools
from .replica_movement import ReplicaMovement

if TYPE_CHECKING:
    from ...clients.record.batch import RecordBatch
    from ..follower.replica_fetchers import ReplicaFetchers
    from ..throttled_replicas import ThrottledReplicas
    from .isr_sender import IsrSender
    from .replica_selection import RackAwareSelection

_log = logging.getLogger(__name__)

AppendResults = list[AppendEntry]
DeletionResults = list[DeleteRecordsResult]


@dataclass(frozen=True, slots=True)
class ReplicaManagerConfig:
    """The node's settings for its replicas. Times in milliseconds."""

    node_id: int
    replica_lag_time_max_ms: int = 30_000
    remote_fetch_max_wait_ms: int = 500
    remote_list_offsets_timeout_ms: int = 30_000


class PartitionsHere(NamedTuple):
    """What the replica peers need from the partitions of this broker."""

    all: Callable[[], list[Partition]]
    on_high_watermark: Callable[[TopicPartition], None]
    """A follower's high watermark has moved."""
    complete_replicated: Callable[[Partition], None]
    """The high watermark of a partition led here may have moved."""


class ReplicaPeers(NamedTuple):
    """What keeps the replicas here in step with those of other brokers."""

    fetchers: "ReplicaFetchers | None" = None
    """Follow the leaders of other brokers."""
    isr_sender: "IsrSender | None" = None
    """Asks the controller to change ISRs."""


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """The optional parts that a broker's replicas work with besides their logs; None where
    absent."""

    remote_tier: RemoteTier | None = None
    is_metadata_writer: Callable[[str | None], bool] | None = None
    """Whether a client id may write to the tier's metadata topic; None allows any."""
    move_tools: MoveTools | None = None
    """Moves replicas between log directories."""
    selection: "RackAwareSelection | None" = None
    """Chooses the replica that a consumer should read from (KIP-392); None: always the leader."""
    throttle: "ThrottledReplicas | None" = None
    """Keeps the followers of this broker's partitions within the leaders' quota (KIP-73)."""
    peers: Callable[[PartitionsHere], ReplicaPeers] | None = None
    """Creates the replica peers; None for a broker that is alone."""


_ALONE = ReplicaParts()

# Python 3.11 takes 0.1 µs to look up an enum member, and this runs for every batch.
_NONE = ErrorCode.NONE

_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors returned without the log start offset (`ReplicaManager.appendToLocalLog`)."""


class ReplicaManager:
    """Serves the partitions that have a replica on this broker."""

    def __init__(
        self,
        config: ReplicaManagerConfig,
        environment: Environment,
        log_manager: LogManager,
        image: Callable[[], ClusterImage],
        parts: ReplicaParts = _ALONE,
        supervisor: Supervisor | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._environment = environment
        self._image = image
        self._loop = loop
        remote_tier = self._remote_tier = parts.remote_tier
        self._is_metadata_writer = parts.is_metadata_writer
        self.peers: ReplicaPeers | None = None
        if parts.peers is not None:
            self.peers = parts.peers(
                PartitionsHere(
                    lambda: list(self._partitions.values()),
                    self.on_high_watermark,
                    self.complete_replicated,
                )
            )
        self._isr_sender = None if self.peers is None else self.peers.isr_sender
        self._hosted = HostedPartitions(
            HostedConfig(config.node_id, config.replica_lag_time_max_ms),
            environment,
            log_manager,
            RoleReceivers(remote_tier, None if self.peers is None else self.peers.fetchers),
            self._complete_after_role_change,
            supervisor or Supervisor(environment.random),
            lambda broker_id: self._image().brokers.get(broker_id),
        )
        # The same dict that `publish` updates, so that each batch needs only one look-up.
        self._partitions = self._hosted.by_name
        self._reader = LogReader(
            self.partition,
            self._current_leader,
            self._on_follower_fetch,
            lambda: remote_tier is not None and remote_tier.is_fetch_throttled,
            parts.selection,
            parts.throttle,
        )
        self.leader_fetch = LeaderFetch(
            self._reader, loop, remote_tier, config.remote_fetch_max_wait_ms
        )
        """Serves fetches of consumers and followers."""
        self.long_work = asyncio.Lock()
        """Held during each part of long work on the event loop, and the pause after it."""
        self._produce_purgatory: Purgatory[DelayedOperation] = Purgatory("Produce", loop)
        self._delete_purgatory: Purgatory[DelayedDeleteRecords] = Purgatory("DeleteRecords", loop)
        self._offsets = OffsetListing(
            self.partition,
            self._current_leader,
            remote_tier,
            config.remote_list_offsets_timeout_ms,
        )
        self._movement: ReplicaMovement | None = None
        if parts.move_tools is not None:
            self._movement = ReplicaMovement(
                self._hosted, parts.move_tools, log_manager, environment
            )
            self._hosted.mover = self._movement

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The partitions that have a replica here."""
        return MappingProxyType(self._partitions)

    @property
    def purgatories(self) -> Sequence[Purgatory[Any]]:
        """The purgatories of every kind of operation."""
        fetch = self.leader_fetch
        return (
            self._produce_purgatory,
            fetch.purgatory,
            fetch.remote_purgatory,
            self._delete_purgatory,
            self._offsets.purgatory,
        )

    @property
    def expired_offset_searches(self) -> Mapping[TopicPartition, int]:
        """How many remote offset searches timed out, by partition."""
        return self._offsets.expired

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The hosted partition.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if it isn't on this
        broker, KAFKA_STORAGE_ERROR.
        """
        hosted = self._partitions.get(topic_partition)
        if hosted is not None:
            return hosted
        if topic_partition in self._hosted.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic_partition} cannot be opened."
            )
        image = self._image().partition(topic_partition.topic, topic_partition.partition)
        if image is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"There is no partition {topic_partition}.",
            )
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker has no replica of {topic_partition}."
        )

    def set_remote_timeouts(self, max_wait_ms: int, list_offsets_timeout_ms: int) -> None:
        """Set the timeouts of remote fetches and of remote offset searches."""
        self.leader_fetch.remote_fetch_max_wait_ms = max_wait_ms
        self._offsets.timeout_ms = list_offsets_timeout_ms

    def listen(self, topic: str, listener: LeadershipListener) -> None:
        """Notify `listener` of this broker's leaderships in the topic, current and later ones."""
        self._hosted.listen(topic, listener)

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply the image to the partitions here (a listener of the controller)."""
        self._hosted.publish(image, delta)

    def alter_replica_log_dirs(
        self, destinations: Mapping[TopicPartition, str]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Move replicas to these directories of this broker; return an error code for each."""
        assert self._movement is not None
        return {
            name: self._movement.alter(name, path, self.partition)
            for name, path in destinations.items()
        }

    def limit_moves(self, bytes_per_second: int) -> None:
        """Set the rate limit of moves between log directories."""
        if self._movement is not None:
            self._movement.limit(bytes_per_second)

    def on_log_dir_failure(self, log_dir: LogDir) -> None:
        """Take every partition in the directory offline (a listener of the log manager)."""
        if self._movement is not None:
            self._movement.on_log_dir_failure(log_dir)
        failed = [each for each in self._partitions.values() if each.log.log_dir is log_dir]
        self._hosted.on_log_dir_failure(failed)
        for partition in failed:
            partition.apply(PartitionEvent.FAIL)
            self._complete_after_role_change(partition)

    def append_records(
        self, request: AppendRequest
    ) -> "AppendResults | asyncio.Future[AppendResults]":
        """Append to each partition at once; return a future only to wait for followers.

        The results are the entries of the request.
        """
        entries = request.entries
        if request.acks not in (-1, 0, 1):
            for entry in entries:
                entry.refuse(ErrorCode.INVALID_REQUIRED_ACKS)
            return entries
        now_ms = self._environment.wall_clock_ms()
        unsettled: list[UnsettledAppend] = []
        for entry in entries:
            self._append(entry, request, now_ms, unsettled)
        if unsettled:
            waiting = self._produce_purgatory
            return self._wait_for_followers(waiting, request.timeout_ms, entries, unsettled)
        return entries

    def when_replicated(
        self, name: TopicPartition, offset: int, timeout_ms: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """NONE once the high watermark of a partition led here has reached `offset`.

        NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR or UNKNOWN_TOPIC_OR_PARTITION if it is not led
        here any more, REQUEST_TIMED_OUT after `timeout_ms`.
        """
        try:
            partition = self.partition(name)
        except KafkaError as error:
            return error.code
        if partition.is_leader and partition.log.high_watermark >= offset:
            return _NONE
        answer: asyncio.Future[ErrorCode] = self._loop.create_future()

        def respond(error: ErrorCode) -> None:
            if not answer.done():
                answer.set_result(error)

        awaited = AwaitedWatermark(timeout_ms, partition, offset, respond)
        if self._produce_purgatory.try_complete_else_watch(awaited, [partition]):
            return answer.result()
        answer.add_done_callback(lambda _: awaited.force_complete())
        return answer

    def needs_long_check(self, entry: AppendEntry) -> bool:
        """Whether checking the entry's records may block the event loop for too long."""
        return may_take_long(entry.records) and self._long_check(entry) is not None

    def _long_check(self, entry: AppendEntry) -> "Generator[None, None, RecordBatch] | None":
        partition = self._partitions.get(entry.topic_partition)
        if partition is None or partition.role is not PartitionRole.LEADER:
            return None
        try:
            return partition.log.long_check(entry.records, self._environment.wall_clock_ms())
        except KafkaError:
            # The append will return the error.
            return None

    async def check_in_steps(self, entry: AppendEntry) -> None:
        """Check the entry's records, with pauses; only one entry is checked at a time.

        The entry must own its records: they may be changed, and are still read after each pause.
        """
        async with self.long_work:
            steps = self._long_check(entry)
            if steps is None:
                return
            config = self.partition(entry.topic_partition).log.config
            try:
                entry.records = (await in_turns(steps)).view
                entry.checked_for = config
            except KafkaError as error:
                self._refuse(entry, error)

    def _append(
        self,
        entry: AppendEntry,
        request: AppendRequest,
        now_ms: int,
        unsettled: list[UnsettledAppend],
    ) -> None:
        topic_partition, acks = entry.topic_partition, request.acks
        try:
            partition = self._partitions.get(topic_partition) or self.partition(topic_partition)
            if partition.restricts_writers:
                self._check_may_write(partition, request)
            info = partition.append_as_leader(
                entry.records, acks, request.origin, now_ms, entry.checked_for
            )
        except KafkaError as error:
            self._refuse(entry, error)
            return
        entry.error = _NONE
        entry.base_offset = info.first_offset
        entry.last_offset = last_offset = info.last_offset
        entry.log_append_time_ms = info.log_append_time_ms
        entry.log_start_offset = info.log_start_offset
        self._complete_waiting(partition)
        if acks == ACKS_ALL and partition.log.bounds.high_watermark <= last_offset:
            unsettled.append(UnsettledAppend(partition, last_offset + 1, entry))

    def _check_may_write(self, partition: Partition, request: AppendRequest) -> None:
        """Refuse writes to internal topics, except by their coordinator or the tier's producer."""
        if request.origin is not AppendOrigin.CLIENT:
            return
        may_write = self._is_metadata_writer
        if not partition.is_internal and (may_write is None or may_write(request.sender)):
            return
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic_partition.topic}",
        )

    def _refuse(self, entry: AppendEntry, error: KafkaError) -> None:
        entry.refuse(error.code, error.message or None)
        partition = self._partitions.get(entry.topic_partition)
        if partition is not None and error.code not in _WITHOUT_LOG_START:
            entry.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordValidationError):
            entry.record_errors = error.record_errors
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            entry.current_leader = self._current_leader(entry.topic_partition)

    def _wait_for_followers(
        self,
        purgatory: Purgatory[Any],
        timeout_ms: int,
        results: list[ResultT],
        unsettled: Sequence[Unreplicated],
    ) -> "asyncio.Future[list[ResultT]]":
        answer: asyncio.Future[list[ResultT]] = self._loop.create_future()

        def respond(settled: list[ResultT]) -> None:
            if not answer.done():
                answer.set_result(settled)

        delayed = DelayedReplication(timeout_ms, results, unsettled, respond)
        keys = [each.partition for each in unsettled]
        purgatory.try_complete_else_watch(delayed, keys)
        answer.add_done_callback(lambda _: delayed.force_complete())
        return answer

    def _complete_waiting(self, partition: Partition) -> None:
        """Complete operations after the log end, high watermark, leader or epoch has changed."""
        fetch = self.leader_fetch
        if fetch.purgatory.is_watched(partition):
            fetch.purgatory.check_and_complete(partition)
        if self._produce_purgatory.is_watched(partition):
            self._produce_purgatory.check_and_complete(partition)

    def _complete_after_role_change(self, partition: Partition) -> None:
        """Complete operations after the leader or the leader epoch has changed."""
        self._complete_waiting(partition)
        self.leader_fetch.remote_purgatory.check_and_complete(partition)
        self._offsets.purgatory.check_and_complete(partition)
        self._delete_purgatory.check_and_complete(partition)

    def _on_follower_fetch(
        self, partition: Partition, follower: ReplicaEpoch, fetch_partition: FetchPartition
    ) -> None:
        now_ms = self._environment.wall_clock_ms()
        if partition.update_follower(
            follower,
            fetch_partition.fetch_offset,
            fetch_partition.log_start_offset,
            now_ms,
            knows_epoch=fetch_partition.current_leader_epoch >= 0,
        ):
            self._complete_waiting(partition)
        if self._isr_sender is not None:
            self._isr_sender.on_follower_fetch(partition, follower.broker_id)
        if self._delete_purgatory.is_watched(partition):
            self._delete_purgatory.check_and_complete(partition)

    def on_high_watermark(self, name: TopicPartition) -> None:
        """Answer waiting consumers of a partition that this broker follows: its high watermark or
        its log start has moved, or its log was truncated."""
        partition = self._partitions.get(name)
        if partition is not None:
            self._complete_waiting(partition)

    def complete_replicated(self, partition: Partition) -> None:
        """Complete operations after the high watermark has moved."""
        self._complete_waiting(partition)

    def _current_leader(self, topic_partition: TopicPartition) -> CurrentLeader | None:
        image = self._image().partition(topic_partition.topic, topic_partition.partition)
        return None if image is None else CurrentLeader(image.leader, image.leader_epoch)

    def list_offsets(
        self, queries: Sequence[OffsetQuery], isolation: FetchIsolation, timeout_ms: int = 0
    ) -> "OffsetResults | asyncio.Future[OffsetResults]":
        """The results in request order; a future when the remote tier must be searched.

        If `timeout_ms` is 0, the broker's own timeout for such searches applies.
        """
        return self._offsets.list_offsets(queries, isolation, timeout_ms)

    def delete_records(
        self, offsets: Sequence[tuple[TopicPartition, int]], timeout_ms: int
    ) -> "DeletionResults | asyncio.Future[DeletionResults]":
        """Delete the records below each offset (-1: the high watermark), in request order."""
        results: DeletionResults = []
        unsettled: list[UnsettledDeletion] = []
        for topic_partition, offset in offsets:
            result = DeleteRecordsResult(topic_partition)
            results.append(result)
            try:
                partition = self.partition(topic_partition)
                if self._is_metadata_writer is not None:
                    check_is_not_tier_metadata(partition)
                required = delete_records_of(partition, offset)
            except KafkaError as error:
                result.error = error.code
                continue
            # A fetch may wait for more than the records that are gone now.
            self._complete_waiting(partition)
            deletion = UnsettledDeletion(partition, required, result)
            if not deletion.settle():
                unsettled.append(deletion)
        if not unsettled:
            return results
        return self._wait_for_followers(self._delete_purgatory, timeout_ms, results, unsettled)

    def offset_for_leader_epoch(
        self, topic_partition: TopicPartition, current_leader_epoch: int, leader_epoch: int
    ) -> EpochEndOffset:
        """The end of a leader epoch. Raises as `partition` and `Partition.leader_log` do."""
        partition = self.partition(topic_partition)
        partition.leader_log(current_leader_epoch)
        return partition.epoch_end_offset(leader_epoch)

    async def until_settled(self) -> None:
        """Wait until all partitions have the roles that the image says."""
        await self._hosted.until_settled()

    async def stop(self) -> None:
        """Answer all waiting requests with the results so far, and end the tasks."""
        self._hosted.stop()
        if self._movement is not None:
            await self._movement.stop()
        self._produce_purgatory.shutdown()
        self._delete_purgatory.shutdown()
        await self.leader_fetch.stop()
        await self._offsets.stop()

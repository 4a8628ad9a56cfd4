"""Reads several partitions for one fetch, within its limits (`ReplicaManager.readFromLog`).

Partitions are read in request order. The first one that has data may return one batch larger
than every limit, so that no consumer gets stuck; all others return whole batches that fit into
the rest of the request's limit and their own limit (KAFKA-19795). A remote read counts as the
most bytes it may return, because its real size isn't known yet. While the remote fetch quota is
exceeded, a partition that needs the remote tier returns no records and no error (KIP-956).

A consumer that states its rack may be sent to another replica instead (KIP-392), which then answers
up to its own high watermark. A throttled follower outside of the ISR gets no records while the
leaders' quota is exceeded (KIP-73).
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.fetch import (
    EpochEndOffset as DivergingEpoch,
    LeaderIdAndEpoch,
    PartitionData,
)
from ...clients.topic_partition import TopicPartition
from ...storage.log.fetch_data import EMPTY_RECORDS, FetchIsolation, RemoteRead
from ...storage.log.unified_log import UnifiedLog
from ..metadata.replica_epoch import ReplicaEpoch
from ..partition.fetch_data import (
    CurrentLeader,
    EpochEndOffset,
    FetchParams,
    FetchPartition,
    FetchResults,
    aborted_transactions,
)
from ..partition.partition import Partition

if TYPE_CHECKING:
    from ..throttled_replicas import ThrottledReplicas
    from .replica_selection import RackAwareSelection

_log = logging.getLogger(__name__)

PARTITIONS_A_STEP = 32
"""How many partitions of a large fetch are read between two pauses: a millisecond's work."""

_NAMES_THE_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

# Python 3.11 takes 0.1 µs to look up an enum member, and this runs for every partition.
_TXN_COMMITTED = FetchIsolation.TXN_COMMITTED

LeaderOf = Callable[[TopicPartition], "CurrentLeader | None"]


@dataclass(slots=True)
class PendingRemoteRead:
    """A read from the remote tier that is still to be done, and the index of its result."""

    index: int
    partition: Partition
    read: RemoteRead


@dataclass(slots=True)
class ReadOutcome:
    """The results of one pass over the partitions."""

    results: FetchResults
    # How many bytes of the request's limit are left.
    bytes_left: int
    # Whether the fetch has waited: its information on a follower has been used.
    has_waited: bool = False
    # Whether a quota holds records back.
    is_held_back: bool = False
    # Whether no partition has had records yet: the first one may exceed the limits.
    may_exceed: bool = True
    readable_bytes: int = 0
    # Whether to answer at once, because of an error, a diverging epoch or another replica to read.
    must_answer: bool = False
    remote: list[PendingRemoteRead] = field(default_factory=list[PendingRemoteRead])
    # No bytes are left for these if each of the other reads returns as much as it may.
    crowded_out: list[PendingRemoteRead] = field(default_factory=list[PendingRemoteRead])


class LogReader:
    """Reads partitions' logs for consumers and followers."""

    def __init__(
        self,
        partition_of: Callable[[TopicPartition], Partition],
        leader_of: LeaderOf,
        on_follower_fetch: Callable[[Partition, ReplicaEpoch, FetchPartition], None],
        is_remote_throttled: Callable[[], bool] = lambda: False,
        selection: "RackAwareSelection | None" = None,
        throttle: "ThrottledReplicas | None" = None,
    ) -> None:
        self._partition_of = partition_of
        self._leader_of = leader_of
        self._on_follower_fetch = on_follower_fetch
        self.is_remote_throttled = is_remote_throttled
        """Whether the remote fetch quota is exceeded."""
        self._selection = selection
        """Chooses the replica that a consumer should read from; None: always the leader."""
        self.throttle = throttle
        """The leaders' replication quota; None where no partition has followers."""
        self._damage: dict[TopicPartition, str] = {}
        """The last error logged for each partition whose log is damaged."""

    def read(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        *,
        has_waited: bool = False,
        outcome: ReadOutcome | None = None,
    ) -> ReadOutcome:
        """Read what is available now, without waiting.

        The first read of a follower's fetch notes how far it is. `has_waited`, Kafka's
        `readFromPurgatory`, is for another read of the same fetch. `outcome` is that of the
        partitions before these, to go on with.
        """
        if outcome is None:
            outcome = ReadOutcome([], params.max_bytes, has_waited)
        bytes_left, may_exceed = outcome.bytes_left, outcome.may_exceed
        for fetch_partition in partitions:
            max_bytes = min(fetch_partition.max_bytes, bytes_left)
            try:
                partition_data = self._read_partition(
                    params, fetch_partition, max_bytes, may_exceed, outcome
                )
            except KafkaError as error:
                self._log_damage(fetch_partition, error)
                outcome.results.append(self.error_result(fetch_partition, error))
                outcome.must_answer = True
                continue
            if partition_data:
                may_exceed = False
                bytes_left = bytes_left - partition_data if bytes_left > partition_data else 0
        outcome.bytes_left, outcome.may_exceed = bytes_left, may_exceed
        return outcome

    def read_in_steps(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        *,
        has_waited: bool = False,
    ) -> Generator[None, None, ReadOutcome]:
        """The same as `read`, with pauses: partitions may change between two of them."""
        outcome = ReadOutcome([], params.max_bytes, has_waited)
        for begin in range(0, len(partitions), PARTITIONS_A_STEP):
            self.read(params, partitions[begin : begin + PARTITIONS_A_STEP], outcome=outcome)
            yield
        return outcome

    def _read_partition(
        self,
        params: FetchParams,
        fetch_partition: FetchPartition,
        max_bytes: int,
        may_exceed: bool,
        outcome: ReadOutcome,
    ) -> int:
        """Append one partition's result; return how many bytes of the limit it uses."""
        partition = self.partition_for(fetch_partition)
        log = readable_log(partition, params, fetch_partition)
        offset, isolation = fetch_partition.fetch_offset, params.isolation
        if self._selection is not None or fetch_partition.last_fetched_epoch >= 0:
            instead = self._instead_of_records(params, fetch_partition, partition, log)
            if instead is not None:
                outcome.must_answer = True
                outcome.results.append(instead)
                return 0
        if offset == log.visible_end(isolation):
            # Caught up, as most partitions of most fetches are: no need to read the segments.
            without_records = _without_records(fetch_partition, log, isolation, None)
            if params.is_from_follower:
                self._note_follower(params, partition, fetch_partition, outcome)
            outcome.results.append(without_records)
            return 0
        fetched = log.read(offset, max_bytes, isolation, may_exceed)
        if params.is_from_follower:
            if isinstance(fetched, RemoteRead):
                raise KafkaError(
                    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                    f"Offset {offset} of {partition.topic_partition} is only in the remote "
                    f"tier; the local log starts at {log.local_log_start_offset}.",
                )
            self._note_follower(params, partition, fetch_partition, outcome)
            if self.holds_back(partition, params.replica_id):
                outcome.is_held_back = True
                outcome.results.append(_without_records(fetch_partition, log, isolation, None))
                return 0
        if isinstance(fetched, RemoteRead):
            outcome.results.append(_without_records(fetch_partition, log, isolation, None))
            if self.is_remote_throttled():
                outcome.is_held_back = True
                return 0
            pending = PendingRemoteRead(len(outcome.results) - 1, partition, fetched)
            if fetched.max_bytes <= 0 and not fetched.min_one_message:
                outcome.crowded_out.append(pending)
                return 0
            outcome.remote.append(pending)
            return max(fetched.max_bytes, 1)
        nbytes, aborted = fetched.nbytes, fetched.aborted_transactions
        outcome.readable_bytes += nbytes
        outcome.results.append(
            PartitionData(
                partition_index=fetch_partition.topic_id_partition.partition,
                high_watermark=fetched.high_watermark,
                last_stable_offset=fetched.last_stable_offset,
                log_start_offset=fetched.log_start_offset,
                aborted_transactions=None if aborted is None else aborted_transactions(aborted),
                records=fetched.records,
            )
        )
        return nbytes

    def _note_follower(
        self,
        params: FetchParams,
        partition: Partition,
        fetch_partition: FetchPartition,
        outcome: ReadOutcome,
    ) -> None:
        """Note how far a follower is, at the first read of its fetch.

        Raises KafkaError as `Partition.update_follower` does.
        """
        if not outcome.has_waited:
            follower = ReplicaEpoch(params.replica_id, params.replica_epoch)
            self._on_follower_fetch(partition, follower, fetch_partition)

    def _instead_of_records(
        self,
        params: FetchParams,
        fetch_partition: FetchPartition,
        partition: Partition,
        log: UnifiedLog,
    ) -> PartitionData | None:
        """The result that sends a consumer to another replica, or a fetcher to where its log
        diverges; None if it may have records."""
        offset = fetch_partition.fetch_offset
        if self._selection is not None and params.rack and partition.is_leader:
            nearest = self._selection.select(partition, params.rack, params.listener, offset)
            if nearest is not None:
                return _read_elsewhere(fetch_partition, log, nearest)
        if fetch_partition.last_fetched_epoch < 0:
            return None
        diverging = partition.diverging_epoch(fetch_partition.last_fetched_epoch, offset)
        if diverging is None:
            return None
        return _without_records(fetch_partition, log, params.isolation, diverging)

    def holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower gets no records of the partition, because of the leaders' quota."""
        throttle = self.throttle
        if throttle is None or replica_id in partition.isr_state.isr:
            return False
        now = asyncio.get_running_loop().time()
        return throttle.holds_back(partition.topic_partition, partition.log.config, now)

    def _log_damage(self, fetch_partition: FetchPartition, error: KafkaError) -> None:
        """Log an error for a damaged log once, however often it is fetched."""
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            return
        partition = fetch_partition.topic_id_partition.topic_partition
        if self._damage.get(partition) != error.message:
            self._damage[partition] = error.message
            _log.error(
                "%s cannot be read at offset %d: %s Consumers receive CORRUPT_MESSAGE until "
                "they seek past the damaged batch",
                partition,
                fetch_partition.fetch_offset,
                error.message,
            )

    def partition_for(self, fetch_partition: FetchPartition) -> Partition:
        """The partition to read.

        Raises KafkaError as `ReplicaManager.partition` does, or with INCONSISTENT_TOPIC_ID.
        """
        topic_id, topic, number = fetch_partition.topic_id_partition
        partition = self._partition_of(TopicPartition(topic, number))
        if topic_id != ZERO_UUID and topic_id != partition.topic_id_partition.topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"The topic id of {topic} does not match the topic id in the request.",
            )
        return partition

    def error_result(self, fetch_partition: FetchPartition, error: KafkaError) -> PartitionData:
        """The result for an error; leadership errors include the current leader."""
        answer = PartitionData(
            partition_index=fetch_partition.topic_id_partition.partition,
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=None,
            records=EMPTY_RECORDS,
        )
        if error.code in _NAMES_THE_LEADER:
            set_current_leader(
                answer, self._leader_of(fetch_partition.topic_id_partition.topic_partition)
            )
        return answer


def readable_log(
    partition: Partition, params: FetchParams, fetch_partition: FetchPartition
) -> UnifiedLog:
    """The log to read from.

    Raises as `Partition.leader_log`, `Partition.check_follower` and `Partition.local_log` do.
    """
    leader_epoch = fetch_partition.current_leader_epoch
    if params.rack is not None:
        return partition.local_log(leader_epoch)
    log = partition.leader_log(leader_epoch)
    if params.is_from_follower:
        partition.check_follower(params.replica_id, knows_epoch=leader_epoch >= 0)
    return log


def set_current_leader(answer: PartitionData, leader: CurrentLeader | None) -> None:
    """Put the current leader into the answer, if it is known (KIP-951)."""
    if leader is not None:
        answer.current_leader = LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )


def _read_elsewhere(
    fetch_partition: FetchPartition, log: UnifiedLog, broker_id: int
) -> PartitionData:
    """The result that sends a consumer to another replica."""
    return PartitionData(
        partition_index=fetch_partition.topic_id_partition.partition,
        high_watermark=log.bounds.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.bounds.log_start,
        aborted_transactions=None,
        preferred_read_replica=broker_id,
        records=EMPTY_RECORDS,
    )


def _without_records(
    fetch_partition: FetchPartition,
    log: UnifiedLog,
    isolation: FetchIsolation,
    diverging: EpochEndOffset | None,
) -> PartitionData:
    """A result with the log's offsets and no records."""
    answer = PartitionData(
        partition_index=fetch_partition.topic_id_partition.partition,
        high_watermark=log.bounds.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.bounds.log_start,
        aborted_transactions=[] if isolation is _TXN_COMMITTED else None,
        records=EMPTY_RECORDS,
    )
    if diverging is not None:
        answer.diverging_epoch = DivergingEpoch(
            epoch=diverging.epoch, end_offset=diverging.end_offset
        )
    return answer

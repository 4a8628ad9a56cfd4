"""One term of leadership of one tiered partition: what its copying and its expiration share."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import Uuid
from ..clients.topic_partition import TopicIdPartition, TopicPartition
from ..storage.remote_lineage import LogBounds, copied_up_to, remote_log_start_offset
from ..storage.remote_log import RemoteLog
from ..storage.unified_log import UnifiedLog
from .metadata_manager import RemoteLogMetadataManager

if TYPE_CHECKING:
    import asyncio

    from .partition_loop import PartitionLoop


def bounds_of(log: UnifiedLog) -> LogBounds:
    """Where a log begins and ends now."""
    return LogBounds(log.log_start_offset, log.local_log_start_offset, log.log_end_offset)


def ready_remote_log(metadata: RemoteLogMetadataManager, partition: TopicIdPartition) -> RemoteLog:
    """What is known of a partition. Raises KafkaError while that may not be all (KAFKA-17980)."""
    if not metadata.is_ready(partition):
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"The remote log metadata of {partition.topic_partition} is not read yet",
        )
    return metadata.remote_log(partition)


class LeaderTerm:
    """See the top of this file."""

    def __init__(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,
        log_of: Callable[[TopicPartition], UnifiedLog | None],
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.is_current = True
        self.knows_copied_offset = False
        """Whether the log knows how far the tier has it. Before that nothing expires: what is in
        both tiers would be taken for two (KAFKA-20732)."""
        self.copying_ended = False
        """Whether nothing is copied any more in this term."""
        self.in_hand: set[Uuid] = set()
        """Segments that are being copied or deleted at this moment."""
        self.unconfirmed: Uuid | None = None
        """A segment that is stored, while it is not known whether that has been said."""
        self.loops: list[PartitionLoop] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._log_of = log_of

    def end(self) -> None:
        """Another leads now, or nobody. What is under way is interrupted, as in Kafka."""
        self.is_current = False
        for task in self.tasks:
            task.cancel()

    def wake(self) -> None:
        """The partition's configuration has changed: look again."""
        for loop in self.loops:
            loop.wake()

    @property
    def is_at_work(self) -> bool:
        return bool(self.tasks) and not any(task.done() for task in self.tasks)

    def log(self) -> UnifiedLog | None:
        """The local side, if it is still that of this topic."""
        log = self._log_of(self.partition.topic_partition)
        return log if log is not None and log.topic_id == self.partition.topic_id else None

    @property
    def reserved(self) -> set[Uuid]:
        """Segments that only those who have them in hand may touch."""
        return self.in_hand if self.unconfirmed is None else {*self.in_hand, self.unconfirmed}

    @contextmanager
    def holding(self, segment_id: Uuid) -> Generator[None]:
        """Keep a segment in hand."""
        self.in_hand.add(segment_id)
        try:
            yield
        finally:
            self.in_hand.discard(segment_id)

    def find_copied_offset(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """On becoming leader, and when in doubt: where the log begins, how far the tier has it.

        The checkpoint of the log start offset may be lost, or a former leader may have deleted more
        than this replica was told; then the tier knows (KAFKA-16146). If nothing is left in it, the
        log begins where its local part does. A partition of which the metadata has never told
        anything is let be: rather the metadata is lost than that nothing was there.
        """
        if self.knows_copied_offset:
            return
        history = log.leader_epochs.entries
        if log.log_start_offset < log.local_log_start_offset and not remote.is_unheard_of:
            start = remote_log_start_offset(remote, history, log.local_log_start_offset)
            log.maybe_increment_log_start_offset(min(start, log.local_log_start_offset))
            history = log.leader_epochs.entries
        log.update_highest_remote_offset(copied_up_to(remote, history, bounds_of(log)))
        self.knows_copied_offset = True

"""One leadership term of a tiered partition: the state that copying and expiration share."""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.log.tier_history import mended_history
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.log_gaps import begun_copies_in_gaps, log_has_gap
from ...storage.remote.remote_lineage import LogExtent, copied_up_to, remote_log_start_offset
from ...storage.remote.remote_log import RemoteLog
from ..metadata.metadata_manager import RemoteLogMetadataManager
from .copy_state import CopyEvent, CopyProgress, CopyState

if TYPE_CHECKING:
    from .partition_loop import PartitionLoop

_log = logging.getLogger(__name__)

_EPOCHS_LOGGED = 5
_ROUND_CHECK_S = 0.001


def bounds_of(log: UnifiedLog) -> LogExtent:
    """A log's current start, local start and end offsets."""
    return LogExtent(log.log_start_offset, log.local_log_start_offset, log.log_end_offset)


def ready_remote_log(metadata: RemoteLogMetadataManager, partition: TopicIdPartition) -> RemoteLog:
    """A partition's remote log. Raises KafkaError until its metadata is complete (KAFKA-17980)."""
    if not metadata.is_ready(partition):
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"The remote log metadata of {partition.topic_partition} is not loaded yet",
        )
    return metadata.remote_log(partition)


class LeaderTerm:
    """One term of leadership of a tiered partition."""

    def __init__(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,
        log_of: Callable[[TopicPartition], UnifiedLog | None],
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.copying = CopyProgress()
        self.repairing = asyncio.Lock()
        """Held by the task that looks for copies missing from the metadata."""
        self.is_repaired = False
        """Whether that repair is done (`gap_repair.py`)."""
        self.store_was_searched = False
        """Whether the store was listed: a copy that is still unknown then does not exist."""
        self.in_hand: set[Uuid] = set()
        """Segments that are being copied or deleted right now."""
        self.loops: list[PartitionLoop] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._log_of = log_of

    def end(self) -> None:
        """End the term: this broker no longer leads. Running work is interrupted, as in Kafka."""
        self.copying.apply(CopyEvent.DEPOSED)
        for task in self.tasks:
            task.cancel()

    def wake(self) -> None:
        """Run the loops now: the partition's configuration has changed."""
        for loop in self.loops:
            loop.wake()

    async def run_round(self) -> None:
        """Wake the loops; returns when each has begun and ended a round after this call."""
        # The round that runs now may have begun before.
        pairs = zip(self.loops, self.tasks, strict=True)
        ends = [(loop, task, loop.rounds + 2) for loop, task in pairs]
        while any(loop.rounds < end and not task.done() for loop, task, end in ends):
            self.wake()
            await asyncio.sleep(_ROUND_CHECK_S)

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition in the epoch of this term."""
        return self.copying.state is not CopyState.ENDED

    @property
    def is_at_work(self) -> bool:
        return bool(self.tasks) and not any(task.done() for task in self.tasks)

    def log(self) -> UnifiedLog | None:
        """The local log, if it still belongs to this topic id."""
        log = self._log_of(self.partition.topic_partition)
        return log if log is not None and log.topic_id == self.partition.topic_id else None

    @property
    def reserved(self) -> set[Uuid]:
        """Segments that only the task working on them may touch."""
        unconfirmed = self.copying.unconfirmed_id
        return self.in_hand if unconfirmed is None else {*self.in_hand, unconfirmed}

    @contextmanager
    def holding(self, segment_id: Uuid) -> Generator[None]:
        """Mark a segment as being worked on."""
        self.in_hand.add(segment_id)
        try:
            yield
        finally:
            self.in_hand.discard(segment_id)

    def find_copied_offset(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """Find the log start offset and the highest copied offset, if they are not known.

        The checkpoint of the log start offset may be lost, or a former leader may have deleted more
        than this replica has learned; then the tier decides (KAFKA-16146). If the tier is empty,
        the log begins at its local log start offset. If there is no metadata of the partition, it
        was probably lost: then the log start offset is kept, unless the store was searched. Nor is
        it moved past an unfinished copy that may be the only one.
        """
        if self.copying.state is not CopyState.UNKNOWN:
            return
        self._mend_history(log, remote)
        if log.log_start_offset < log.local_log_start_offset and (
            self.store_was_searched or not remote.is_unheard_of
        ):
            self._find_log_start(log, remote)
        history, bounds = log.leader_epochs.entries, bounds_of(log)
        log.bounds.update_highest_remote(copied_up_to(remote, history, bounds))
        self.copying.apply(CopyEvent.LOCATED)
        if log_has_gap(remote, history, bounds):
            _log.error(
                "Records of %s between its log start offset %d and its local log start offset "
                "%d are in no finished remote segment and cannot be read. Objects that may "
                "hold them are kept; `tierlog tier ls` lists the remote tier",
                self.partition.topic_partition,
                bounds.log_start_offset,
                bounds.local_log_start_offset,
            )

    def _mend_history(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """Restore from the tier the leader epochs of remote-only offsets that the log has lost."""
        mended = mended_history(remote, log.leader_epochs.entries, bounds_of(log))
        if mended is not None:
            _log.warning(
                "leader-epoch-checkpoint of %s has the epochs %s for the records below offset "
                "%d, but the remote tier has %s, which replace them",
                self.partition.topic_partition,
                [*log.leader_epochs.entries][:_EPOCHS_LOGGED],
                log.local_log_start_offset,
                mended[:_EPOCHS_LOGGED],
            )
            log.leader_epochs.replace(mended)

    def _find_log_start(self, log: UnifiedLog, remote: RemoteLog) -> None:
        history, bounds = log.leader_epochs.entries, bounds_of(log)
        begun = begun_copies_in_gaps(remote, history, bounds)
        start = min(
            remote_log_start_offset(remote, history, bounds.local_log_start_offset),
            bounds.local_log_start_offset,
            *(segment.start_offset for segment in begun),
        )
        if log.maybe_increment_log_start_offset(start):
            _log.warning(
                "The log start offset of %s moves from %d to %d: the remote tier holds no record "
                "between them",
                self.partition.topic_partition,
                bounds.log_start_offset,
                start,
            )

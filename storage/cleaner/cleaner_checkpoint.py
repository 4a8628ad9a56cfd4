"""Records how far each log of a directory has been cleaned, in `cleaner-offset-checkpoint`.

The next cleaning reads keys from the checkpointed offset on; the keys below it were in the offset
maps of earlier cleanings. The format is Kafka's. A lost file or an offset that is too low only
makes the next cleaning longer. So an offset is replaced by the log start if it is outside the log,
belongs to another topic of the same name, or was written before a truncation (`LogCleanerManager`
in Kafka).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicPartition
from ..checkpoint import (
    CLEANER_OFFSET_FILE,
    MalformedCheckpointError,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from ..directory.log_dir import LogDir
from ..log.unified_log import UnifiedLog


class _Cleaned(NamedTuple):
    offset: int
    topic_id: Uuid | None
    truncations: int


class CleanerCheckpoint:
    """The file of one log directory and its entries."""

    def __init__(self, log_dir: LogDir) -> None:
        self._files = log_dir.files
        self._path = f"{log_dir.path}/{CLEANER_OFFSET_FILE}"
        try:
            offsets = read_offset_checkpoint(self._files, self._path)
        except MalformedCheckpointError:
            offsets = {}
        self._cleaned = {partition: _Cleaned(at, None, 0) for partition, at in offsets.items()}

    def first_dirty_offset(self, log: UnifiedLog) -> int:
        """The offset from which the log's keys are to be read."""
        entry = self._cleaned.get(log.topic_partition)
        if (
            entry is None
            or entry.topic_id not in (None, log.topic_id)
            or entry.truncations != log.local.truncations
            or not log.log_start_offset <= entry.offset <= log.log_end_offset
        ):
            return log.log_start_offset
        return entry.offset

    def knows(self, log: UnifiedLog) -> bool:
        """Whether the log has an entry; without one, startup treats offset gaps as losses."""
        return log.topic_partition in self._cleaned

    def cleaned_up_to(self, log: UnifiedLog, offset: int) -> None:
        """Record that the log is cleaned up to `offset`; `prepare_write` makes that durable."""
        self._cleaned[log.topic_partition] = _Cleaned(offset, log.topic_id, log.local.truncations)

    def hand_over(self, log: UnifiedLog, other: "CleanerCheckpoint", moved: UnifiedLog) -> bool:
        """Move a log's entry to the checkpoint of its new directory; False if there is no entry."""
        if log.topic_partition not in self._cleaned:
            return False
        other.cleaned_up_to(moved, self.first_dirty_offset(log))
        del self._cleaned[log.topic_partition]
        return True

    def keep_only(self, partitions: set[TopicPartition]) -> None:
        """Remove the entries of all other partitions."""
        self._cleaned = {
            partition: entry
            for partition, entry in self._cleaned.items()
            if partition in partitions
        }

    def prepare_write(self) -> Callable[[], None]:
        """Return a function that durably writes the present entries, in any thread.

        It does not write changes made after this call. It raises OSError.
        """
        offsets = {partition: entry.offset for partition, entry in self._cleaned.items()}
        return partial(write_offset_checkpoint, self._files, self._path, offsets)

    def write(self) -> None:
        """Replace the file durably, in this thread. Raises OSError."""
        self.prepare_write()()

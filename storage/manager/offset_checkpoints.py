"""The checkpoints of one log directory: an offset for each of its logs, in three files.

    recovery-point-offset-checkpoint   everything below survives a crash
    log-start-offset-checkpoint        where a log starts that does not start with its first segment
    replication-offset-checkpoint      the high watermark

The log of a partition that is moved here (`-future`) has its entries too: they hold on when it
takes the partition's name. An entry that outlives its log would promise a later log of the same
name what it does not have, so it goes before such a log is made (Kafka's `OffsetCheckpointFile`).
"""

from collections.abc import Callable, Iterable

from ...clients.topic_partition import TopicPartition
from ..checkpoint import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpointError,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from ..directory.log_dir import LogDir
from ..log.unified_log import UnifiedLog

OffsetOf = Callable[[UnifiedLog], int | None]


def _recovery_point(log: UnifiedLog) -> int:
    return log.recovery_point


def _log_start(log: UnifiedLog) -> int | None:
    """Where a log starts that does not start with its first segment (KAFKA-16146)."""
    if log.is_tiered or log.log_start_offset > log.local.segments.first.base_offset:
        return log.log_start_offset
    return None


def _high_watermark(log: UnifiedLog) -> int:
    return log.high_watermark


class OffsetCheckpoints:
    """See the top of this file. Offsets are those of the files when they were last looked at."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: frozenset[TopicPartition] = frozenset()
        """The logs that have been compacted, whatever their topics' policy is now."""

    def read(self) -> None:
        """Learn what the files say. Raises OSError."""
        self.recovery_points = self._read(RECOVERY_POINT_FILE)
        self.log_starts = self._read(LOG_START_FILE)
        self.high_watermarks = self._read(HIGH_WATERMARK_FILE)
        self.cleaned = frozenset(self._read(CLEANER_OFFSET_FILE))

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._log_dir.files, f"{self._log_dir.path}/{name}")
        except MalformedCheckpointError:
            # A damaged checkpoint costs a longer recovery and nothing else: 0 is always safe.
            return {}

    def write_recovery_points(self, logs: Iterable[UnifiedLog]) -> None:
        self.recovery_points = self._write(RECOVERY_POINT_FILE, logs, _recovery_point)

    def write_log_starts(self, logs: Iterable[UnifiedLog]) -> None:
        self.log_starts = self._write(LOG_START_FILE, logs, _log_start)

    def write_high_watermarks(self, logs: Iterable[UnifiedLog]) -> None:
        self.high_watermarks = self._write(HIGH_WATERMARK_FILE, logs, _high_watermark)

    def _write(
        self, name: str, logs: Iterable[UnifiedLog], offset_of: OffsetOf
    ) -> dict[TopicPartition, int]:
        """Replace a file, durably; a disk that fails takes the directory offline."""
        offsets = {
            log.topic_partition: offset for log in logs if (offset := offset_of(log)) is not None
        }
        if self._log_dir.is_online:
            try:
                path = f"{self._log_dir.path}/{name}"
                write_offset_checkpoint(self._log_dir.files, path, offsets)
            except OSError as error:
                self._log_dir.fail(error)
        return offsets

    def forget(
        self, topic_partition: TopicPartition, has_log: Callable[[TopicPartition], bool]
    ) -> None:
        """See that no file promises anything of a log that is yet to be made; OSError.

        What stands there of other logs that are gone goes with it: a topic of thousands of
        partitions that is made anew must not write the file thousands of times.
        """
        for name, checkpointed in (
            (RECOVERY_POINT_FILE, self.recovery_points),
            (LOG_START_FILE, self.log_starts),
        ):
            if checkpointed.pop(topic_partition, 0):
                for gone in [each for each in checkpointed if not has_log(each)]:
                    del checkpointed[gone]
                # What the file says of others may be lower by now than what is known here.
                stored = self._read(name)
                offsets = {each: stored[each] for each in stored if has_log(each)}
                offsets.pop(topic_partition, None)
                path = f"{self._log_dir.path}/{name}"
                write_offset_checkpoint(self._log_dir.files, path, offsets)

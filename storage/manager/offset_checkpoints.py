"""The checkpoints of one log directory: three files with an offset for each of its logs.

    recovery-point-offset-checkpoint   the offset below which everything survives a crash
    log-start-offset-checkpoint        the log start, if the segments do not show it
    replication-offset-checkpoint      the high watermark

A future log (`-future`) has entries too, which stay valid when it gets the partition's name. A
stale entry would give a later log of the same name wrong offsets, so it is removed before such a
log is created (Kafka's `OffsetCheckpointFile`).
"""

import logging
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

_log = logging.getLogger(__name__)

OffsetOf = Callable[[UnifiedLog], int | None]


def _recovery_point(log: UnifiedLog) -> int:
    return log.recovery_point


def _log_start(log: UnifiedLog) -> int | None:
    """The log start offset; None if the first segment shows it.

    A tiered log always has an entry (KAFKA-16146).
    """
    if log.is_tiered or log.log_start_offset > log.local.segments.first.base_offset:
        return log.log_start_offset
    return None


def _high_watermark(log: UnifiedLog) -> int:
    return log.high_watermark


class OffsetCheckpoints:
    """Reads and writes the three files; the offsets here are those last read or written."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaned: frozenset[TopicPartition] = frozenset()
        """The logs that were ever compacted, whatever their cleanup.policy is now."""

    def read(self) -> None:
        """Read the files. Raises OSError."""
        self.recovery_points = self._read(RECOVERY_POINT_FILE)
        self.log_starts = self._read(LOG_START_FILE)
        self.high_watermarks = self._read(HIGH_WATERMARK_FILE)
        self.cleaned = frozenset(self._read(CLEANER_OFFSET_FILE))

    def _read(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self._log_dir.path}/{name}"
        try:
            return read_offset_checkpoint(self._log_dir.files, path)
        except MalformedCheckpointError as error:
            # A damaged checkpoint only makes recovery longer: 0 is always safe.
            _log.warning(
                "%s The offsets in this checkpoint count as 0 until it is written again.", error
            )
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
        """Replace a file durably and return its offsets. A failure takes the directory offline."""
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
        """Remove stale entries of a log that is about to be created. Raises OSError.

        Entries of other deleted logs are removed too, so that re-creating a topic with thousands
        of partitions does not write the file thousands of times.
        """
        for name, checkpointed in (
            (RECOVERY_POINT_FILE, self.recovery_points),
            (LOG_START_FILE, self.log_starts),
        ):
            if checkpointed.pop(topic_partition, 0):
                for gone in [partition for partition in checkpointed if not has_log(partition)]:
                    del checkpointed[gone]
                # Read again, because `lower_recovery_point` may have lowered the offsets of other
                # logs in the file.
                stored = self._read(name)
                offsets = {
                    partition: stored[partition] for partition in stored if has_log(partition)
                }
                offsets.pop(topic_partition, None)
                path = f"{self._log_dir.path}/{name}"
                write_offset_checkpoint(self._log_dir.files, path, offsets)

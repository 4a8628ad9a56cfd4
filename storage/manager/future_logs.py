"""Future logs: a log is copied to another log directory, and the copy takes over (KIP-113).

    first/orders-0                                current: appended to and read
    second/orders-0.<id>-future                   future: filled from the current one

Once the future log has caught up, it takes over in these steps:

    second/orders-0.<id>-future   the log and its checkpoint entries are flushed
    first/orders-0.<id>-delete    the current log is renamed durably
    second/orders-0               the future log is renamed durably

There are never two directories with the partition's name. After a crash at any point there is
either a current log, or only a future log; that one is complete, and the cluster metadata then
assigns the partition to its directory. Apache Kafka also uses the future log if there is no current
one (`LogManager.replaceCurrentWithFutureLog`, `recoverAbandonedFutureLogs`).
"""

import logging

from ...clients.topic_partition import TopicPartition
from ..directory.log_dir import LogDir
from ..files import DirectoryHandle
from ..log.unified_log import UnifiedLog
from ..log_file import partition_directory_name
from .log_loader import LoadRequest, load_log
from .partition_directory import DoomedDirectories

_log = logging.getLogger(__name__)


class FutureLogs:
    """The future logs of a broker, at most one for each partition."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, UnifiedLog] = {}

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def all(self) -> list[UnifiedLog]:
        return list(self._logs.values())

    def add(self, log: UnifiedLog) -> None:
        self._logs[log.topic_partition] = log

    def pop(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Remove and return the partition's future log, if there is one."""
        return self._logs.pop(topic_partition, None)


def adopt_state(log: UnifiedLog, other: UnifiedLog) -> None:
    """Copy the bounds and producer state of `other` to a log that has the same records."""
    log.bounds.adopt(other.bounds)
    log.producers.on_high_watermark(log.high_watermark)
    log.producers.take_over(other.producers)


def reopen(log: UnifiedLog, directory: str, now_ms: int) -> UnifiedLog:
    """Reopen a closed log in a directory that may have been renamed.

    Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    assert log.local.is_released
    request = LoadRequest(
        log.topic_partition,
        log.topic_id,
        directory,
        log.config,
        log.log_start_offset,
        log.recovery_point,
        producer_expiration_ms=log.producers.expiration_ms,
    )
    again = load_log(log.log_dir, request, now_ms)
    again.update_high_watermark(log.high_watermark)
    return again


class Takeover:
    """Renames directories so that the future log replaces the current one, or undoes that.

    The log directories are opened first, so that no rename fails for lack of descriptors. If they
    cannot be opened, KafkaError(KAFKA_STORAGE_ERROR) is raised and nothing has changed.
    """

    def __init__(
        self, current: UnifiedLog | None, future: UnifiedLog, doomed: DoomedDirectories
    ) -> None:
        self._current = current
        self._future = future
        self._doomed = doomed
        self._opened: dict[LogDir, DirectoryHandle] = {}
        self._renamed: list[tuple[LogDir, str, str]] = []
        for log in (future, current):
            if log is not None and log.log_dir not in self._opened:
                self._opened[log.log_dir] = self._open(log.log_dir)

    @staticmethod
    def _open(log_dir: LogDir) -> DirectoryHandle:
        log_dir.check()
        try:
            return log_dir.files.open_dir(log_dir.path)
        except OSError as error:
            raise log_dir.fail(error) from error

    def rename(self, now_ms: int) -> str:
        """Durably rename the future log's directory to the partition's name; return the new path.

        The current log's directory is renamed first. Raises KafkaError(KAFKA_STORAGE_ERROR). After
        this or any later failure, call `give_back`.
        """
        current, future = self._current, self._future
        if current is not None:
            given_up = self._doomed.doomed_path(current, now_ms)
            self._rename(current.log_dir, current.directory, given_up)
        name = partition_directory_name(future.topic_partition)
        directory = f"{future.log_dir.path}/{name}"
        self._rename(future.log_dir, future.directory, directory)
        return directory

    def _rename(self, log_dir: LogDir, old: str, new: str) -> None:
        log_dir.check()
        try:
            log_dir.files.rename(old, new)
            self._renamed.append((log_dir, old, new))
            self._opened[log_dir].sync()
        except OSError as error:
            raise log_dir.fail(error) from error

    def give_back(self) -> None:
        """Undo the renames in reverse order, because the current log stays in use."""
        while self._renamed:
            log_dir, old, new = self._renamed.pop()
            try:
                log_dir.files.rename(new, old)
                self._opened[log_dir].sync()
            except OSError as error:
                log_dir.fail(error)
                _log.error("Could not rename directory %s back to %s: %s", new, old, error.strerror)

    def close(self, now_ms: int) -> None:
        """Close the handles; unless the renames were undone, schedule the old log's removal."""
        for opened in self._opened.values():
            opened.close()
        current = self._current
        if self._renamed and current is not None:
            due_ms = now_ms + current.config.file_delete_delay_ms
            self._doomed.note(current.log_dir, self._renamed[0][2], due_ms)

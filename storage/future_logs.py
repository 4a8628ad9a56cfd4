"""A log on its way from one log directory to another, and how it takes over (KIP-113).

    first/orders-0                                current: appended to and read
    second/orders-0.<id>-future                   future: filled from the current one

    second/orders-0.<id>-future   all is on the disk, and so is what the checkpoints say of it
    first/orders-0.<id>-delete    the current log gives its name up, durably
    second/orders-0               the future one takes it, durably

At no moment do two directories have the name: wherever a crash comes there is a current log, or
none and one future log that holds everything, in the directory that the cluster's metadata names
by then. Apache Kafka serves the partition from that one, too, when it finds no other
(`LogManager.replaceCurrentWithFutureLog`, `recoverAbandonedFutureLogs`).
"""

from ..clients.topic_partition import TopicPartition
from .durable_directory import rename_durably
from .log_file import partition_directory_name
from .partition_directory import DoomedDirectories
from .unified_log import UnifiedLog


class FutureLogs:
    """At most one for each partition."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, UnifiedLog] = {}

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def all(self) -> list[UnifiedLog]:
        return list(self._logs.values())

    def add(self, log: UnifiedLog) -> None:
        self._logs[log.topic_partition] = log

    def pop(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Take it out, if there is one."""
        return self._logs.pop(topic_partition, None)


def adopt_state(log: UnifiedLog, other: UnifiedLog) -> None:
    """Let a log that has caught up with another know what the other knows of the same records."""
    assert log.log_end_offset == other.log_end_offset
    log.update_high_watermark(other.high_watermark)
    log.highest_remote_offset = other.highest_remote_offset
    log.producers.take_over(other.producers)


def take_name(
    current: UnifiedLog | None, future: UnifiedLog, doomed: DoomedDirectories, now_ms: int
) -> str:
    """Rename the directory of a future log to the partition's name; answers the new path.

    That of the current log goes out of the way first, and comes back if the other disk fails.
    Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    log_dir = future.log_dir
    directory = f"{log_dir.path}/{partition_directory_name(future.topic_partition)}"
    given_up = ""
    if current is not None:
        current.log_dir.check()
        try:
            given_up = doomed.doom(current, now_ms, durably=False)
            current.log_dir.files.sync_dir(current.log_dir.path)
        except OSError as error:
            failure = current.log_dir.fail(error)
            if given_up and current.log_dir.is_online:
                # It is appended to on and on: no start may take it for one that is given up.
                doomed.spare(given_up)
                _take_name_back(current, given_up)
            raise failure from error
    try:
        rename_durably(log_dir.files, future.directory, directory)
    except OSError as error:
        if current is not None:
            doomed.spare(given_up)
            _take_name_back(current, given_up)
        raise log_dir.fail(error) from error
    return directory


def _take_name_back(current: UnifiedLog, given_up: str) -> None:
    log_dir = current.log_dir
    try:
        rename_durably(log_dir.files, given_up, current.directory)
    except OSError as error:
        log_dir.fail(error)

"""Chooses the log directory for a new log (`LogManager.nextLogDirs` in Kafka).

In order of preference: the directory in the cluster metadata (KIP-858), the directory that an admin
requested before the log was created (KIP-113), the directory with the fewest logs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicPartition
from ..directory.log_dir import LogDir
from ..log.unified_log import UnifiedLog

_PREFERRED_MAX = 10_000


class LogPlacement:
    """The log directories of a broker, and the requested placements."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        self._log_dirs = log_dirs
        self._preferred: dict[TopicPartition, LogDir] = {}

    def directory_at(self, path: str) -> LogDir:
        """The log directory with this path.

        Raises KafkaError: LOG_DIR_NOT_FOUND if there is none, KAFKA_STORAGE_ERROR if it is offline.
        """
        for log_dir in self._log_dirs:
            if log_dir.path == path:
                if not log_dir.is_online:
                    raise KafkaError(
                        ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline"
                    )
                return log_dir
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")

    def prefer(self, topic_partition: TopicPartition, log_dir: LogDir) -> None:
        """Request that the log be created there; ignored if too many requests are pending."""
        if len(self._preferred) < _PREFERRED_MAX:
            self._preferred[topic_partition] = log_dir

    def forget(self, topic_partition: TopicPartition) -> None:
        self._preferred.pop(topic_partition, None)

    def directory_for(
        self,
        topic_partition: TopicPartition,
        directory_id: Uuid | None,
        logs: Callable[[], Iterable[UnifiedLog]],
    ) -> LogDir:
        """The directory for a new log. The metadata expects the log in `directory_id`.

        `logs` returns the existing logs; it is called only if they must be counted. Raises
        KafkaError(KAFKA_STORAGE_ERROR) if the expected directory may be offline.
        """
        preferred = self._preferred.pop(topic_partition, None)
        online = [log_dir for log_dir in self._log_dirs if log_dir.is_online]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "All log directories are offline.")
        for log_dir in online:
            if log_dir.directory_id == directory_id:
                return log_dir
        if directory_id is not None and len(online) < len(self._log_dirs):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The log of {topic_partition} may be in a directory that is offline.",
            )
        if preferred in online:
            return preferred
        if len(online) == 1:
            return online[0]
        counts = Counter(log.log_dir for log in logs())
        return min(online, key=lambda log_dir: counts[log_dir])

"""The parts from which the loader assembles a log."""

from dataclasses import dataclass

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ..directory.log_dir import LogDir
from ..producer.producer_state import ProducerStateManager
from .bounds import LogBounds
from .leader_epoch import LeaderEpochCache
from .local_log import LocalLog


@dataclass(slots=True)
class LogParts:
    """The parts of one partition's log, which `UnifiedLog` combines.

    Only the topic id may change: when a lost or damaged partition.metadata is rewritten.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    log_dir: LogDir
    local: LocalLog
    leader_epochs: LeaderEpochCache
    producers: ProducerStateManager
    damaged_from: int | None = None
    """The first offset that cannot be read although later ones can; see `replica_repair.py`."""

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, *self.topic_partition)

    @property
    def bounds(self) -> LogBounds:
        return self.local.bounds

    @property
    def is_tiered(self) -> bool:
        return self.local.config.remote_storage_enable

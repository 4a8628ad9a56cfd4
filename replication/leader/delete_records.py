"""DeleteRecords: permanently moves a partition's log start offset forward (KIP-107).

The leader moves its log start offset at once, and the followers do so when they fetch. The request
is answered when the low watermark, the smallest log start offset of all replicas, has reached
the offset, or with REQUEST_TIMED_OUT after its timeout; the leader's records are gone either way.
"""

from dataclasses import dataclass

from ...clients.errors import ErrorCode, KafkaError
from ...clients.topic_partition import TopicPartition
from ..partition.partition import Partition
from ..topic_names import REMOTE_LOG_METADATA_TOPIC
from .delayed_replication import DelayedReplication

UP_TO_HIGH_WATERMARK = -1
"""The offset that deletes everything that consumers can see."""


@dataclass(slots=True)
class DeleteRecordsResult:
    """The result for one partition."""

    topic_partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1


@dataclass(slots=True)
class UnsettledDeletion:
    """Records that are gone from the leader but not from every replica."""

    partition: Partition
    offset: int
    result: DeleteRecordsResult

    def settle(self) -> bool:
        """Update the result's low watermark; return whether nothing is left to wait for."""
        partition, result = self.partition, self.result
        if not partition.is_leader:
            result.error = partition.not_leader().code
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.offset


DelayedDeleteRecords = DelayedReplication[DeleteRecordsResult]


def check_is_not_tier_metadata(partition: Partition) -> None:
    """Refuse the topic that holds the remote tier's metadata. Raises KafkaError."""
    topic = partition.topic_partition.topic
    if topic == REMOTE_LOG_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}"
        )


def delete_records_of(partition: Partition, offset: int) -> int:
    """Move the leader's log start offset; return the offset that every replica must reach.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION for the coordinators' topics, POLICY_VIOLATION for
    topics without the delete policy, OFFSET_OUT_OF_RANGE, or as `Partition.leader_log` does.
    """
    if partition.is_internal:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot delete records of internal topic {partition.topic_partition.topic}",
        )
    log = partition.leader_log()
    if log.read_only_reason:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, log.read_only_reason)
    if not log.config.deletes:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Records of {partition.topic_partition} can't be deleted: "
            "its cleanup.policy is not delete.",
        )
    if offset == UP_TO_HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Records of {partition.topic_partition} can be deleted up to the high watermark "
            f"{log.high_watermark}, not to {offset}.",
        )
    log.maybe_increment_log_start_offset(offset)
    return offset

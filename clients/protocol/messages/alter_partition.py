"""AlterPartition (key 56): a leader asks the controller for another ISR (KIP-497).

Versions: 2 topic ids and new errors (KIP-841); 3 broker epochs of the ISR's members (KIP-903).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int8, int16, int32
from .alter_partition_request import AlterPartitionRequest as AlterPartitionRequest


class PartitionData(Struct):
    """An error, or the partition's state as committed."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    isr: list[int32] = field("0+")
    leader_recovery_state: int8 = field("1+", ignorable=True)
    partition_epoch: int32 = field("0+")


class TopicData(Struct):
    """One topic by its id."""

    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[PartitionData] = field("0+")


class AlterPartitionResponse(Message, key=56, versions="2-3", flexible="0+"):
    """The state of each partition, or why it stays as it was."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")

"""The AlterPartition request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int8, int32, int64


class BrokerState(Struct):
    """A member of the ISR; the epoch is -1 if it must not be checked."""

    broker_id: int32 = field("3+")
    broker_epoch: int64 = field("3+", default=-1)


class PartitionData(Struct):
    """The new ISR, and the epochs of the state that it replaces."""

    partition_index: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    new_isr: list[int32] = field("0-2")
    new_isr_with_epochs: list[BrokerState] = field("3+")
    leader_recovery_state: int8 = field("1+")
    partition_epoch: int32 = field("0+")


class TopicData(Struct):
    """One topic by its id."""

    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[PartitionData] = field("0+")


class AlterPartitionRequest(Message, key=56, versions="2-3", flexible="0+"):
    """Partitions that the broker leads, and the ISR that each should have."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    topics: list[TopicData] = field("0+")

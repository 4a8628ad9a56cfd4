"""The AssignReplicasToDirs request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int32, int64


class PartitionData(Struct):
    """One partition."""

    partition_index: int32 = field("0+")


class TopicData(Struct):
    """One topic by its id."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class DirectoryData(Struct):
    """A log directory by its id, and replicas in it."""

    id: Uuid = field("0+")
    topics: list[TopicData] = field("0+")


class AssignReplicasToDirsRequest(Message, key=73, versions="0", flexible="0+"):
    """The directories of replicas."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    directories: list[DirectoryData] = field("0+")

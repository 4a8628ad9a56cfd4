"""AssignReplicasToDirs (key 73): a broker reports the directories of its replicas (KIP-858).

The only version is 0, which is flexible.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32
from .assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest as AssignReplicasToDirsRequest,
)


class PartitionData(Struct):
    """One partition, and its error."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class TopicData(Struct):
    """One topic by its id."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class DirectoryData(Struct):
    """A log directory by its id."""

    id: Uuid = field("0+")
    topics: list[TopicData] = field("0+")


class AssignReplicasToDirsResponse(Message, key=73, versions="0", flexible="0+"):
    """Whether each replica's directory was recorded."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    directories: list[DirectoryData] = field("0+")

"""AlterReplicaLogDirs (key 34): moves replicas between log directories of one broker (KIP-113).

Versions: 2 flexible.
"""

from ..schema import Message, Struct, field, int16, int32


class AlterReplicaLogDirTopic(Struct):
    """One topic and some of its partitions."""

    name: str = field("0+")
    partitions: list[int32] = field("0+")


class AlterReplicaLogDir(Struct):
    """A directory by its absolute path, and the partitions to move to it."""

    path: str = field("0+")
    topics: list[AlterReplicaLogDirTopic] = field("0+")


class AlterReplicaLogDirsRequest(Message, key=34, versions="1-2", flexible="2+"):
    """The target directories of replicas."""

    dirs: list[AlterReplicaLogDir] = field("0+")


class AlterReplicaLogDirPartitionResult(Struct):
    """Whether the move of one partition was started."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = field("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field("0+")


class AlterReplicaLogDirsResponse(Message, key=34, versions="1-2", flexible="2+"):
    """The result for each requested partition."""

    throttle_time_ms: int32 = field("0+")
    results: list[AlterReplicaLogDirTopicResult] = field("0+")

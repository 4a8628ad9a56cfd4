"""ElectLeaders (key 43): elects the leaders of partitions (KIP-183, KIP-460).

Versions: 1 unclean elections and a top-level error; 2 flexible.
"""

from ..schema import Message, Struct, field, int8, int16, int32


class TopicPartitions(Struct):
    """One topic and some of its partitions."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    """The election type and the partitions; null means all partitions."""

    election_type: int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+", default=60000)


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    """One topic and its partitions."""

    topic: str = field("0+")
    partition_result: list[PartitionResult] = field("0+")


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    """The result for each partition."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field("0+")

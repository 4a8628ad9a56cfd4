"""The DescribeQuorum request; its own module, because the response reuses its struct names."""

from ..schema import Message, Struct, field, int32


class PartitionData(Struct):
    """One partition."""

    partition_index: int32 = field("0+")


class TopicData(Struct):
    """One topic and its partitions."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    """The partitions to describe: only `__cluster_metadata` has a quorum."""

    topics: list[TopicData] = field("0+")

"""The Vote request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int32, int64


class PartitionData(Struct):
    """The candidate, the voter that is asked, and the end of the candidate's log."""

    partition_index: int32 = field("0+")
    replica_epoch: int32 = field("0+")
    replica_id: int32 = field("0+")
    replica_directory_id: Uuid = field("1+", ignorable=True)
    voter_directory_id: Uuid = field("1+", ignorable=True)
    last_offset_epoch: int32 = field("0+")
    last_offset: int64 = field("0+")
    pre_vote: bool = field("2+")


class TopicData(Struct):
    """The metadata topic."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class VoteRequest(Message, key=52, versions="0-2", flexible="0+"):
    """A candidate's epoch, and the end of its log."""

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("0+")

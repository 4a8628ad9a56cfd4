"""DescribeQuorum (key 55): the voters and observers of the metadata log (KIP-595).

Versions: 1 the last fetch times of replicas (KIP-836); 2 directory ids, listeners and messages
(KIP-853).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, int64, uint16
from .describe_quorum_request import DescribeQuorumRequest as DescribeQuorumRequest


class ReplicaState(Struct):
    """One replica's log end offset, and when it last fetched."""

    replica_id: int32 = field("0+")
    replica_directory_id: Uuid = field("2+")
    log_end_offset: int64 = field("0+")
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)


class PartitionData(Struct):
    """The leader, the voters and the observers."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("2+", nullable="2+", ignorable=True)
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    high_watermark: int64 = field("0+")
    current_voters: list[ReplicaState] = field("0+")
    observers: list[ReplicaState] = field("0+")


class TopicData(Struct):
    """One topic and its partitions."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class Listener(Struct):
    """One address of a voter."""

    name: str = field("2+")
    host: str = field("2+")
    port: uint16 = field("2+")


class Node(Struct):
    """A voter and its listeners."""

    node_id: int32 = field("2+")
    listeners: list[Listener] = field("2+")


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    """The quorum as its leader knows it."""

    error_code: int16 = field("0+")
    error_message: str | None = field("2+", nullable="2+", ignorable=True)
    topics: list[TopicData] = field("0+")
    nodes: list[Node] = field("2+")

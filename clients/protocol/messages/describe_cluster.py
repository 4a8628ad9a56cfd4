"""DescribeCluster (key 60): brokers, controller and cluster id, without any topic.

Versions: 1 selects brokers or controllers (KIP-919); 2 fenced brokers (KIP-1073).
"""

from ..schema import Message, Struct, field, int8, int16, int32


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    """The kind of nodes to describe."""

    include_cluster_authorized_operations: bool = field("0+")
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+")


class DescribeClusterBroker(Struct):
    """One node and its address."""

    broker_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("0+", nullable="0+", default=None)
    is_fenced: bool = field("2+")


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    """The cluster as this node sees it."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: str = field("0+")
    controller_id: int32 = field("0+", default=-1)
    brokers: list[DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: int32 = field("0+", default=-2147483648)

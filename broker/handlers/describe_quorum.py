"""DescribeQuorum (key 55), versions 0-2: the quorum of the metadata log (KIP-595).

A node that is the only voter leads the quorum and is always caught up. In a quorum of several only
the leader knows the replicas; another node answers NOT_LEADER_OR_FOLLOWER, as Kafka does.

v1: when each replica last fetched and was caught up (KIP-836)
v2: error messages; directory ids, which static voters do not have; the nodes and their listeners
    for controllers, if there are any (KIP-853)
"""

from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from ...clients.protocol.messages.describe_quorum_request import (
    PartitionData as AskedPartition,
    TopicData as AskedTopic,
)
from ...replication.metadata.metadata_log import METADATA_PARTITION
from ..request.context import NodeContext, RequestContext
from ..request.lazy_list import lazy_list

if TYPE_CHECKING:
    from ...replication.quorum.quorum import Quorum
    from ...replication.raft.raft_messages import ReplicaStatus

_FIRST_WITH_NODES = 2
"""The first version with directories, nodes and error messages."""

_NOT_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the "
    "current leader. For requests intended for any replica, this error indicates that the broker is"
    " not a replica of the topic partition."
)
"""Kafka's message of NOT_LEADER_OR_FOLLOWER."""


def handle(
    broker: NodeContext, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the metadata log; any other partition gets UNKNOWN_TOPIC_OR_PARTITION."""
    partitions = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if len(request.topics) != 1 or partitions != [tuple(METADATA_PARTITION)]:
        return _unknown(request)
    if broker.member is not None:
        quorum = broker.member.quorum.quorum
        now_ms = broker.environment.wall_clock_ms()
        return describe_quorum(quorum, now_ms, context.api_version)
    metadata_log = broker.controller.metadata_log
    node_id = broker.config.node_id
    now_ms = broker.environment.wall_clock_ms()
    leader = ReplicaState(
        replica_id=node_id,
        log_end_offset=metadata_log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = PartitionData(
        partition_index=METADATA_PARTITION.partition,
        leader_id=node_id,
        leader_epoch=metadata_log.epoch,
        high_watermark=metadata_log.high_watermark,
        current_voters=[leader],
    )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        nodes=(
            [Node(node_id=node_id, listeners=_listeners(broker))]
            if context.api_version >= _FIRST_WITH_NODES
            else []
        ),
    )


def describe_quorum(quorum: "Quorum", now_ms: int, version: int) -> DescribeQuorumResponse:
    """The quorum as this node knows it. `now_ms` is the wall clock's time."""
    described = quorum.describe()
    partition = PartitionData(partition_index=METADATA_PARTITION.partition)
    if described.partition_error_code:
        partition.error_code = described.partition_error_code
        partition.error_message = _NOT_LEADER
    else:
        states = (
            [_state(replica, quorum, now_ms, version) for replica in replicas]
            for replicas in (described.current_voters, described.observers)
        )
        partition.leader_id = described.leader_id
        partition.leader_epoch = described.leader_epoch
        partition.high_watermark = described.high_watermark
        partition.current_voters, partition.observers = states
    has_nodes = version >= _FIRST_WITH_NODES and not partition.error_code
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        nodes=[
            Node(
                node_id=voter.key.id,
                listeners=[
                    Listener(name=name, host=address.host, port=address.port)
                    for name, address in voter.endpoints.items()
                ],
            )
            for voter in (quorum.voters if has_nodes else ())
        ],
    )


def _state(status: "ReplicaStatus", quorum: "Quorum", now_ms: int, version: int) -> ReplicaState:
    state = ReplicaState(
        replica_id=status.replica_id,
        log_end_offset=status.log_end_offset,
        last_fetch_timestamp=_time(status.last_fetch_timestamp, quorum, now_ms),
        last_caught_up_timestamp=_time(status.last_caught_up_timestamp, quorum, now_ms),
    )
    if version >= _FIRST_WITH_NODES:
        state.replica_directory_id = status.replica_directory_id
    return state


def _time(time_ms: int, quorum: "Quorum", now_ms: int) -> int:
    return time_ms if time_ms < 0 else now_ms - quorum.ms_since(time_ms)


def _listeners(broker: NodeContext) -> list[Listener]:
    """A static voter has one address, that of its entry; others have those that they advertise."""
    quorum = broker.config.quorum
    if quorum.own_voter is not None and quorum.controller_listeners:
        _, host, port = quorum.own_voter
        return [Listener(name=quorum.controller_listeners[0], host=host, port=port)]
    return [
        Listener(name=controller.name, host=controller.host, port=controller.port)
        for controller in broker.listeners.advertised_controllers
    ]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(topics=lazy_list(_unknown_topic, request.topics))


def _unknown_topic(topic: AskedTopic) -> TopicData:
    return TopicData(
        topic_name=topic.topic_name,
        partitions=lazy_list(_unknown_partition, topic.partitions),
    )


def _unknown_partition(partition: AskedPartition) -> PartitionData:
    return PartitionData(
        partition_index=partition.partition_index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )

"""DescribeQuorum (key 55), versions 0-2: the quorum of the metadata log (KIP-595).

This node is the only voter: it leads the quorum and is always caught up.

v1: when each replica last fetched and was caught up (KIP-836)
v2: error messages; directory ids, which static voters do not have; the nodes and their listeners
    for controllers, if there are any (KIP-853)
"""

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
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_FIRST_WITH_NODES = 2


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the metadata log; any other partition gets UNKNOWN_TOPIC_OR_PARTITION."""
    partitions = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if len(request.topics) != 1 or partitions != [tuple(METADATA_PARTITION)]:
        return _unknown(request)
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


def _listeners(broker: BrokerContext) -> list[Listener]:
    """A static voter has one address, that of its entry; others have those that they advertise."""
    quorum = broker.config.quorum
    if quorum.own_voter is not None and quorum.controller_listeners:
        _, host, port = quorum.own_voter
        return [Listener(name=quorum.controller_listeners[0], host=host, port=port)]
    return [
        Listener(name=each.name, host=each.host, port=each.port)
        for each in broker.listeners.advertised_controllers
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

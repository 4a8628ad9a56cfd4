"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups and their members (KIP-848).

A classic group gets GROUP_ID_NOT_FOUND here, as a consumer group does in DescribeGroups. The
assignments leave out topics that have been deleted since.

v1: the protocol of each member, classic or consumer
"""

from collections.abc import Iterable

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ...replication.metadata.cluster_image import ClusterImage
from ..coordinator.consumer.consumer_group_description import ConsumerMemberDescription
from ..coordinator.consumer.consumer_records import by_topic
from ..request.authorized_operations import GROUP_OPERATIONS, OPERATIONS_NOT_REQUESTED
from ..request.consumer_protocol import serves_consumer_groups
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_CLASSIC, _CONSUMER = 0, 1


def handle(
    broker: BrokerContext, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    if not serves_consumer_groups(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        refused = [DescribedGroup(group_id=each, error_code=error) for each in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)

    def describe(group_id: str) -> DescribedGroup:
        group = _described(broker, group_id)
        has_operations = request.include_authorized_operations and not group.error_code
        group.authorized_operations = (
            GROUP_OPERATIONS if has_operations else OPERATIONS_NOT_REQUESTED
        )
        return group

    return ConsumerGroupDescribeResponse(groups=lazy_list(describe, request.group_ids))


def _described(broker: BrokerContext, group_id: str) -> DescribedGroup:
    coordinator = broker.group_coordinator
    error, group = coordinator.describe_consumer_group(group_id)
    if group is None:
        sentence = None
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            is_classic = coordinator.describe_group(group_id)[0] is ErrorCode.NONE
            what = "is not a consumer group" if is_classic else "not found"
            sentence = f"Group {group_id} {what}."
        return DescribedGroup(group_id=group_id, error_code=error, error_message=sentence)
    image = broker.controller.image
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, image) for member in group.members],
    )


def _member(member: ConsumerMemberDescription, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(member.target, image),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(partitions: Iterable[tuple[Uuid, int]], image: ClusterImage) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )

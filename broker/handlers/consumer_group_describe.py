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
from ...coordinator.consumer.consumer_group_description import ConsumerMemberDescription
from ...coordinator.consumer.consumer_records import by_topic
from ...replication.metadata.cluster_image import ClusterImage
from ...security.access import DESCRIBE, GROUP, TOPIC, Access, access_of
from ..request.authorized_operations import OPERATIONS_NOT_REQUESTED, group_operations
from ..request.consumer_protocol import serves_consumer_groups
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_CLASSIC, _CONSUMER = 0, 1

_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."
"""Kafka's message."""


def handle(
    broker: BrokerContext, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe each group; those that the client may not describe come first, as in Kafka."""
    if not serves_consumer_groups(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        refused = [DescribedGroup(group_id=each, error_code=error) for each in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)
    access = access_of(broker, context)
    names = request.group_ids
    allowed = None if access is None else access.allowed(DESCRIBE, GROUP, names)
    if allowed is not None:
        names = sorted(names, key=allowed.__contains__)

    def describe(group_id: str) -> DescribedGroup:
        if allowed is not None and group_id not in allowed:
            return _error_group(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        group = _describe(broker, group_id)
        if access is not None and _shows_hidden_topics(access, group):
            return _error_group(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)
        has_operations = request.include_authorized_operations and not group.error_code
        group.authorized_operations = (
            group_operations(access, group_id) if has_operations else OPERATIONS_NOT_REQUESTED
        )
        return group

    return ConsumerGroupDescribeResponse(groups=lazy_list(describe, names))


def _error_group(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        error_code=error,
        error_message=message,
        authorized_operations=OPERATIONS_NOT_REQUESTED,
    )


def _shows_hidden_topics(access: Access, group: DescribedGroup) -> bool:
    """Whether a member shows a topic that the client may not describe (CVE-2026-41115)."""
    names = {
        name
        for member in group.members
        for name in (
            *(member.subscribed_topic_names or ()),
            *(topic_partition.topic_name for topic_partition in member.assignment.topic_partitions),
            *(
                topic_partition.topic_name
                for topic_partition in member.target_assignment.topic_partitions
            ),
        )
    }
    return access.allowed(DESCRIBE, TOPIC, names) != names


def _describe(broker: BrokerContext, group_id: str) -> DescribedGroup:
    coordinator = broker.group_coordinator
    error, group = coordinator.describe_consumer_group(group_id)
    if group is None:
        message = None
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            is_classic = coordinator.describe_group(group_id)[0] is ErrorCode.NONE
            what = "is not a consumer group" if is_classic else "not found"
            message = f"Group {group_id} {what}."
        return DescribedGroup(group_id=group_id, error_code=error, error_message=message)
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

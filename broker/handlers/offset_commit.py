"""OffsetCommit (key 8), versions 2-10: stores a group's committed offsets.

The response is sent once the offsets are in the log, with one error code per partition.

v2-v4: retention time
v3: throttle time
v6: leader epoch
v7: group instance id (KIP-345)
v8: flexible
v9: a missing group causes GROUP_ID_NOT_FOUND
v10: topic ids instead of names
"""

from collections.abc import Generator, Iterable
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...coordinator.group_actions import MemberIdentity
from ...coordinator.offsets import CommitRequest, OffsetToCommit
from ...replication.metadata.cluster_image import ClusterImage
from ...security.access import GROUP, READ, TOPIC, Access, access_of
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.lazy_list import lazy_list

_BROKERS_RETENTION = -1
_FIRST_KNOWING_GROUP_ID_NOT_FOUND = 9
_FIRST_WITH_TOPIC_IDS = 10


def handle(
    broker: BrokerContext, context: RequestContext, request: OffsetCommitRequest
) -> Generator[None, None, OffsetCommitResponse | Deferred[list[ErrorCode]]]:
    image = broker.controller.image
    access = access_of(broker, context)
    if access is not None and not access.allows(READ, GROUP, request.group_id):
        partitions = sum(len(topic.partitions) for topic in request.topics)
        return _response(request, [ErrorCode.GROUP_AUTHORIZATION_FAILED] * partitions)
    by_id = context.api_version >= _FIRST_WITH_TOPIC_IDS
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        for offset in _offsets_of(topic, image, by_id, access):
            offsets.append(offset)
            yield
    # Like Kafka, skip the coordinator if no offset belongs to an existing partition.
    if all(offset.error for offset in offsets):
        return _response(request, [offset.error for offset in offsets])
    retention_ms = request.retention_time_ms
    commit = CommitRequest(
        group_id=request.group_id,
        identity=MemberIdentity(request.member_id, request.group_instance_id),
        generation=request.generation_id_or_member_epoch,
        retention_ms=None if retention_ms == _BROKERS_RETENTION else retention_ms,
        knows_group_id_not_found=context.api_version >= _FIRST_KNOWING_GROUP_ID_NOT_FOUND,
        offsets=offsets,
    )
    coordinator = broker.group_coordinator
    prepared = yield from coordinator.prepare_commit(commit)
    answer = coordinator.commit_offsets(prepared)
    if isinstance(answer, list):
        return _response(request, answer)
    return Deferred(answer, partial(_response, request))


def _offsets_of(
    topic: OffsetCommitRequestTopic, image: ClusterImage, by_id: bool, access: Access | None
) -> Iterable[OffsetToCommit]:
    image_topic = (
        image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
    )
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = topic.name if image_topic is None else image_topic.name
    # An id that is not there has no name, and so no entry can be about it.
    has_name = image_topic is not None or not by_id
    is_denied = access is not None and has_name and not access.allows(READ, TOPIC, name)
    for partition in topic.partitions:
        error = ErrorCode.NONE
        if is_denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image_topic is None:
            error = missing
        elif partition.partition_index not in image_topic.partitions:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield OffsetToCommit(
            name,
            ZERO_UUID if image_topic is None else image_topic.topic_id,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            error,
        )


def _response(request: OffsetCommitRequest, errors: list[ErrorCode]) -> OffsetCommitResponse:
    """The response: each requested partition with its error code, in request order."""
    remaining = iter(errors)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=lazy_list(
                    _partition, [(partition, next(remaining)) for partition in topic.partitions]
                ),
            )
            for topic in request.topics
        ]
    )


def _partition(
    answered: tuple[OffsetCommitRequestPartition, ErrorCode],
) -> OffsetCommitResponsePartition:
    partition, error = answered
    return OffsetCommitResponsePartition(
        partition_index=partition.partition_index, error_code=error
    )

"""OffsetDelete (key 47), version 0: deletes some of a group's committed offsets (KIP-496).

The response is sent once the deletion is in the log, with one error code per partition:
UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist, GROUP_SUBSCRIBED_TO_TOPIC if a member
subscribes to the topic. An offset that was never committed counts as deleted.
"""

import asyncio
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..request.context import BrokerContext, Deferred, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[ErrorCode]:
    """Delete the offsets."""
    image = broker.controller.image
    missing = {
        (topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if image.partition(topic.name, each.partition_index) is None
    }
    offsets = [
        (topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if (topic.name, each.partition_index) not in missing
    ]
    answer, in_use = broker.group_coordinator.delete_offsets(request.group_id, offsets)
    respond = partial(_response, request, missing, in_use)
    return Deferred(answer, respond) if isinstance(answer, asyncio.Future) else respond(answer)


def _response(
    request: OffsetDeleteRequest,
    missing: set[tuple[str, int]],
    in_use: frozenset[str],
    error: ErrorCode,
) -> OffsetDeleteResponse:
    if error:
        return OffsetDeleteResponse(error_code=error)

    def error_of(topic: str, partition: int) -> ErrorCode:
        if (topic, partition) in missing:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in in_use else ErrorCode.NONE

    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=error_of(topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

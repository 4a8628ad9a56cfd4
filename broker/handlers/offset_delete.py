"""OffsetDelete (key 47), version 0: deletes some of a group's committed offsets (KIP-496).

The response is sent once the deletion is in the log, with one error code per partition:
UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist, GROUP_SUBSCRIBED_TO_TOPIC if a member
subscribes to the topic. An offset that was never committed counts as deleted.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ...security.access import DELETE, GROUP, READ, TOPIC, access_of
from ..request.context import BrokerContext, Deferred, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[ErrorCode]:
    """Delete the offsets."""
    image = broker.controller.image
    access = access_of(broker, context)
    denied: set[str] = set()
    if access is not None:
        if not access.allows(DELETE, GROUP, request.group_id):
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        names = {topic.name for topic in request.topics}
        denied = names - access.allowed(READ, TOPIC, names)
    refused: dict[tuple[str, int], ErrorCode] = {}
    offsets: list[tuple[str, int]] = []
    for topic in request.topics:
        for each in topic.partitions:
            partition = (topic.name, each.partition_index)
            if topic.name in denied:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(*partition) is None:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets.append(partition)
    answer, in_use = broker.group_coordinator.delete_offsets(request.group_id, offsets)
    respond = partial(_response, request, refused, in_use)
    return Deferred(answer, respond) if isinstance(answer, asyncio.Future) else respond(answer)


def _response(
    request: OffsetDeleteRequest,
    refused: Mapping[tuple[str, int], ErrorCode],
    in_use: frozenset[str],
    error: ErrorCode,
) -> OffsetDeleteResponse:
    if error:
        return OffsetDeleteResponse(error_code=error)

    def error_of(topic: str, partition: int) -> ErrorCode:
        if (error := refused.get((topic, partition))) is not None:
            return error
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in in_use else ErrorCode.NONE

    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_of(topic.name, partition.partition_index),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

"""OffsetFetch (key 9), versions 1-10: a group's committed offsets.

A partition without a committed offset has offset -1 and no error, even if the group does not exist.

v2: null means all topics; top-level error
v3: throttle time
v5: leader epoch
v6: flexible
v7: `require_stable` waits for pending commits; UNSTABLE_OFFSET_COMMIT while a transaction is
    undecided (KIP-447)
v8: several groups (KIP-709)
v9: member id and epoch, which are checked for a consumer group (KIP-848)
v10: topic ids instead of names
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ...coordinator.fetched_offsets import Fetched, FetchedTopic
from ...coordinator.group_records import CommittedOffset
from ...coordinator.offsets import (
    NO_COMMITTED_OFFSET,
    NOBODY,
    UNSTABLE_OFFSET,
    FetchTopic,
    MemberClaim,
)
from ...coordinator.result_or_future import ResultOrFuture
from ...replication.metadata.cluster_image import ClusterImage
from ...security.access import DESCRIBE, GROUP, TOPIC, Access, access_of
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_FIRST_WITH_TOP_LEVEL_ERROR = 2
_FIRST_WITH_SEVERAL_GROUPS = 8
_FIRST_WITH_TOPIC_IDS = 10


_DENIED = NO_COMMITTED_OFFSET._replace(commit_timestamp_ms=-1)
"""The answer for a partition of a topic that the client may not describe."""
_GROUP_DENIED: Fetched = (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


class _GroupRequest(NamedTuple):
    """One group of a request, whatever its version; `topics` is None for all topics."""

    group_id: str
    topics: Sequence[FetchTopic] | None
    claim: MemberClaim = NOBODY
    denied: Sequence[FetchTopic] = ()
    """Named topics that the client may not describe; the coordinator does not hear of them."""
    is_denied: bool = False
    """The client may not describe the group."""

    def visible_part(self, access: Access, *, by_id: bool) -> "_GroupRequest":
        """The request as far as the client may see."""
        if not access.allows(DESCRIBE, GROUP, self.group_id):
            return self._replace(is_denied=True)
        if self.topics is None:
            return self
        names = [topic.topic for topic in self.topics]
        if by_id:
            # An id that is not there has no name, and so no entry can be about it.
            allowed = access.allowed(DESCRIBE, TOPIC, filter(None, names)) | {""}
        else:
            allowed = access.allowed(DESCRIBE, TOPIC, names)
        return self._replace(
            topics=[topic for topic in self.topics if topic.topic in allowed],
            denied=[topic for topic in self.topics if topic.topic not in allowed],
        )

    def visible(self, answer: Fetched, access: Access) -> Fetched:
        """What the client may see of the coordinator's answer."""
        error, fetched = answer
        if error:
            return answer
        if self.topics is None:
            shown = access.allowed(DESCRIBE, TOPIC, (topic.topic for topic in fetched))
            return error, [topic for topic in fetched if topic.topic in shown]
        return error, [
            *fetched,
            *(
                FetchedTopic(
                    topic.topic, topic.topic_id, [(index, _DENIED) for index in topic.partitions]
                )
                for topic in self.denied
            ),
        ]


def handle(
    broker: BrokerContext, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Coroutine[object, object, OffsetFetchResponse]:
    image = broker.controller.image
    fetch = broker.group_coordinator.fetch_offsets
    groups = list(_groups_of(request, image, context.api_version))
    access = access_of(broker, context)
    if access is not None:
        by_id = context.api_version >= _FIRST_WITH_TOPIC_IDS
        groups = [group.visible_part(access, by_id=by_id) for group in groups]
    stable = request.require_stable
    answers = [
        _GROUP_DENIED
        if group.is_denied
        else fetch(group.group_id, group.topics, stable, group.claim)
        for group in groups
    ]
    respond = partial(_response, image, context.api_version, groups, access)
    settled = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
    return respond(settled) if len(settled) == len(answers) else _later(respond, answers)


async def _later(
    respond: Callable[[list[Fetched]], OffsetFetchResponse],
    answers: list[ResultOrFuture[Fetched]],
) -> OffsetFetchResponse:
    settled = [await answer if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return respond(settled)


def _groups_of(
    request: OffsetFetchRequest, image: ClusterImage, version: int
) -> Iterable[_GroupRequest]:
    if version < _FIRST_WITH_SEVERAL_GROUPS:
        topics = request.topics
        yield _GroupRequest(
            request.group_id,
            None
            if topics is None
            else [_by_name(image, topic.name, topic.partition_indexes) for topic in topics],
        )
        return
    by_id = version >= _FIRST_WITH_TOPIC_IDS
    for group in request.groups:
        yield _GroupRequest(
            group.group_id,
            None
            if group.topics is None
            else [_fetch_topic(image, topic, by_id) for topic in group.topics],
            MemberClaim(group.member_id, group.member_epoch),
        )


def _fetch_topic(image: ClusterImage, topic: OffsetFetchRequestTopics, by_id: bool) -> FetchTopic:
    if not by_id:
        return _by_name(image, topic.name, topic.partition_indexes)
    image_topic = image.topics_by_id.get(topic.topic_id)
    # No topic has an empty name, so this becomes UNKNOWN_TOPIC_ID.
    name = "" if image_topic is None else image_topic.name
    return FetchTopic(name, topic.topic_id, topic.partition_indexes)


def _by_name(image: ClusterImage, name: str, partitions: Sequence[int]) -> FetchTopic:
    image_topic = image.topics_by_name.get(name)
    return FetchTopic(name, ZERO_UUID if image_topic is None else image_topic.topic_id, partitions)


def _response(
    image: ClusterImage,
    version: int,
    requests: list[_GroupRequest],
    access: Access | None,
    answers: list[Fetched],
) -> OffsetFetchResponse:
    if access is not None:
        pairs = zip(requests, answers, strict=True)
        answers = [pair.visible(answer, access) for pair, answer in pairs]
    if version < _FIRST_WITH_SEVERAL_GROUPS:
        return _response_of_one_group(version, requests[0], answers[0])
    by_id = version >= _FIRST_WITH_TOPIC_IDS
    groups: list[OffsetFetchResponseGroup] = []
    for request, (error, fetched) in zip(requests, answers, strict=True):
        topics: list[OffsetFetchResponseTopics] = []
        for topic in fetched:
            if request.topics is None and by_id:
                image_topic = image.topics_by_name.get(topic.topic)
                if image_topic is None:
                    # The topic was just deleted, and the response would need its id.
                    continue
                topic = topic._replace(topic_id=image_topic.topic_id)
            topics.append(_topic(topic, by_id))
        if by_id:
            # Like Kafka, put unknown topics last.
            topics.sort(key=lambda topic: not topic.name)
        groups.append(
            OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=error)
        )
    return OffsetFetchResponse(groups=groups)


def _topic(topic: FetchedTopic, by_id: bool) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and not topic.topic else ErrorCode.NONE
    return OffsetFetchResponseTopics(
        name=topic.topic,
        topic_id=topic.topic_id,
        partitions=_partitions(OffsetFetchResponsePartitions, error, topic),
    )


def _response_of_one_group(
    version: int, group: _GroupRequest, answer: Fetched
) -> OffsetFetchResponse:
    error, fetched = answer
    partition_error = ErrorCode.NONE
    if error and version < _FIRST_WITH_TOP_LEVEL_ERROR:
        # Version 1 has no top-level error: every partition gets the error.
        partition_error = error
        fetched = [
            FetchedTopic(
                topic.topic,
                topic.topic_id,
                [(partition, NO_COMMITTED_OFFSET) for partition in topic.partitions],
            )
            for topic in group.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.topic,
                partitions=_partitions(OffsetFetchResponsePartition, partition_error, topic),
            )
            for topic in fetched
        ],
    )


def _partitions(answer: type[P], error: ErrorCode, topic: FetchedTopic) -> list[P]:
    """The committed offsets of a topic's partitions, as the version's response class."""

    def made(fetched: tuple[int, CommittedOffset]) -> P:
        partition, committed = fetched
        return answer(
            partition_index=partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=error or _stability(committed),
        )

    return lazy_list(made, topic.partitions)


def _stability(committed: CommittedOffset) -> ErrorCode:
    if committed is _DENIED:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_undecided = committed is UNSTABLE_OFFSET
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if is_undecided else ErrorCode.NONE

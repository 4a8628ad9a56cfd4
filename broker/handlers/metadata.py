"""Metadata (key 3), versions 0-13: the brokers, the topics, and the leaders of their partitions.

A request that names a missing topic creates it, if the client (from v4 on) and
`auto.create.topics.enable` allow that. The response waits for the creation, and has the new topic.

A topic that the client may not describe gets the same answer whether it exists or not, and nothing
is created for it; a request for all topics leaves it out.

v0: an empty list means all topics; from v1 on, null means all topics
v1: rack, controller id, internal topics
v2: cluster id
v3: throttle time
v4: clients may forbid the creation of topics
v5: offline replicas
v7: leader epochs
v8: authorized operations, on request
v9: flexible
v10: returns topic ids; a v10 or v11 request with topic ids gets INVALID_REQUEST, as in Kafka
v12: topics may be requested by id
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence, Set as AbstractSet
from functools import partial
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ...clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ...coordinator.transaction.transaction_config import transaction_topic
from ...replication.metadata.cluster_image import ClusterImage, TopicImage
from ...replication.topic_names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    validate_topic_name,
)
from ...security.access import CREATE, DESCRIBE, TOPIC, Access, access_of
from ..coordinators.share_topic import share_state_topic
from ..request.active_controller import create_topics_for
from ..request.authorized_operations import (
    OPERATIONS_NOT_REQUESTED,
    cluster_operations,
    topic_operations,
)
from ..request.context import BrokerContext, RequestContext
from ..request.controller_id import controller_id
from ..request.described_topics import describe_topic
from ..request.lazy_list import lazy_list

Describe = Callable[[TopicImage], MetadataResponseTopic]


class _Denied(NamedTuple):
    """Names of topics that the client may not describe, or not create."""

    describe: AbstractSet[str] = frozenset()
    create: AbstractSet[str] = frozenset()


_NOTHING_DENIED = _Denied()

_CREATE_TIMEOUT_MS = 30_000
_LEFT_TO_RETRY = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    # The client gets no topic yet and retries; by then it may be under its quota.
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


def handle(
    broker: BrokerContext, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[object, object, MetadataResponse]:
    """Describe the requested topics; create missing ones if the request and broker allow it."""
    topics = request.topics
    version = context.api_version
    access = access_of(broker, context)
    if topics is None or (version == 0 and not topics):
        all_names: Iterable[str] = broker.controller.image.topics_by_name
        if access is not None:
            shown = access.allowed(DESCRIBE, TOPIC, all_names, audited=False)
            all_names = [name for name in all_names if name in shown]
        return _response(broker, context, request, list(all_names))
    if version < 12 and any(t.name is None or t.topic_id != ZERO_UUID for t in topics):
        return _error_response(context, topics)
    # Like Kafka, describe a topic once even if it is named twice.
    topics = list({(topic.name, topic.topic_id): topic for topic in topics}.values())
    by_id = [topic for topic in topics if topic.topic_id != ZERO_UUID]
    if by_id:
        # A request names all its topics by id or none; Java clients then leave the names empty.
        return _response(broker, context, request, by_id, _denied_by_id(broker, access, by_id))
    denied = _NOTHING_DENIED
    if access is not None:
        named = {topic.name or "" for topic in topics}
        denied = _Denied(named - access.allowed(DESCRIBE, TOPIC, named))
    if request.allow_auto_topic_creation and broker.config.values.boolean(
        "auto.create.topics.enable"
    ):
        existing = broker.controller.image.topics_by_name
        names = {t.name: None for t in topics if t.name is not None and t.name not in existing}
        missing = [name for name in names if name not in denied.describe]
        if access is not None and not access.allows_cluster(CREATE, audited=False):
            allowed = access.allowed(CREATE, TOPIC, missing)
            denied = denied._replace(create={name for name in missing if name not in allowed})
            missing = [name for name in missing if name in allowed]
        creatable = [name for name in missing if _is_valid(name)]
        if creatable:
            return _create_then_respond(broker, context, request, topics, creatable, denied)
    return _response(broker, context, request, topics, denied)


def _denied_by_id(
    broker: BrokerContext, access: Access | None, topics: Sequence[MetadataRequestTopic]
) -> _Denied:
    """The topics that the client may not describe, of those that it names by id."""
    if access is None:
        return _NOTHING_DENIED
    by_id = broker.controller.image.topics_by_id
    named = {topic.name for each in topics if (topic := by_id.get(each.topic_id)) is not None}
    return _Denied(named - access.allowed(DESCRIBE, TOPIC, named))


def _is_valid(name: str) -> bool:
    try:
        validate_topic_name(name)
    except KafkaError:
        return False
    return True


async def _create_then_respond(
    broker: BrokerContext,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    names: Sequence[str],
    denied: _Denied,
) -> MetadataResponse:
    creation = CreateTopicsRequest(
        topics=[_creatable(broker, name) for name in names],
        timeout_ms=_CREATE_TIMEOUT_MS,
    )
    created = await create_topics_for(broker, context, creation)
    refused = {
        topic.name: ErrorCode(topic.error_code)
        for topic in created.topics
        if topic.error_code not in _LEFT_TO_RETRY
    }
    return _response(broker, context, request, topics, denied, refused)


def _creatable(broker: BrokerContext, name: str) -> CreatableTopic:
    """The topic to create; internal topics as configured (`AutoTopicCreationManager`)."""
    if name == GROUP_METADATA_TOPIC:
        return broker.group_coordinator.internal_topic(name)
    if name == TRANSACTION_STATE_TOPIC:
        return transaction_topic(broker.transaction_coordinator.config)
    if name == SHARE_GROUP_STATE_TOPIC:
        return share_state_topic(broker.config)
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _error_response(
    context: RequestContext, topics: Sequence[MetadataRequestTopic]
) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in topics
        ]
    )


def _response(
    broker: BrokerContext,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic | str],
    denied: _Denied = _NOTHING_DENIED,
    refused: dict[str, ErrorCode] | None = None,
) -> MetadataResponse:
    image = broker.controller.image
    access = access_of(broker, context)
    if request.include_topic_authorized_operations:
        # Not from the cache: these descriptions are modified below.
        describe = partial(describe_topic, image, context.listener)
    else:
        describe = partial(broker.described_topics.describe, image, context.listener)

    def show(topic: MetadataRequestTopic | str) -> MetadataResponseTopic:
        hidden = _undisclosed_topic(image, topic, denied) if any(denied) else None
        if hidden is not None:
            return hidden
        if isinstance(topic, str) or (topic.name is not None and topic.topic_id == ZERO_UUID):
            shown = _named_topic(image, describe, topic, refused or {})
        else:
            shown = _topic_by_id(image, describe, topic)
        is_unknown_id = shown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        if request.include_topic_authorized_operations and not is_unknown_id:
            shown.topic_authorized_operations = topic_operations(access, shown.name or "")
        return shown

    is_requested = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=_brokers(image, context.listener),
        cluster_id=image.cluster_id,
        controller_id=controller_id(broker, context),
        topics=lazy_list(show, topics),
        cluster_authorized_operations=cluster_operations(access)
        if is_requested
        else OPERATIONS_NOT_REQUESTED,
    )


def _undisclosed_topic(
    image: ClusterImage, requested: MetadataRequestTopic | str, denied: _Denied
) -> MetadataResponseTopic | None:
    """The error for a topic that the client may not describe or create; None for any other."""
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if isinstance(requested, str):
        return None
    if requested.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(requested.topic_id)
        if topic is None or topic.name not in denied.describe:
            return None
        return MetadataResponseTopic(error_code=error, name=None, topic_id=requested.topic_id)
    name = requested.name or ""
    if name in denied.describe:
        return MetadataResponseTopic(error_code=error, name=name)
    if name in denied.create:
        is_internal = name in INTERNAL_TOPICS
        return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal)
    return None


def _brokers(image: ClusterImage, listener: str) -> list[MetadataResponseBroker]:
    brokers: list[MetadataResponseBroker] = []
    for broker in image.brokers.values():
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None and not broker.fenced:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )
    return brokers


def _named_topic(
    image: ClusterImage,
    describe: Describe,
    requested: MetadataRequestTopic | str,
    refused: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    name = requested if isinstance(requested, str) else requested.name
    assert name is not None
    topic = image.topics_by_name.get(name)
    if topic is not None:
        return describe(topic)
    code = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not _is_valid(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic_by_id(
    image: ClusterImage, describe: Describe, requested: MetadataRequestTopic
) -> MetadataResponseTopic:
    topic = image.topics_by_id.get(requested.topic_id)
    if topic is not None:
        return describe(topic)
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id
    )

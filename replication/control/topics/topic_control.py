"""Creates and deletes topics, and adds partitions to them (`ReplicationControlManager`).

Pure functions from the image, a request and the node's configuration to records and the answer.
Each topic of a request succeeds or fails independently, and every error has Kafka's code and
message. One request creates at most 10,000 partitions.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import ZERO_UUID, Uuid
from ....clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ....clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ....clients.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ....clients.protocol.schema import Message
from ....storage.config import LogConfig
from ....storage.manager.log_dirs import CLUSTER_METADATA_TOPIC
from ...metadata.cluster_image import ClusterImage, TopicImage
from ...metadata.metadata_records import RemoveTopicRecord, TopicRecord
from ...topic_names import NEVER_TIERED, colliding_topic, validate_topic_name
from ..configs.config_control import (
    cleared_elr,
    config_record,
    new_topic_config,
    topic_config_in_force,
)
from ..configs.tier_metadata_topic import check_is_kept, check_may_delete, check_may_grow
from ..controller_config import (
    RECORDS_PER_OPERATION_MAX,
    ControllerConfig,
    Decision,
    PartitionCharge,
    no_charge,
)
from ..partition_control import check_assignment, new_partition
from .placement import place_replicas

if TYPE_CHECKING:
    from random import Random

_REMOTE_STORAGE = "remote.storage.enable"
_TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
_TOO_MANY_RECORDS = "Unable to perform excessively large batch operation."


class TopicControl(NamedTuple):
    """The other inputs of a decision: settings, new ids, randomness, the client's quota."""

    config: ControllerConfig
    new_topic_id: Callable[[], Uuid]
    random: "Random"
    charge: PartitionCharge = no_charge


def create_topics(
    control: TopicControl, image: ClusterImage, request: CreateTopicsRequest
) -> Decision[CreateTopicsResponse]:
    """Decide on each topic of the request; with `validate_only` nothing is recorded."""
    named = Counter(topic.name for topic in request.topics)
    default = control.config.num_partitions
    record_count = sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else topic.num_partitions)
        for topic in request.topics
    )
    if record_count > RECORDS_PER_OPERATION_MAX:
        return Decision([], refused_creation(request, _policy(_TOO_MANY_PARTITIONS)))
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    created = 0
    topics = {topic.name: topic for topic in request.topics}
    for name, topic in topics.items():
        try:
            if named[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            result, topic_records = _create_topic(control, image, topic, created)
        except KafkaError as error:
            result = CreatableTopicResult(
                name=name, error_code=error.code, error_message=error.message or None, configs=[]
            )
        else:
            records += topic_records
            created += result.num_partitions
        results.append(result)
    if len(records) > RECORDS_PER_OPERATION_MAX:
        return Decision([], refused_creation(request, _policy(_TOO_MANY_RECORDS)))
    if request.validate_only:
        records = []
    return Decision(records, CreateTopicsResponse(topics=results))


def refused_creation(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """The response when the whole request fails."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=name, error_code=error.code, error_message=error.message, configs=[]
            )
            for name in names
        ]
    )


def _create_topic(
    control: TopicControl, image: ClusterImage, topic: CreatableTopic, created: int
) -> tuple[CreatableTopicResult, list[Message]]:
    _check_new_name(image, topic.name)
    overrides = _overrides(control.config, topic)
    if topic.name in NEVER_TIERED:
        amounts_to = LogConfig.from_properties(overrides, control.config.log_config)
        check_is_kept(control.config, topic.name, amounts_to)
    assignments = _assignments(control, image, topic)
    if topic.name not in NEVER_TIERED:
        # Internal topics are exempt: they are few, and the broker can't serve groups without them.
        check_room(control.config, image, created, len(assignments))
    control.charge(len(assignments))
    topic_id = control.new_topic_id()
    partitions = [
        new_partition(image, topic_id, partition, replicas)
        for partition, replicas in enumerate(assignments)
    ]
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [config_record(topic.name, name, value) for name, value in overrides.items()]
    records += cleared_elr(image, records)
    records += partitions
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(assignments[0]),
        configs=[
            CreatableTopicConfigs(
                name=shown.name,
                value=None if shown.is_sensitive else shown.value,
                read_only=False,
                config_source=shown.source,
                is_sensitive=shown.is_sensitive,
            )
            for shown in topic_config_in_force(control.config, image, overrides)
        ],
    )
    return result, records


def check_room(config: ControllerConfig, image: ClusterImage, created: int, more: int) -> None:
    """Raises KafkaError(POLICY_VIOLATION) if `more` additional partitions are too many.

    `created` is how many this request has created so far. Each partition keeps a file open;
    without this check, running out of file descriptors would be noticed too late.
    """
    existing = created + sum(len(topic.partitions) for topic in image.topics_by_id.values())
    limit = config.partitions_max
    if existing + more > limit:
        raise _policy(
            f"Unable to create {more} more partition(s): this broker has {existing}, and "
            f"tierlog.max.partitions allows {limit} (its default follows from the limit on open "
            "files, ulimit -n)."
        )


def _overrides(config: ControllerConfig, topic: CreatableTopic) -> dict[str, str]:
    """The topic's overrides, with remote storage enabled if that is the default for new topics.

    The default is written into the topic rather than looked up: a later change of the default must
    not disable remote storage for topics that have remote data. Topics that cannot be tiered, for
    example compacted ones, are created without it.
    """
    stated = [(each.name, each.value) for each in topic.configs]
    is_asked = any(name == _REMOTE_STORAGE for name, _ in stated)
    is_default = config.remote_storage_default and config.remote_storage_system_enabled
    if is_default and not is_asked and topic.name not in NEVER_TIERED:
        try:
            return new_topic_config(config, [*stated, (_REMOTE_STORAGE, "true")])
        except KafkaError:
            return new_topic_config(config, stated)
    return new_topic_config(config, stated)


def _check_new_name(image: ClusterImage, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    validate_topic_name(name)
    if name in image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    collision = colliding_topic(name, image.topics_by_name)
    if collision is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {collision}",
        )


def _assignments(
    control: TopicControl, image: ClusterImage, topic: CreatableTopic
) -> Sequence[Sequence[int]]:
    """The replicas of each partition, as given in the request or else chosen here."""
    if topic.assignments:
        return _stated_assignments(image, topic)
    config = control.config
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    partitions = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    replication_factor = (
        config.default_replication_factor
        if topic.replication_factor == -1
        else topic.replication_factor
    )
    return place_replicas(image.brokers, partitions, replication_factor, control.random)


def _stated_assignments(image: ClusterImage, topic: CreatableTopic) -> list[list[int]]:
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set "
            "to -1.",
        )
    if topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    stated: dict[int, list[int]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        partition = assignment.partition_index
        if partition in stated:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_assignment(image, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        stated[partition] = assignment.broker_ids
    if set(stated) != set(range(len(stated))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [stated[partition] for partition in range(len(stated))]


def delete_topics(
    config: ControllerConfig,
    image: ClusterImage,
    request: DeleteTopicsRequest,
    charge: PartitionCharge = no_charge,
) -> Decision[DeleteTopicsResponse]:
    """Decide on each topic of the request, given by name or id.

    As in Kafka, what has both or neither is refused each time, and anything else has one result.
    """
    states = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((state.name, state.topic_id) for state in states)
    results: list[DeletableTopicResult] = []
    records: list[Message] = []
    answered: set[tuple[str | None, Uuid]] = set()
    for state in states:
        name, topic_id = key = (state.name, state.topic_id)
        if key in answered:
            continue
        if (name is None) != (topic_id == ZERO_UUID):
            answered.add(key)
        try:
            topic = _topic_to_delete(config, image, state, named)
            if name is None and named[topic.name, ZERO_UUID] == 1:
                # The result is added where the topic is given by name.
                continue
            name, topic_id = topic.name, topic.topic_id
            if state.name is not None and named[None, topic_id]:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            check_may_delete(config, topic.name)
            charge(len(topic.partitions))
        except KafkaError as error:
            result = DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=error.code,
                error_message=error.message or None,
            )
        else:
            records.append(RemoveTopicRecord(topic_id=topic_id))
            result = DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NONE)
        results.append(result)
    return Decision(records, DeleteTopicsResponse(responses=results))


def refused_deletion(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """The response when the whole request fails."""
    states = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=state.name,
                topic_id=state.topic_id,
                error_code=error.code,
                error_message=error.message,
            )
            for state in states
        ]
    )


def _topic_to_delete(
    config: ControllerConfig,
    image: ClusterImage,
    state: DeleteTopicState,
    named: Counter[tuple[str | None, Uuid]],
) -> TopicImage:
    name, topic_id = state.name, state.topic_id
    if not config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if named[name, topic_id] > 1:
        what = "id" if name is None else "name"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if name is not None:
        topic = image.topics_by_name.get(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic


def create_partitions(
    config: ControllerConfig,
    image: ClusterImage,
    request: CreatePartitionsRequest,
    random: "Random",
    charge: PartitionCharge = no_charge,
) -> Decision[CreatePartitionsResponse]:
    """Decide on each topic of the request; with `validate_only` nothing is recorded."""
    named = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    records: list[Message] = []
    results: list[CreatePartitionsTopicResult] = []
    for name, topic in topics.items():
        try:
            if named[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            check_may_grow(config, name)
            added = _add_partitions(image, topic, random, charge)
            if len(records) + len(added) > RECORDS_PER_OPERATION_MAX:
                raise _policy(_TOO_MANY_RECORDS)
            check_room(config, image, len(records), len(added))
        except KafkaError as error:
            result = CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message or None
            )
        else:
            records += added
            result = CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
        results.append(result)
    if request.validate_only:
        records = []
    return Decision(records, CreatePartitionsResponse(results=results))


def refused_partitions(
    request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    """The response when the whole request fails."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message
            )
            for name in names
        ]
    )


def _policy(message: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _add_partitions(
    image: ClusterImage,
    topic_request: CreatePartitionsTopic,
    random: "Random",
    charge: PartitionCharge,
) -> Sequence[Message]:
    topic = image.topics_by_name.get(topic_request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    existing = len(topic.partitions)
    additional = topic_request.count - existing
    if additional == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s)."
        )
    if additional < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic_request.name} currently has {existing} partition(s); "
            f"{topic_request.count} would not be an increase.",
        )
    if additional > RECORDS_PER_OPERATION_MAX:
        raise _policy(_TOO_MANY_RECORDS)
    replication_factor = len(topic.partitions[0].replicas)
    if topic_request.assignments is not None and len(topic_request.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(topic_request.assignments)} assignment(s) were specified.",
        )
    charge(additional)
    if topic_request.assignments is None:
        assignments = place_replicas(image.brokers, additional, replication_factor, random)
    else:
        assignments = [assignment.broker_ids for assignment in topic_request.assignments]
        for replicas in assignments:
            check_assignment(image, replicas, replication_factor)
    return [
        new_partition(image, topic.topic_id, existing + index, replicas)
        for index, replicas in enumerate(assignments)
    ]

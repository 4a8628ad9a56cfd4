"""Decisions about topics, each with the code and the words of Apache Kafka 4.3.1."""

from random import Random

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.topics.topic_control import (
    TopicControl,
    create_partitions,
    create_topics,
    delete_topics,
)
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.tests import wire

from .topic_cluster import Ids, cluster, topic, with_records

CONFIG = ControllerConfig(1, num_partitions=2)
DEFAULT = -1


def with_topics(image: ClusterImage, *names: str, partitions: int = 1) -> ClusterImage:
    topics = [
        wire.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    control = TopicControl(CONFIG, Ids(), Random(0))
    decision = create_topics(control, image, wire.CreateTopicsRequest(topics=topics))
    assert {result.error_code for result in decision.answer.topics} == {0}
    return with_records(image, *decision.records)


def created(image: ClusterImage, *topics: wire.CreatableTopic) -> dict[str, tuple[int, str | None]]:
    request = wire.CreateTopicsRequest(topics=list(topics))
    decision = create_topics(TopicControl(CONFIG, Ids(), Random(0)), image, request)
    if any(result.error_code for result in decision.answer.topics) and len(topics) == 1:
        assert not decision.records
    return {
        result.name: (result.error_code, result.error_message) for result in decision.answer.topics
    }


INVALID_NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
INVALID_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
LONG = "x" * 250
NOBODY: list[int] = []


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic(""), INVALID_NAME, "Topic name is invalid: the empty string is not allowed"),
        (topic("."), INVALID_NAME, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), INVALID_NAME, "Topic name is invalid: '..' is not allowed"),
        (
            topic(LONG),
            INVALID_NAME,
            f"Topic name is invalid: the length of '{LONG}' is longer than the max allowed "
            "length 249",
        ),
        (
            topic("a b"),
            INVALID_NAME,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (topic("a_b"), INVALID_NAME, "Topic 'a_b' collides with existing topic: a.b"),
        (
            topic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            topic("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic("t", -2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic("t", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic("t", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
            "cannot be reached because only 1 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        ),
        (
            topic("t", DEFAULT, DEFAULT, {0: [1], 2: [1]}),
            INVALID_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic("t", DEFAULT, DEFAULT, {0: [2]}),
            INVALID_ASSIGNMENT,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            topic("t", DEFAULT, DEFAULT, {0: [1, 1]}),
            INVALID_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic("t", DEFAULT, DEFAULT, {0: []}),
            INVALID_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic("t", DEFAULT, DEFAULT, [(0, [1]), (0, [1])]),
            INVALID_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic("t", 1, DEFAULT, {0: [1]}),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic("t", DEFAULT, 1, {0: [1]}),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set "
            "to -1.",
        ),
        (
            topic("t", configs=[("nope", "1")]),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: nope",
        ),
        (
            topic("t", configs=[("retention.ms", "abc")]),
            ErrorCode.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            topic("t", configs=[("retention.ms", None)]),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic("t", configs=[("segment.bytes", "1")]),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            topic("t", configs=[("cleanup.policy", "x")]),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, "
            "delete",
        ),
        (
            topic("t", configs=[("remote.storage.enable", "true")]),
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_in_kafkas_words(
    wanted: wire.CreatableTopic, code: ErrorCode, message: str
) -> None:
    image = with_topics(cluster(), "there", "a.b")
    assert created(image, wanted) == {wanted.name: (code, message)}


def test_one_refused_topic_does_not_harm_the_others() -> None:
    outcomes = created(cluster(), topic("good"), topic("bad name"), topic("twice"), topic("twice"))
    assert outcomes["good"] == (0, None)
    assert outcomes["bad name"][0] == INVALID_NAME
    assert outcomes["twice"] == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def test_names_that_collide_with_each_other_in_one_request_are_both_made_as_in_kafka() -> None:
    outcomes = created(cluster(), topic("e.1"), topic("e_1"))
    assert outcomes == {"e.1": (0, None), "e_1": (0, None)}


def test_a_request_for_more_than_ten_thousand_partitions_is_refused_as_a_whole() -> None:
    policy = ErrorCode.POLICY_VIOLATION
    outcomes = created(cluster(), topic("small"), topic("big", 10_000))
    many = (policy, "Excessively large number of partitions per request.")
    assert outcomes == {"small": many, "big": many}
    alone = created(cluster(), topic("big", 10_000))
    assert alone == {"big": (policy, "Unable to perform excessively large batch operation.")}


def test_a_new_topic_is_recorded_as_topic_configs_and_partitions() -> None:
    wanted = topic("t", 2, configs=[("retention.ms", "1"), ("retention.ms", "2")])
    request = wire.CreateTopicsRequest(topics=[wanted])
    decision = create_topics(TopicControl(CONFIG, Ids(), Random(0)), cluster(), request)
    assert [type(record) for record in decision.records] == [
        TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord,
    ]  # fmt: skip
    image = with_records(cluster(), *decision.records)
    assert image.topic_config("t") == {"retention.ms": "2"}
    partition = image.topics_by_name["t"].partitions[1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_the_answer_shows_what_was_made_with_the_source_of_every_value() -> None:
    config = ControllerConfig(1, num_partitions=3, static_config={"log.retention.bytes": "-1"})
    wanted = topic("t", DEFAULT, DEFAULT, configs=[("retention.ms", "5")])
    request = wire.CreateTopicsRequest(topics=[wanted])
    decision = create_topics(TopicControl(config, Ids(), Random(0)), cluster(), request)
    (result,) = decision.answer.topics
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    shown = {one.name: (one.value, one.config_source) for one in result.configs or ()}
    assert len(shown) == 33
    assert shown["retention.ms"] == ("5", 1)
    assert shown["retention.bytes"] == ("-1", 4)
    assert shown["segment.bytes"] == ("1073741824", 5)


def test_validation_alone_records_nothing_but_answers_the_same() -> None:
    request = wire.CreateTopicsRequest(topics=[topic("t")], validate_only=True)
    decision = create_topics(TopicControl(CONFIG, Ids(), Random(0)), cluster(), request)
    assert not decision.records
    assert decision.answer.topics[0].error_code == 0
    assert decision.answer.topics[0].topic_id != ZERO_UUID


def test_replicas_need_a_broker_that_is_not_fenced() -> None:
    image = cluster(1, 2)
    fenced = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=0, fenced=1)
    image = with_records(image, fenced)
    outcomes = created(image, topic("t", DEFAULT, DEFAULT, {0: [2]}))
    assert outcomes == {
        "t": (
            INVALID_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition 0 are fenced "
            "or in controlled shutdown.",
        )
    }
    assert created(image, topic("t", DEFAULT, DEFAULT, {0: [2, 1]})) == {"t": (0, None)}


def deleted(image: ClusterImage, *states: wire.DeleteTopicState) -> list[wire.DeletableTopicResult]:
    request = wire.DeleteTopicsRequest(topics=list(states), timeout_ms=1_000)
    return delete_topics(CONFIG, image, request).answer.responses


def test_topics_are_deleted_by_name_or_by_id() -> None:
    image = with_topics(cluster(), "a", "b", "c")
    topic_id = image.topics_by_name["b"].topic_id
    request = wire.DeleteTopicsRequest(
        topics=[wire.DeleteTopicState(name="a"), wire.DeleteTopicState(topic_id=topic_id)]
    )
    decision = delete_topics(CONFIG, image, request)
    assert [(one.name, one.error_code) for one in decision.answer.responses] == [("a", 0), ("b", 0)]
    assert [type(record) for record in decision.records] == [RemoveTopicRecord] * 2
    assert list(with_records(image, *decision.records).topics_by_name) == ["c"]
    by_old_version = delete_topics(CONFIG, image, wire.DeleteTopicsRequest(topic_names=["c", "x"]))
    assert [one.error_code for one in by_old_version.answer.responses] == [
        0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip


def test_deletions_that_are_refused() -> None:
    image = with_topics(cluster(), "a", "b")
    topic_id = image.topics_by_name["a"].topic_id
    unknown_id = Uuid(b"u" * 16)
    both = wire.DeleteTopicState(name="b", topic_id=image.topics_by_name["b"].topic_id)
    cases: list[tuple[list[wire.DeleteTopicState], ErrorCode, str]] = [
        ([both], ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (
            [wire.DeleteTopicState()],
            ErrorCode.INVALID_REQUEST,
            "Neither topic name nor id were specified.",
        ),
        (
            [wire.DeleteTopicState(name="x")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        (
            [wire.DeleteTopicState(topic_id=unknown_id)],
            ErrorCode.UNKNOWN_TOPIC_ID,
            "This server does not host this topic ID.",
        ),
        (
            [wire.DeleteTopicState(name="x"), wire.DeleteTopicState(name="x")],
            ErrorCode.INVALID_REQUEST,
            "Duplicate topic name.",
        ),
        (
            [wire.DeleteTopicState(topic_id=topic_id), wire.DeleteTopicState(topic_id=topic_id)],
            ErrorCode.INVALID_REQUEST,
            "Duplicate topic id.",
        ),
        (
            [wire.DeleteTopicState(name="a"), wire.DeleteTopicState(topic_id=topic_id)],
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        ),
    ]
    for states, code, message in cases:
        for result in deleted(image, *states):
            assert (result.error_code, result.error_message) == (code, message)
    disabled = ControllerConfig(1, delete_topic_enable=False)
    refused = delete_topics(disabled, image, wire.DeleteTopicsRequest(topic_names=["a"]))
    assert refused.answer.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_deleting_a_topic_takes_its_configuration_along() -> None:
    image = with_topics(cluster(), "a")
    override = ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="5")
    image = with_records(image, override)
    assert image.topic_config("a") == {"retention.ms": "5"}
    image = with_records(image, RemoveTopicRecord(topic_id=image.topics_by_name["a"].topic_id))
    assert image.topic_config("a") == {}
    assert not image.configs


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "message"),
    [
        ("nope", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("t", 3, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s)."),
        (
            "t",
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); 1 would not be an increase.",
        ),
        (
            "t",
            5,
            [[1]],
            INVALID_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "t",
            4,
            [[2]],
            INVALID_ASSIGNMENT,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            "t",
            4,
            [NOBODY],
            INVALID_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            "t",
            20_000,
            None,
            ErrorCode.POLICY_VIOLATION,
            "Unable to perform excessively large batch operation.",
        ),
        ("t", 4, [[1]], ErrorCode.NONE, None),
        ("t", 6, None, ErrorCode.NONE, None),
    ],
)
def test_widening_a_topic(
    name: str, count: int, assignments: list[list[int]] | None, code: ErrorCode, message: str | None
) -> None:
    image = with_topics(cluster(), "t", partitions=3)
    stated = (
        None
        if assignments is None
        else [wire.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    )
    asked = wire.CreatePartitionsTopic(name=name, count=count, assignments=stated)
    decision = create_partitions(
        CONFIG, image, wire.CreatePartitionsRequest(topics=[asked]), Random(0)
    )
    (result,) = decision.answer.results
    assert (result.error_code, result.error_message) == (code, message)
    partitions = with_records(image, *decision.records).topics_by_name["t"].partitions
    assert len(partitions) == (3 if code else count)


def test_new_partitions_get_as_many_replicas_as_the_old() -> None:
    image = cluster(1, 2, 3)
    wanted = topic("t", DEFAULT, DEFAULT, {0: [1, 2]})
    control = TopicControl(CONFIG, Ids(), Random(0))
    decision = create_topics(control, image, wire.CreateTopicsRequest(topics=[wanted]))
    image = with_records(image, *decision.records)
    asked = wire.CreatePartitionsTopic(name="t", count=4, assignments=None)
    request = wire.CreatePartitionsRequest(topics=[asked])
    widened = with_records(image, *create_partitions(CONFIG, image, request, Random(0)).records)
    assert [len(one.replicas) for one in widened.topics_by_name["t"].partitions.values()] == [2] * 4


def test_more_partitions_than_the_broker_can_open_are_refused_before_they_are_made() -> None:
    config = ControllerConfig(1, partitions_max=5)
    control = TopicControl(config, Ids(), Random(0))
    image = with_topics(cluster(), "t", partitions=2)
    asked = [topic("a", 2, 1), topic("b", 2, 1), topic("c", 1, 1)]
    decision = create_topics(control, image, wire.CreateTopicsRequest(topics=asked))
    fine, refused, last = decision.answer.topics
    assert (fine.error_code, last.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert refused.error_message == (
        "Unable to create 2 more partition(s): this broker has 4, and tierlog.max.partitions "
        "allows 5 (its default follows from the limit on open files, ulimit -n)."
    )
    widened = wire.CreatePartitionsTopic(name="t", count=6, assignments=None)
    request = wire.CreatePartitionsRequest(topics=[widened])
    (result,) = create_partitions(config, image, request, Random(0)).answer.results
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    # Without its own topics a broker serves no group.
    own = wire.CreateTopicsRequest(topics=[topic("__consumer_offsets", 50, 1)])
    (made,) = create_topics(control, image, own).answer.topics
    assert made.error_code == ErrorCode.NONE

"""The cluster image: the fold of records, in one run or in many, and what it refuses."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

from .folded_image import fold

EMPTY = ClusterImage("cluster")
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def topic(name: str, topic_id: Uuid, partitions: int = 1) -> list[Message]:
    partition_records = [
        PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=[1, 2],
            isr=[1, 2],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        for partition in range(partitions)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partition_records]


def config(name: str, value: str | None, resource: str = "a") -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=resource, name=name, value=value)


def test_a_change_raises_the_partition_epoch_and_a_named_leader_the_leader_epoch() -> None:
    image = fold(EMPTY, *topic("a", A))
    image = fold(image, PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1]))
    partition = image.topics_by_name["a"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch, partition.isr) == (0, 1, (1,))
    image = fold(image, PartitionChangeRecord(partition_id=0, topic_id=A, leader=1))
    partition = image.topics_by_name["a"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch, partition.leader) == (1, 2, 1)
    assert partition.isr == (1,)


def test_an_older_image_is_not_changed_and_untouched_parts_are_shared() -> None:
    before = fold(EMPTY, *topic("a", A), config("retention.ms", "1"))
    after = fold(before, *topic("b", B))
    assert list(before.topics_by_name) == ["a"]
    assert sorted(after.topics_by_name) == ["a", "b"]
    assert after.topics_by_name["a"] is before.topics_by_name["a"]
    assert after.configs is before.configs


def test_a_topic_made_again_is_another_topic_without_the_old_configuration() -> None:
    image = fold(EMPTY, *topic("a", A, 3), config("retention.ms", "1"))
    delta = ClusterDelta(image)
    delta.replay_all([RemoveTopicRecord(topic_id=A), *topic("a", B), config("segment.ms", "2")])
    after = delta.apply(9, 1)
    assert list(delta.deleted_topics) == [A]
    assert after.topics_by_name["a"].topic_id == B
    assert list(after.topics_by_id) == [B]
    assert len(after.topics_by_name["a"].partitions) == 1
    assert after.topic_config("a") == {"segment.ms": "2"}


def test_a_topic_that_comes_and_goes_in_one_run_leaves_nothing() -> None:
    delta = ClusterDelta(EMPTY)
    delta.replay_all([*topic("a", A), config("x", "1"), RemoveTopicRecord(topic_id=A)])
    image = delta.apply(3, 1)
    assert not delta.changed_topics
    assert not delta.deleted_topics
    assert not image.topics_by_name
    assert not image.configs


def test_a_configuration_without_values_is_gone() -> None:
    image = fold(EMPTY, *topic("a", A), config("x", "1"), config("y", "2"), config("x", None))
    assert image.topic_config("a") == {"y": "2"}
    assert not fold(image, config("y", None)).configs


def test_brokers_come_change_and_go() -> None:
    image = fold(EMPTY, RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=[A]))
    assert not image.brokers[1].is_active
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1)
    image = fold(image, change)
    assert image.brokers[1].is_active
    assert image.brokers[1].directories == (A,)
    leaving = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=5, in_controlled_shutdown=1, log_dirs=[B]
    )
    image = fold(image, leaving)
    assert not image.brokers[1].is_active
    assert image.brokers[1].directories == (B,)
    assert fold(image, FenceBrokerRecord(id=1, epoch=5)).brokers[1].fenced
    assert not fold(image, UnfenceBrokerRecord(id=1, epoch=5)).brokers[1].fenced
    assert not fold(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=5)).brokers


@pytest.mark.parametrize(("named", "cleared"), [("a", ["a"]), ("", ["a", "b"])])
def test_clearing_the_eligible_leader_replicas_is_a_change_of_each_partition_that_has_some(
    named: str, cleared: list[str]
) -> None:
    """As in Kafka's `TopicDelta`; an empty name means all topics."""
    out = [
        PartitionChangeRecord(partition_id=0, topic_id=each, eligible_leader_replicas=[2])
        for each in (A, B)
    ]
    before = fold(EMPTY, *topic("a", A, 2), *topic("b", B), *out)
    image = fold(before, ClearElrRecord(topic_name=named))
    for name in ("a", "b"):
        partition = image.topics_by_name[name].partitions[0]
        is_cleared = name in cleared
        assert partition.elr == (() if is_cleared else (2,))
        assert partition.partition_epoch == (2 if is_cleared else 1)
    assert image.topics_by_name["a"].partitions[1].partition_epoch == 0
    with pytest.raises(KafkaError, match="does not exist"):
        fold(image, ClearElrRecord(topic_name="never"))


def test_clearing_strands_a_partition_without_isr() -> None:
    """Kafka's `TopicDelta.maybeClearElr` looks only at what it clears, not at the ISR."""
    no_leader = PartitionChangeRecord(
        partition_id=0,
        topic_id=A,
        leader=-1,
        isr=[],
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    )
    before = fold(EMPTY, *topic("a", A), no_leader)
    partition = fold(before, ClearElrRecord(topic_name="a")).topics_by_name["a"].partitions[0]
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (), ())
    assert partition.leader == -1


def test_features_and_producer_ids() -> None:
    image = fold(
        EMPTY,
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        ProducerIdsRecord(broker_id=1, next_producer_id=3_000),
        NoOpRecord(),
    )
    assert image.features == {"metadata.version": 30, "group.version": 1}
    assert image.next_producer_id == 3_000
    off = fold(image, FeatureLevelRecord(name="group.version", feature_level=0))
    assert off.features == {"metadata.version": 30}


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(partition_id=0, topic_id=B),
        PartitionChangeRecord(partition_id=0, topic_id=B),
        PartitionChangeRecord(partition_id=9, topic_id=A),
        RemoveTopicRecord(topic_id=B),
        UnregisterBrokerRecord(broker_id=9),
        BrokerRegistrationChangeRecord(broker_id=9),
        FenceBrokerRecord(id=9),
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(record: Message) -> None:
    image = fold(EMPTY, *topic("a", A))
    with pytest.raises(KafkaError) as refused:
        fold(image, record)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_deletion_stays_on_record() -> None:
    """It alone lets the topic's data go, however many topics and lives ago it was."""
    gone, brief, living = (Uuid(bytes([number]) * 16) for number in (1, 2, 3))
    image = fold(EMPTY, *topic("gone", gone), *topic("living", living))
    image = fold(image, RemoveTopicRecord(topic_id=gone))
    image = fold(image, *topic("brief", brief), RemoveTopicRecord(topic_id=brief))
    image = fold(image, *topic("gone", Uuid(bytes([4]) * 16)))
    assert image.deleted_topic_ids == {gone, brief}


STEPS = st.sampled_from(["create", "widen", "change", "configure", "remove"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 2)), max_size=30), st.data())
def test_many_small_runs_give_the_image_of_one_long_run(
    plan: list[tuple[str, int]], data: st.DataObject
) -> None:
    records: list[Message] = []
    alive: dict[int, tuple[Uuid, int]] = {}
    for number, (step, slot) in enumerate(plan):
        if slot not in alive:
            topic_id = Uuid(number.to_bytes(16, "big"))
            alive[slot] = (topic_id, 1)
            records += topic(f"t{slot}", topic_id)
            continue
        topic_id, partitions = alive[slot]
        if step == "widen":
            alive[slot] = (topic_id, partitions + 1)
            records.append(PartitionRecord(partition_id=partitions, topic_id=topic_id))
        elif step == "change":
            records.append(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        elif step == "configure":
            records.append(config(f"c{number % 3}", str(number), f"t{slot}"))
        elif step == "remove":
            del alive[slot]
            records.append(RemoveTopicRecord(topic_id=topic_id))
    cut = data.draw(st.integers(0, len(records)))
    whole = fold(EMPTY, *records)
    parts = fold(fold(EMPTY, *records[:cut]), *records[cut:])
    assert parts == whole
    everything = ClusterDelta.between(EMPTY, whole).apply(whole.offset, whole.epoch)
    assert everything == whole
